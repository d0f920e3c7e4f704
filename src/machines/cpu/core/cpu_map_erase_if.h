/* erase_if on the cpu machine, for engines whose slots have values of 4 or 8 bytes. Before including this file, include
 * cpu_map_calls.h and define:
 *
 *   engine_bucket_slots(kind)                     slots of a bucket
 *   engine_slot_emptied(kind, view, partition, bucket, slot, key)
 *                                                 completes the erasure of a key whose slot was made empty; returns
 *                                                 the wear
 *   engine_partition_emptied(view, partition, wear)
 *                                                 completes the erasures in a partition; `wear` is their sum */

/* Reads all slots of a bucket without a branch. *erased: the slots whose values lie in the range. *pairs: how many
 * slots hold a key. A free slot has a value, too: zero. */
LOOM_LANE void find_in_range(const loom__table_slots *table, const loom__value_range *range, uint32_t partition,
                             uint32_t bucket, uint32_t *erased, uint32_t *pairs)
{
    const uint32_t key_bytes = slot_key_bytes(table->kind), value_bytes = slot_value_bytes(table->kind);
    const uint64_t empty = loom__slots_empty(table, partition);
    uint32_t holders = 0, in_range = 0; /* sets of slots */
    for (uint32_t slot = 0; slot < table->slots; slot++) {
        const uint64_t key = loom__slot_number(loom__slot_key_at(table, partition, bucket, slot), key_bytes);
        const uint64_t value = loom__slot_number(loom__slot_value_at(table, partition, bucket, slot), value_bytes);
        holders |= (uint32_t)(key != empty) << slot;
        in_range |= (uint32_t)loom__value_in_range(range, value) << slot;
    }
    *erased = holders & in_range;
    *pairs = loom__count_bits(holders);
}

/* One thread erases the pairs of one partition. The values are floats, or they are not: a third of the work is for
 * floats alone. */
LOOM_LANE void erase_in_partition(loom__slot_kind kind, int floats, map_work *work, uint32_t partition)
{
    loom__table_slots table = work->from;
    loom__value_range range = work->range;
    loom__cpu_counts own = {0};
    uint32_t wear = 0;
    table.kind = kind; /* literals for the compiler */
    table.slots = engine_bucket_slots(kind);
    if (!floats)
        range.fold = 0;
    for (uint32_t bucket = 0; bucket < table.buckets; bucket++) {
        uint32_t erased, pairs;
        find_in_range(&table, &range, partition, bucket, &erased, &pairs);
        own.ok += loom__count_bits(erased);
        own.exists += pairs - loom__count_bits(erased);
        for (; erased != 0; erased &= erased - 1) {
            const uint32_t slot = loom__lowest_bit(erased);
            const uint64_t key =
                loom__slot_number(loom__slot_key_at(&table, partition, bucket, slot), slot_key_bytes(kind));
            loom__slot_empty_out(&table, partition, bucket, slot);
            wear += engine_slot_emptied(kind, work->view, partition, bucket, slot, key);
        }
    }
    if (own.ok > 0)
        engine_partition_emptied(work->view, partition, wear);
    loom__cpu_add_counts(&work->counts, &own);
}

static void erase_task(void *argument, uint64_t partition)
{
    map_work *work = argument;
#define CALL(kind)                                                                 \
    work->range.fold != 0 ? erase_in_partition(kind, 1, work, (uint32_t)partition) \
                          : erase_in_partition(kind, 0, work, (uint32_t)partition)
    SLOT_FOR_KIND(work->from.kind, CALL)
#undef CALL
}

static loom_status erase_if(loom__machine *machine, const void *view, const loom__value_range *range,
                            loom_result *result, loom_stream stream)
{
    map_work work = work_on(machine, view);
    (void)stream;
    work.from = engine_slots(view);
    work.range = *range;
    for_each_partition(&work, erase_task);
    work.view->totals->size -= work.counts.ok;
    loom__cpu_write_result(result, work.counts.ok + work.counts.exists, &work.counts);
    return LOOM_OK;
}
