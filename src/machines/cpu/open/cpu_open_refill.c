/* Fills a table with the keys of another one. One thread fills each partition, from the few source partitions whose
 * keys can fall into it. */
#define LOOM_LANES_HEADER "machines/cpu/core/cpu_lanes_scalar.h"
#include "engines/open/open_survey.h"
#include "machines/cpu/open/cpu_open.h"

enum { AT_ONCE = 256 /* keys inserted together, so that their lines are prefetched */ };

typedef struct refill_work {
    const loom__cpu_open_simd *simd;
    const loom__open_view *from, *to;
    loom__cpu_counts counts;
} refill_work;

typedef struct refill_pair {
    uint64_t key, value;
} refill_pair;

static void insert_pairs(refill_work *work, const refill_pair *pairs, uint64_t n)
{
    loom__cpu_records records = {
        .keys = (const unsigned char *)&pairs->key,
        .values = (const unsigned char *)&pairs->value,
        .key_stride = sizeof *pairs,
        .value_stride = sizeof *pairs,
        .n = n,
    };
    work->simd->insert_in_order(work->to, &records, 0, &work->counts);
}

LOOM_LANE void move_keys(refill_work *work, loom__slot_kind kind, uint32_t source, uint32_t partition)
{
    const loom__open_view from = *work->from;
    const uint32_t key_bytes = slot_key_bytes(kind), partitions = work->to->partitions;
    refill_pair pairs[AT_ONCE];
    uint64_t count = 0;
    for (uint32_t number = 0; number < from.buckets; number++) {
        open_bucket bucket = open_bucket_of(kind, &from, source, number);
        for (uint32_t slot = 0; slot < open_slots(kind); slot++) {
            uint64_t key = open_bucket_key(kind, &bucket, slot);
            if (key == bucket.empty ||
                loom__hash_partition(loom__hash_key(key, key_bytes, from.seed), partitions) != partition)
                continue;
            pairs[count++] = (refill_pair){key, open_bucket_value(kind, &bucket, slot)};
            if (count == AT_ONCE) {
                insert_pairs(work, pairs, count);
                count = 0;
            }
        }
    }
    insert_pairs(work, pairs, count);
}

static void refill_partition(void *argument, uint64_t index)
{
    refill_work *work = argument;
    uint32_t first, last, partition = (uint32_t)index;
    loom__hash_sources(partition, work->to->partitions, work->from->partitions, &first, &last);
    loom__cpu_open_clear_partition(work->to, partition);
    work->to->marks[partition] = OPEN_UNMARKED;
    work->to->stale[partition] = 0;
    for (uint32_t source = first; source <= last; source++) {
#define CALL(kind) move_keys(work, kind, source, partition)
        SLOT_FOR_KIND(work->from->kind, CALL)
#undef CALL
    }
}

loom_status loom__cpu_open_refill(loom__machine *machine, const void *any_from, const void *any_to, uint64_t *refused,
                                  loom_stream stream)
{
    const loom__open_view *from = any_from;
    const loom__open_view *to = any_to;
    loom__cpu_machine_state *cpu = (loom__cpu_machine_state *)machine;
    refill_work work = {.simd = cpu->open_simd, .from = from, .to = to};
    (void)stream;
    loom__pool_run(cpu->pool, to->partitions, refill_partition, &work);
    *refused = work.counts.full;
    return LOOM_OK;
}
