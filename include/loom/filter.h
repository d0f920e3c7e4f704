/* Filters: blocked Bloom filters. loom/base.h has what all bulk calls share. It also explains how
 * the comments below read.
 *
 * A filter answers that a key is probably present or certainly absent. It finds every inserted key.
 * It also finds an absent key with a small probability, the false-positive rate. A key sets 4, 8,
 * 12 or 16 bits of one block of 64 bytes, so a query reads one block. Keys cannot be counted,
 * listed or erased: a bit may belong to several keys. To erase, clear the filter and insert the
 * remaining keys, or use a set.
 *
 * Keys have 1 to 256 bytes. All keys of a filter have the same width. Those of 4 and 8 bytes are
 * numbers, and their arrays are aligned to them. Arrays of other keys may lie at any address. Keys
 * of any width set the same number of bits. Only their hash costs more. Filters do not take byte
 * strings (LOOM_VARIABLE): hash them yourself, and insert the 64-bit hashes as keys of 8 bytes.
 *
 * Which calls may overlap
 *   - insert and contains overlap with themselves and with each other, from any number of host
 *     threads and in any streams. A query finds every key whose insertion ended before the query
 *     began. The lane simulator (docs/simulator.md) runs both at the same time.
 *   - Large inserts (LOOM_BY_PARTITION, or chosen by the library), merge and clear run alone.
 *   - save, clone, stats, and a merge that reads this filter overlap with each other on the device.
 *     Among the calls of host threads each of them runs alone. */
#ifndef LOOM_LOOM_FILTER_H
#define LOOM_LOOM_FILTER_H

#include <loom/base.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Create, destroy ------------------------------------------------------------------------- */

/* One of three fields gives the size: false_positive_rate, bits_per_key or `bytes`. Two of them at
 * once are INVALID_ARGUMENT. If all three are 0, the rate is 0.001. */
typedef struct loom_filter_config {
    size_t struct_size;         /* set by LOOM_FILTER_CONFIG_INIT */
    uint32_t key_bytes;         /* 1 to 256; no default */
    uint32_t probes;            /* bits that a key sets: 4, 8, 12 or 16; 0: chosen */
    uint64_t capacity;          /* keys that it must hold; may be 0 (unknown) if `bytes` is set */
    double false_positive_rate; /* with `capacity` keys: 10^-9 to 0.5; 0: not given */
    uint64_t bytes;             /* of the blocks; 0: not given. Every size is rounded up to whole
                                   blocks, above 64 KiB to multiples of 64 KiB */
    double bits_per_key;        /* bits of memory for each of `capacity` keys: 1 to 512, whole or
                                   not; 0: not given */
} loom_filter_config;

#define LOOM_FILTER_CONFIG_INIT                          \
    {                                                    \
        sizeof(loom_filter_config), 0, 0, 0, 0.0, 0, 0.0 \
    }

/* Tells how much memory loom_filter_create(config) takes (table_bytes), and how much temporary
 * memory an insertion of `capacity` keys takes by partition (build_bytes; 0: not possible) and with
 * LOOM_IN_ORDER (order_bytes). The other fields are 0.
 *   - Memory   allocates nothing
 *   - Runs     synchronous
 *   - Status   INVALID_ARGUMENT, UNSUPPORTED: as loom_filter_create */
LOOM_API loom_status loom_filter_memory_required(loom_context *context, const loom_filter_config *config,
                                                 loom_memory *memory);

/* Creates an empty filter. *filter is set only on success.
 *   - Memory   allocates table_bytes
 *   - Runs     synchronous
 *   - Status   INVALID_ARGUMENT: the sentence names the field, or both fields that give the size;
 *              also if neither a capacity nor `bytes` is set, or if the filter needs more than
 *              2^32 - 1024 blocks; UNSUPPORTED: the machine has no filters; OUT_OF_MEMORY */
LOOM_API loom_status loom_filter_create(loom_context *context, const loom_filter_config *config, loom_filter **filter);

/* Creates an empty filter of the same shape and seed, on the same context. Both filters can be
 * merged.
 *   - Memory   allocates
 *   - Runs     synchronous
 *   - Status   OUT_OF_MEMORY */
LOOM_API loom_status loom_filter_create_like(loom_filter *filter, loom_filter **like);

/* Creates a filter of the same shape, seed and contents, on the same context.
 *   - Memory   allocates
 *   - Runs     synchronous; reader
 *   - Status   OUT_OF_MEMORY */
LOOM_API loom_status loom_filter_clone(loom_filter *filter, loom_filter **clone, loom_stream stream);

/* Waits for calls in flight, then frees the filter. NULL is fine. If device views are lent, the
 * call behaves as loom_map_destroy. */
LOOM_API void loom_filter_destroy(loom_filter *filter);

/* ---- Insert, query --------------------------------------------------------------------------- */

/* Inserts the keys. All keys are stored, even if the status is OVERFILLED.
 *   keys     [n] of key_bytes
 *   flags    0, LOOM_BY_PARTITION or LOOM_DIRECTLY; with `added` 0, LOOM_DIRECTLY or LOOM_IN_ORDER
 *   added    [n], optional: 1: the key was new, that is, the call set at least one of its bits;
 *            0: the filter reported the key already
 *   - A key may be told 0 although it was never inserted: it was a false positive.
 *   - Of equal keys in the batch at least one is told 1, if the filter did not report the key
 *     before. With LOOM_IN_ORDER only the first of them can be told 1. The same false positives as
 *     above are possible: other keys of the batch may have set all bits of the key.
 *   - With `added`, result->ok counts the keys that were told 1, and result->exists those that were
 *     told 0. Without it result->ok is n.
 *   - With `added` the keys go directly. This is slower than by partition for large batches.
 *   - Memory   temporary memory for keys that go by partition. If there is none, the keys go
 *              directly, unless LOOM_BY_PARTITION is set. LOOM_IN_ORDER: loom_memory.order_bytes
 *   - Runs     as `result` says; a call that counts bits (docs/guide.md, "The Bloom filter") is
 *              synchronous
 *   - Status   OVERFILLED: the filter holds more keys than its capacity, plus a 64th of it, plus
 *              the error of the estimate (four times the square root of the capacity). The number
 *              of keys is estimated from the bits. The false-positive rate is higher than asked
 *              for; loom_filter_stats tells it. A filter without a capacity is never OVERFILLED.
 *              UNSUPPORTED or OUT_OF_MEMORY: LOOM_BY_PARTITION is not possible. OUT_OF_MEMORY: also
 *              if there is no memory for LOOM_IN_ORDER; no key was inserted. INVALID_ARGUMENT: also
 *              several flags, LOOM_BY_PARTITION with `added`, or LOOM_IN_ORDER without it */
LOOM_API loom_status loom_filter_insert(loom_filter *filter, const void *keys, uint64_t n, uint32_t flags,
                                        uint8_t *added, loom_result *result, loom_stream stream);

/* Tells which keys may be present.
 *   keys     [n] of key_bytes
 *   found    [n], optional: 1: probably present; 0: certainly absent
 *   - result->ok counts the keys that are probably present, not_found the others.
 *   - Memory   allocates nothing
 *   - Runs     as `result` says; reader */
LOOM_API loom_status loom_filter_contains(loom_filter *filter, const void *keys, uint64_t n, uint8_t *found,
                                          loom_result *result, loom_stream stream);

/* ---- Whole filters --------------------------------------------------------------------------- */

/* Adds all keys of `other` to `filter`: the union of their bits. `other` is unchanged.
 *   - Both filters must have the same context, key width, shape and seed. This holds for a filter
 *     and one from loom_filter_create_like, for filters from equal configs with a fixed seed, and
 *     for a filter and one loaded from its file.
 *   - Memory   allocates nothing
 *   - Runs     synchronous; alone
 *   - Status   INVALID_ARGUMENT: the filters differ, and the sentence says in what; OVERFILLED: as
 *              in loom_filter_insert; the filters were merged */
LOOM_API loom_status loom_filter_merge(loom_filter *filter, loom_filter *other, loom_stream stream);

/* Removes all keys. Allocates nothing; synchronous, with a result too; alone. */
LOOM_API loom_status loom_filter_clear(loom_filter *filter, loom_result *result, loom_stream stream);

/* Write a filter to a file and create a filter from a file.
 *   - Memory, Runs, Status   as loom_map_save and loom_map_load; UNSUPPORTED: the file holds no
 *                            filter, but a map, set, counter or multimap */
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
    uint64_t seed;              /* of the hash (loom_hash) */
    double fill;                /* bits_set / bits */
    double estimated_keys;      /* distinct keys, from the fill; error if large: tenths of a % */
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
 * of the filter; false_positive_rate and bits_per_key are 0. loom_filter_stats tells the rate. The
 * new filter gets another seed, unless seeds are fixed. */
LOOM_API loom_status loom_filter_get_config(loom_filter *filter, loom_filter_config *config);

#ifdef __cplusplus
}
#endif
#endif
