/* Bulk calls on maps and sets of any engine: threads share the ranges of a batch, and batches are split by partition.
 * cpu_map_calls.h makes an engine's kernels of these steps. */
#ifndef LOOM_CPU_BULK_H
#define LOOM_CPU_BULK_H

#include "core/batch.h"
#include "core/hash.h"
#include "core/split.h"
#include "core/table_slots.h"
#include "machines/cpu/core/cpu_bulk_strings.h"
#include "machines/cpu/core/cpu_state.h"

/* ---- What an engine supplies: one struct for each kind of SIMD (cpu_map_simd.h) ---- */

/* Keys and values in the sequence in which they are inserted. Strides are in bytes. */
typedef struct loom__cpu_records {
    const unsigned char *keys;
    const unsigned char *values; /* may be NULL */
    const unsigned char *hashes; /* of the keys, key_stride apart; NULL: they must be computed */
    uint32_t key_stride, value_stride;
    const uint64_t *index; /* [n] where each key's answers go in the batch's arrays; NULL: key i's go to i */
    uint64_t n;
} loom__cpu_records;

/* What a reservation tells about its key (core/list_handle.h). */
typedef struct loom__cpu_reserved {
    uint64_t old;     /* the handle before; 0: the key was absent; LIST_REFUSED: there is no room for it */
    uint64_t *handle; /* where the directory has it; NULL if refused */
} loom__cpu_reserved;

/* Works on keys begin .. end - 1 of a batch; begin is a multiple of 64. With `shared` other threads write other ranges
 * at the same time. `counts` belongs to the whole call. Insertions into filters take any `begin`, and count only if the
 * batch has an array `added`. */
typedef void loom__cpu_range(const void *view, const loom__batch *batch, uint64_t begin, uint64_t end, int shared,
                             loom__cpu_counts *counts);

typedef struct loom__cpu_map_simd {
    loom__cpu_range *find, *write, *count_accesses;
    /* Does what batch->write says with one record after the other. The calling thread owns every partition concerned.
     * `scratch` is the engine's working memory. RESERVE (open tables, and rows with handles): found_values[i] is a
     * loom__cpu_reserved. */
    void (*insert)(const void *view, const loom__batch *batch, const loom__cpu_records *records, void *scratch,
                   loom__cpu_counts *counts);
    /* Surveys a partition and adds to the engine's sums. */
    void (*survey_partition)(const void *view, uint32_t partition, void *sums);
} loom__cpu_map_simd;

/* ---- Ranges ---- */

/* Runs all ranges of a batch, on all threads. */
loom__cpu_counts loom__cpu_run_ranges(loom__machine *machine, loom__cpu_range *run, const void *view,
                                      const loom__batch *batch);

/* ---- By partition ---- */

typedef struct loom__cpu_bulk {
    const loom__batch *batch;
    uint32_t key_bytes, value_bytes; /* of a record */
    loom__cpu_strings strings;
    loom__split split;
    unsigned char *memory; /* NULL: the batch's workspace is used */
    uint64_t bytes;
} loom__cpu_bulk;

/* Whether splitting n keys costs more than it saves. */
int loom__cpu_is_small(uint32_t partitions, uint64_t n);

/* Memory that splitting n keys takes, given the widths of a record and its strings. */
uint64_t loom__cpu_bulk_bytes(const loom__machine *machine, uint32_t partitions, const loom__cpu_bulk *bulk, uint64_t n,
                              int with_index);

/* Splits bulk->batch. The caller has set the batch, the widths of a record, and its strings. After OUT_OF_MEMORY there
 * is nothing to end. */
loom_status loom__cpu_bulk_begin(loom__machine *machine, uint32_t partitions, loom__seed seed, int with_index,
                                 loom__cpu_bulk *bulk);
void loom__cpu_bulk_end(loom__machine *machine, loom__cpu_bulk *bulk);

/* The records of the batch that belong to a partition. */
loom__cpu_records loom__cpu_bulk_records(const loom__cpu_bulk *bulk, uint64_t partition);

#endif
