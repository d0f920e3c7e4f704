/* How the perfect engine fills partitions from another table (cpu_map_refill.h). The thread sorts the keys of an old
 * partition into bins, one for each new partition, and inserts a bin when it is full. Insertions of one partition
 * follow each other, so its codes stay in the L1 cache. */

enum { BINS = 16, BIN_KEYS = 128 };

typedef struct engine_filling {
    map_work *work;
    uint32_t first, count; /* partitions */
    loom__cpu_perfect_scratch scratch;
    uint32_t fill[BINS + 1];
    struct {
        uint64_t key, value;
    } bins[BINS + 1][BIN_KEYS]; /* the last bin takes what does not belong here, and stays empty */
} engine_filling;

static uint32_t engine_most_filled(const loom__perfect_view *view)
{
    (void)view;
    return BINS;
}

static void engine_filling_open(engine_filling *filling, map_work *work, uint32_t first, uint32_t end)
{
    filling->work = work;
    filling->first = first;
    filling->count = end - first;
    memset(filling->fill, 0, sizeof filling->fill);
    engine_scratch_open(&filling->scratch, &work->cpu->base.allocator, work->view, first, end);
}

static void engine_filling_close(engine_filling *filling)
{
    engine_scratch_close(&filling->scratch);
}

static void empty_bin(engine_filling *filling, uint32_t bin)
{
    const loom__batch keep = {.write = LOOM__WRITE_KEEP};
    const loom__cpu_records records = {
        .keys = (const unsigned char *)&filling->bins[bin][0].key,
        .values = (const unsigned char *)&filling->bins[bin][0].value,
        .key_stride = sizeof filling->bins[bin][0],
        .value_stride = sizeof filling->bins[bin][0],
        .n = filling->fill[bin],
    };
    map_work *work = filling->work;
    work->simd->insert(work->view, &keep, &records, &filling->scratch, &work->counts);
    filling->fill[bin] = 0;
}

/* Does not branch on whether a slot holds a key: at load 0.8 every fifth slot would be mispredicted. */
LOOM_LANE void sort_source(loom__slot_kind kind, engine_filling *filling, uint32_t source)
{
    const loom__seed seed = filling->work->view->seed;
    const uint32_t partitions = filling->work->view->partitions, key_bytes = slot_key_bytes(kind);
    loom__table_slots from = filling->work->from;
    from.kind = kind; /* literals for the compiler */
    from.slots = perfect_slots(kind);
    const uint64_t empty = loom__slots_empty(&from, source);
    for (uint32_t bucket = 0; bucket < from.buckets; bucket++)
        for (uint32_t slot = 0; slot < from.slots; slot++) {
            const uint64_t key = loom__slot_number(loom__slot_key_at(&from, source, bucket, slot), key_bytes);
            const uint32_t place =
                loom__hash_partition(loom__hash_key(key, key_bytes, seed), partitions) - filling->first;
            const uint32_t ours = (uint32_t)(key != empty) & (uint32_t)(place < filling->count), mask = 0 - ours;
            const uint32_t bin = (place & mask) | (BINS & ~mask), at = filling->fill[bin];
            filling->bins[bin][at].key = key;
            filling->bins[bin][at].value =
                loom__slot_number(loom__slot_value_at(&from, source, bucket, slot), slot_value_bytes(kind));
            filling->fill[bin] = at + ours;
            if (at + ours == BIN_KEYS)
                empty_bin(filling, bin);
        }
}

static void engine_fill_from(engine_filling *filling, uint32_t source)
{
#define CALL(kind) sort_source(kind, filling, source)
    SLOT_FOR_KIND(filling->work->from.kind, CALL)
#undef CALL
    for (uint32_t bin = 0; bin < filling->count; bin++)
        if (filling->fill[bin] > 0)
            empty_bin(filling, bin);
}
