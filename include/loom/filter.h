/* Filters: blocked Bloom filters. loom/base.h has what all bulk calls share, and how the comments
 * below read.
 *
 * A filter says of every inserted key that it is present. Of any other key it says so with the
 * false-positive rate, and otherwise that the key is absent. A key sets 4, 8, 12 or 16 bits of one
 * block of 64 bytes, so a query reads one block. Keys cannot be counted, listed or erased: a bit
 * may belong to several keys. To erase, clear the filter and insert the remaining keys, or use a
 * set.
 *
 * Which calls may overlap
 *   - insert and contains, each with itself and with the other, from any number of host threads and
 *     in any streams. A key whose insertion ended before a query began is found. The lane simulator
 *     (docs/simulator.md) runs both at the same time.
 *   - Large inserts (LOOM_BY_PARTITION, or chosen by the library), merge and clear run alone.
 *   - save, clone, stats and being merged into another filter overlap with each other on the
 *     device. Among the calls of host threads each runs alone. */
#ifndef LOOM_LOOM_FILTER_H
#define LOOM_LOOM_FILTER_H

#include <loom/base.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Create, destroy ------------------------------------------------------------------------- */

/* Give a capacity and a rate, or `bytes`. */
typedef struct loom_filter_config {
    size_t struct_size;         /* set by LOOM_FILTER_CONFIG_INIT */
    uint32_t key_bytes;         /* 4 or 8; no default */
    uint32_t probes;            /* bits that a key sets: 4, 8, 12 or 16; 0: chosen */
    uint64_t capacity;          /* keys that it is to hold; may be 0 (unknown) if `bytes` is set */
    double false_positive_rate; /* with `capacity` keys: 10^-9 to 0.5; ignored if `bytes` is set */
    uint64_t bytes;             /* 0: follows from capacity and rate. Rounded up to whole blocks,
                                   above 64 KiB to multiples of 64 KiB */
} loom_filter_config;

#define LOOM_FILTER_CONFIG_INIT                       \
    {                                                 \
        sizeof(loom_filter_config), 0, 0, 0, 0.001, 0 \
    }

/* Tells how much memory loom_filter_create(config) takes (table_bytes), and an insertion of
 * `capacity` keys by partition (build_bytes; 0: not possible). The other fields are 0.
 *   - Memory   allocates nothing
 *   - Runs     synchronous
 *   - Status   INVALID_ARGUMENT: as loom_filter_create */
LOOM_API loom_status loom_filter_memory_required(loom_context *context, const loom_filter_config *config,
                                                 loom_memory *memory);

/* Creates an empty filter. *filter is set only on success.
 *   - Memory   allocates table_bytes
 *   - Runs     synchronous
 *   - Status   INVALID_ARGUMENT: the sentence names the field; also with neither a capacity nor
 *              bytes, and with more than 2^32 - 1024 blocks; UNSUPPORTED: the machine has no
 *              filters; OUT_OF_MEMORY */
LOOM_API loom_status loom_filter_create(loom_context *context, const loom_filter_config *config, loom_filter **filter);

/* Creates an empty filter of the same shape and seed, on the same context. The two can be merged.
 *   - Memory   allocates
 *   - Runs     synchronous
 *   - Status   OUT_OF_MEMORY */
LOOM_API loom_status loom_filter_create_like(loom_filter *filter, loom_filter **like);

/* Creates a filter of the same shape, seed and contents, on the same context.
 *   - Memory   allocates
 *   - Runs     reader
 *   - Status   OUT_OF_MEMORY */
LOOM_API loom_status loom_filter_clone(loom_filter *filter, loom_filter **clone, loom_stream stream);

/* Waits for calls in flight, then frees the filter. NULL is fine. Lent device views: as in
 * loom_map_destroy. */
LOOM_API void loom_filter_destroy(loom_filter *filter);

/* ---- Insert, query --------------------------------------------------------------------------- */

/* Inserts the keys. They are stored even if the status is OVERFILLED.
 *   keys     [n] of key_bytes
 *   flags    0, LOOM_BY_PARTITION or LOOM_DIRECTLY
 *   - Memory   by partition: temporary memory if there is some, otherwise the keys go directly
 *   - Runs     as `result` says; a call that counts bits (below) is synchronous
 *   - Status   OVERFILLED: the filter holds more keys than its capacity, plus a 64th of it, plus
 *              the error of the estimate (four times the square root of the capacity). Its
 *              false-positive rate is higher than asked for; loom_filter_stats tells it.
 *              UNSUPPORTED or OUT_OF_MEMORY: LOOM_BY_PARTITION is not possible
 * The number of keys is estimated from the bits. The call that brings the given keys above the
 * capacity counts the bits, and so does one call for each further 64th of the capacity. A filter
 * without a capacity is never OVERFILLED, and keys that it holds already do not count. */
LOOM_API loom_status loom_filter_insert(loom_filter *filter, const void *keys, uint64_t n, uint32_t flags,
                                        loom_result *result, loom_stream stream);

/* Tells which keys may be present.
 *   keys     [n] of key_bytes
 *   found    [n], optional: 1: probably; 0: certainly not
 *   - result->ok counts the keys that are probably present, not_found the others.
 *   - Memory   allocates nothing
 *   - Runs     as `result` says; reader */
LOOM_API loom_status loom_filter_contains(loom_filter *filter, const void *keys, uint64_t n, uint8_t *found,
                                          loom_result *result, loom_stream stream);

/* ---- Whole filters --------------------------------------------------------------------------- */

/* Adds all keys of `other` to `filter`: the union of their bits. `other` is unchanged.
 *   - Both must have the same context, key width, shape and seed: from loom_filter_create_like,
 *     from equal configs and a fixed seed, or a filter and its file.
 *   - Memory   allocates nothing
 *   - Runs     synchronous; alone
 *   - Status   INVALID_ARGUMENT: they differ, and the sentence says in what; OVERFILLED: as in
 *              loom_filter_insert; they are merged */
LOOM_API loom_status loom_filter_merge(loom_filter *filter, loom_filter *other, loom_stream stream);

/* Removes all keys. Allocates nothing; runs as `result` says, alone. */
LOOM_API loom_status loom_filter_clear(loom_filter *filter, loom_result *result, loom_stream stream);

/* Write a filter to a file and create one from a file. Memory, Runs and Status as loom_map_save and
 * loom_map_load. */
LOOM_API loom_status loom_filter_save(loom_filter *filter, const char *path, loom_stream stream);
LOOM_API loom_status loom_filter_load(loom_context *context, const char *path, loom_filter **filter,
                                      loom_stream stream);

/* ---- Statistics ------------------------------------------------------------------------------ */

typedef struct loom_filter_report {
    size_t struct_size; /* set by LOOM_FILTER_REPORT_INIT before the call */
    loom_engine engine;
    uint32_t key_bytes;
    uint32_t probes; /* bits that a key sets */
    uint32_t reserved;
    uint64_t capacity; /* as asked for; 0: unknown */
    uint64_t blocks;   /* of 64 bytes */
    uint64_t bits_set;
    uint64_t memory_bytes;
    uint64_t seed;
    double fill;                /* bits_set / bits */
    double estimated_keys;      /* distinct, from the fill; error: tenths of a percent if large */
    double false_positive_rate; /* of a random absent key, from the bits; exact for a random hash */
    double designed_rate;       /* expected with `capacity` keys; 0 without a capacity */
} loom_filter_report;

#define LOOM_FILTER_REPORT_INIT                                                                     \
    {                                                                                               \
        sizeof(loom_filter_report), LOOM_ENGINE_DEFAULT, 0, 0, 0, 0, 0, 0, 0, 0, 0.0, 0.0, 0.0, 0.0 \
    }

/* Measures the filter; reads all of it. Allocates nothing; synchronous; reader. */
LOOM_API loom_status loom_filter_stats(loom_filter *filter, loom_filter_report *report, loom_stream stream);

/* Returns the bytes that the filter takes now, bookkeeping included. */
LOOM_API loom_status loom_filter_memory_used(loom_filter *filter, uint64_t *bytes);

/* Returns a config from which an equal, empty filter can be created: `bytes` and `probes` are those
 * of the filter. The new filter has a seed of its own, unless seeds are fixed. */
LOOM_API loom_status loom_filter_get_config(loom_filter *filter, loom_filter_config *config);

#ifdef __cplusplus
}
#endif
#endif
