/* Bulk calls on maps and sets, whichever the engine: ranges of a batch shared out to threads, batches split by partition, keys moved from
 * table to table. */
#ifndef LOOM_CPU_BULK_H
#define LOOM_CPU_BULK_H

#include "core/batch.h"
#include "core/hash.h"
#include "core/split.h"
#include "core/table_slots.h"
#include "machines/cpu/core/cpu_state.h"

/* ---- Ranges ---- */

/* What an engine does to keys begin .. end - 1 of a batch; begin is a multiple of 64. `counts` belongs to the whole call. */
typedef struct loom__cpu_ranges {
    void (*find)(const void *view, const loom__batch *batch, uint64_t begin, uint64_t end, loom__cpu_counts *counts);
    /* With `shared` other threads do the same to other ranges. */
    void (*write)(const void *view, const loom__batch *batch, uint64_t begin, uint64_t end, int shared,
                  loom__cpu_counts *counts);
    uint64_t (*count_accesses)(const void *view, const void *keys, uint64_t begin, uint64_t end);
} loom__cpu_ranges;

/* All of a batch, and its result. */
void loom__cpu_run_ranges(loom__machine *machine, const loom__cpu_ranges *ranges, const void *view,
                          const loom__batch *batch, int reads);
uint64_t loom__cpu_count_accesses(loom__machine *machine, const loom__cpu_ranges *ranges, const void *view,
                                  const void *keys, uint64_t n);

/* ---- Records ---- */

/* Keys and values in the order in which they are to be inserted; strides in bytes. */
typedef struct loom__cpu_records {
    const unsigned char *keys;
    const unsigned char *values; /* may be NULL */
    uint32_t key_stride, value_stride;
    const uint64_t *index; /* [n] where in the call's arrays each key's answers go; NULL: at its own place */
    uint8_t *status;       /* may be NULL */
    uint64_t n;
} loom__cpu_records;

/* All of a batch, in its order. */
loom__cpu_records loom__cpu_batch_records(const loom__batch *batch, uint32_t key_bytes, uint32_t value_bytes);

/* ---- By partition ---- */

typedef struct loom__cpu_bulk {
    const loom__batch *batch;
    uint32_t key_bytes, value_bytes; /* of a record */
    loom__split split;
    unsigned char *memory; /* NULL: it is the caller's workspace */
    uint64_t bytes;
} loom__cpu_bulk;

/* Does splitting n keys cost more than it saves? */
int loom__cpu_is_small(uint32_t partitions, uint64_t n);

/* Memory that splitting n keys takes. */
uint64_t loom__cpu_bulk_bytes(const loom__machine *machine, uint32_t partitions, uint32_t record_bytes, uint64_t n,
                              int with_index);

/* Splits bulk->batch, whose widths are set. OUT_OF_MEMORY and a sentence; then there is nothing to end. */
loom_status loom__cpu_bulk_begin(loom__machine *machine, uint32_t partitions, loom__seed seed, int with_index,
                                 loom__cpu_bulk *bulk);
void loom__cpu_bulk_end(loom__machine *machine, loom__cpu_bulk *bulk);

/* A partition's part of the batch. */
loom__cpu_records loom__cpu_bulk_records(const loom__cpu_bulk *bulk, uint64_t partition);

/* ---- From table to table ---- */

/* Gives the keys of a table that belong into a partition of another one, which has `partitions`, to `take`, some at a time. */
typedef void loom__cpu_take(void *argument, const loom__cpu_records *records);
void loom__cpu_move_keys(const loom__table_slots *from, loom__seed seed, uint32_t partitions, uint32_t partition,
                         loom__cpu_take *take, void *argument);

#endif
