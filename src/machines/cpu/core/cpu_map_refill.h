/* Refill on the cpu machine: moves the keys of one table into another table of the same engine and seed. Compiled once
 * for each engine. Before including this file, include cpu_map_calls.h and define:
 *
 *   engine_filling       a type: what a thread remembers of the partitions that it fills
 *   engine_most_filled(view)
 *                        how many partitions of the new table a thread can fill at a time, at least one
 *   engine_filling_open(filling, work, first, end), engine_filling_close(filling)
 *                        for partitions first .. end - 1 of the new table
 *   engine_fill_from(filling, source)
 *                        stores the keys of an old partition that belong into these partitions. All keys of a table
 *                        are different, and the new partitions held none before the first call
 *
 * A partition is a range of hashes. So the keys of a run of adjacent partitions of the new table come from a run of
 * adjacent partitions of the old table (loom__hash_sources). One thread fills a run. It reads the old partitions of the
 * run one after the other. While a table doubles, each of them feeds two or three new partitions, which stay in the L2
 * cache until they are filled. An old partition is read once, or twice if two runs meet in it. */

enum { TASKS_PER_THREAD = 4 /* at least, if there are partitions enough: no thread waits long for the last task */ };

static void refill_run(map_work *work, uint32_t first, uint32_t end)
{
    const engine_view *to = work->view;
    engine_filling filling;
    uint32_t source, last_source, last_fed, none, cleared = first;
    engine_filling_open(&filling, work, first, end);
    loom__hash_sources(first, to->partitions, work->from.partitions, &source, &none);
    loom__hash_sources(end - 1, to->partitions, work->from.partitions, &none, &last_source);
    for (; source <= last_source; source++) {
        loom__hash_sources(source, work->from.partitions, to->partitions, &none, &last_fed);
        for (; cleared < end && cleared <= last_fed; cleared++) /* late, so that it stays in the cache */
            engine_clear_partition(to, cleared);
        engine_fill_from(&filling, source);
    }
    engine_filling_close(&filling);
}

/* Partitions of a task. */
static uint32_t refill_run_length(const map_work *work)
{
    const uint32_t share = work->view->partitions / (work->cpu->threads * TASKS_PER_THREAD);
    const uint32_t most = engine_most_filled(work->view);
    return share < 1 ? 1 : share < most ? share : most;
}

static void refill_task(void *argument, uint64_t index)
{
    map_work *work = argument;
    const uint32_t run = refill_run_length(work), first = (uint32_t)index * run;
    const uint32_t left = work->view->partitions - first;
    refill_run(work, first, first + (left < run ? left : run));
}

static loom_status refill(loom__machine *machine, const void *from, const void *to, uint64_t *refused,
                          loom_stream stream)
{
    map_work work = work_on(machine, to);
    (void)stream;
    work.from = engine_slots(from);
    const uint32_t run = refill_run_length(&work);
    loom__pool_run(work.cpu->pool, ((uint64_t)work.view->partitions + run - 1) / run, refill_task, &work);
    *refused = work.counts.full;
    return LOOM_OK;
}
