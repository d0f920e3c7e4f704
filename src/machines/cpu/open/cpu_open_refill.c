/* A table filled with the keys of another one: each partition by one thread, from the few partitions whose keys may fall into
 * it. */
#include "machines/cpu/open/cpu_open.h"

typedef struct refill_work {
    const loom__cpu_open_simd *simd;
    const loom__open_view *to;
    loom__table_slots from;
    loom__cpu_counts counts;
} refill_work;

static void insert_records(void *argument, const loom__cpu_records *records)
{
    refill_work *work = argument;
    work->simd->insert_in_order(work->to, records, 0, &work->counts);
}

static void refill_partition(void *argument, uint64_t partition)
{
    refill_work *work = argument;
    const loom__open_view *to = work->to;
    loom__cpu_open_clear_partition(to, partition);
    loom__cpu_move_keys(&work->from, to->seed, to->partitions, (uint32_t)partition, insert_records, work);
}

loom_status loom__cpu_open_refill(loom__machine *machine, const void *any_from, const void *any_to, uint64_t *refused,
                                  loom_stream stream)
{
    const loom__open_view *to = any_to;
    loom__cpu_machine_state *cpu = (loom__cpu_machine_state *)machine;
    refill_work work = {.simd = cpu->open_simd, .to = to, .from = open_table_slots(any_from)};
    (void)stream;
    loom__pool_run(cpu->pool, to->partitions, refill_partition, &work);
    *refused = work.counts.full;
    return LOOM_OK;
}
