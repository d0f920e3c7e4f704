/* How the open engine fills partitions from another table (cpu_map_refill.h).
 *
 * The thread sorts the keys of an old partition into bins, one for each new partition. A full bin goes to its
 * partition. All keys are different and new, so none is looked up. Slots of a bucket are taken from the lowest on, and
 * a count for each bucket says how many are taken. So a key is stored without a load of its bucket, whose line may be
 * on its way from the L2 cache.
 *
 * The sort has BINS bins. If an old partition feeds more new ones, it is sorted several times. Each slot is stored at
 * the end of a bin, and only a key that belongs there makes the bin longer: there is no branch on whether a slot holds
 * a key, which would be mispredicted for every fifth slot at load 0.8. The lengths of all bins are in one register, so
 * no load waits for a store.
 *
 * Measured on two cores of a Neoverse V1, 10^7 pairs of 4 + 4 bytes into a table of twice the capacity, M keys/s: 245.
 * Lengths in memory: 217. Without bins, each key at once to its place: 193; the new partitions together have more pages
 * than the first level of the TLB. With a lookup of each key in each old partition that feeds its new one: 80. */

enum {
    BINS = 4,                                  /* a partition of a table that doubles feeds two, three or four others */
    BIN_WORDS = 256,                           /* a bin with more is emptied; a power of two */
    MOST_OF_BUCKET = 14,                       /* words that a bucket adds to a bin */
    MOST_COUNTS = 16 * OPEN_PREFERRED_BUCKETS, /* 28 KB of the stack */
    BUCKETS_AHEAD = 32 /* buckets between prefetch and use: the processor's own prefetches end where a page ends */
};

#define FULL (BIN_WORDS * (uint64_t)0x0001000100010001) /* one of these bits is set in the lengths: a bin is full */

typedef struct engine_filling {
    map_work *work;
    uint32_t first, count;                           /* partitions */
    uint64_t bins[BINS][BIN_WORDS + MOST_OF_BUCKET]; /* a key is one word, or two if values lie apart */
    uint8_t taken[MOST_COUNTS]; /* slots with keys: of the first partition's buckets, then of the next one's */
} engine_filling;

static uint32_t engine_most_filled(const loom__open_view *view)
{
    return MOST_COUNTS / view->buckets;
}

static void engine_filling_open(engine_filling *filling, map_work *work, uint32_t first, uint32_t end)
{
    filling->work = work;
    filling->first = first;
    filling->count = end - first;
    memset(filling->taken, 0, (uint64_t)(end - first) * work->view->buckets);
}

static void engine_filling_close(engine_filling *filling)
{
    (void)filling;
}

/* Stores a key whose home bucket is full. Leaves the key's filter bit in every bucket that it passes (I2). At most
 * `buckets` rounds. False: the partition is full; nobody will use the table. */
LOOM_STEP int store_further(loom__slot_kind kind, const loom__open_view *view, uint8_t *taken, uint64_t key,
                            uint64_t value)
{
    open_walk walk = open_start(kind, view, key);
    while (taken[walk.bucket] == open_slots(kind)) {
        open_set_bit(kind, OPEN_ALONE, &walk, walk.bucket);
        open_advance(view, &walk);
        if (walk.depth == view->buckets)
            return 0;
    }
    return open_claim(kind, OPEN_ALONE, view, &walk, walk.bucket, taken[walk.bucket]++, value) != 0;
}

LOOM_LANE uint32_t item_words(loom__slot_kind kind)
{
    return slot_values_apart(kind) ? 2 : 1;
}

/* Stores `end` words of items in a partition; `place` counts from filling->first. */
LOOM_LANE void store_items(loom__slot_kind kind, engine_filling *filling, uint32_t place, const uint64_t *items,
                           uint32_t end)
{
    const loom__open_view *view = filling->work->view;
    const loom__seed seed = view->seed;
    const uint32_t words = item_words(kind), buckets = view->buckets;
    unsigned char *const partition = view->base + (uint64_t)(filling->first + place) * view->partition_bytes;
    uint8_t *const taken = filling->taken + (uint64_t)place * buckets;
    uint64_t refused = 0;
    for (uint32_t i = 0; i < end; i += words) {
        const uint64_t key = kind == SLOT_PAIR_4_4 ? (uint32_t)items[i] : items[i];
        const uint64_t value = kind == SLOT_PAIR_4_4 ? items[i] >> 32 : items[i + words - 1];
        const uint32_t lower = (uint32_t)loom__hash_key(key, slot_key_bytes(kind), seed);
        const uint32_t home = loom__hash_bucket(lower, buckets), slot = taken[home];
        if (slot == open_slots(kind)) {
            refused += !store_further(kind, view, taken, key, value);
            continue;
        }
        taken[home] = (uint8_t)(slot + 1);
        open_fill(kind, partition + (uint64_t)home * open_line_stride(kind), slot, key, value);
    }
    if (refused > 0)
        loom__cpu_add_counts(&filling->work->counts, &(loom__cpu_counts){.full = refused});
}

/* The lengths of all bins in one word, 16 bits each: adding to one of them does not become a branch. */
LOOM_LANE uint32_t end_of(uint64_t ends, uint32_t bin)
{
    return (uint32_t)(ends >> bin * 16) & 0xffff;
}

/* Empties the bins that have at least `least` words, and returns the lengths afterwards. */
LOOM_LANE uint64_t empty_bins(loom__slot_kind kind, engine_filling *filling, uint32_t place, uint64_t ends,
                              uint32_t least)
{
    for (uint32_t bin = 0; bin < BINS; bin++)
        if (end_of(ends, bin) >= least) {
            store_items(kind, filling, place + bin, filling->bins[bin], end_of(ends, bin));
            ends &= ~((uint64_t)0xffff << bin * 16);
        }
    return ends;
}

/* Moves the keys of an old partition that belong into `count` new ones from `place` on, at most BINS. */
LOOM_LANE void move_keys(loom__slot_kind kind, engine_filling *filling, uint32_t source, uint32_t place, uint32_t count)
{
    const loom__seed seed = filling->work->view->seed;
    const uint32_t partitions = filling->work->view->partitions, first = filling->first + place;
    const uint32_t key_bytes = slot_key_bytes(kind), words = item_words(kind);
    uint64_t ends = 0;
    loom__table_slots from = filling->work->from;
    const uint64_t empty = loom__slots_empty(&from, source);
    from.kind = kind; /* literals for the compiler */
    from.slots = open_slots(kind);
    from.line_stride = open_line_stride(kind);
    from.value_stride = open_line_stride(kind);
    for (uint32_t bucket = 0; bucket < from.buckets; bucket++) {
        lane_prefetch(loom__slot_key_at(&from, source, bucket + BUCKETS_AHEAD, 0));
        if (open_span(kind) > OPEN_LINE_BYTES)
            lane_prefetch(loom__slot_value_at(&from, source, bucket + BUCKETS_AHEAD, 0));
        for (uint32_t slot = 0; slot < from.slots; slot++) {
            const uint64_t item = loom__slot_number(loom__slot_key_at(&from, source, bucket, slot), slot_stride(kind));
            const uint64_t value = words == 1 ? 0
                                              : loom__slot_number(loom__slot_value_at(&from, source, bucket, slot),
                                                                  slot_value_bytes(kind));
            const uint64_t key = kind == SLOT_PAIR_4_4 ? (uint32_t)item : item;
            const uint32_t bin = loom__hash_partition(loom__hash_key(key, key_bytes, seed), partitions) - first;
            const uint64_t ours = (uint64_t)((uint32_t)(key != empty) & (uint32_t)(bin < count));
            uint64_t *const end = &filling->bins[bin % BINS][end_of(ends, bin % BINS)];
            end[0] = item; /* overwritten by the next item if it is not ours */
            if (words == 2)
                end[1] = value;
            ends += ours * words << bin % BINS * 16;
        }
        if (ends & FULL)
            ends = empty_bins(kind, filling, place, ends, BIN_WORDS);
    }
    empty_bins(kind, filling, place, ends, 1);
}

_Static_assert((int)MOST_COUNTS >= (int)OPEN_MOST_BUCKETS, "a run has a partition");
_Static_assert(BINS * 16 == 64 && BIN_WORDS + MOST_OF_BUCKET < 2 * BIN_WORDS,
               "a word holds the lengths of all bins, and bits of FULL are clear below BIN_WORDS");

static void engine_fill_from(engine_filling *filling, uint32_t source)
{
    const uint32_t end = filling->first + filling->count;
    uint32_t first, last; /* new partitions that the old one feeds */
    loom__hash_sources(source, filling->work->from.partitions, filling->work->view->partitions, &first, &last);
    first = first > filling->first ? first : filling->first;
    last = last < end ? last : end - 1;
    for (; first <= last; first += BINS) {
        const uint32_t left = last - first + 1, count = left < BINS ? left : BINS;
#define CALL(kind) move_keys(kind, filling, source, first - filling->first, count)
        SLOT_FOR_KIND(filling->work->from.kind, CALL)
#undef CALL
    }
}
