/* hashloom: hash tables for CPUs and GPUs, behind one C interface.
 *
 * GUARANTEES
 *   - Every key value is legal, 0 and all ones included.
 *   - A table made for n keys holds any n different keys; the chance that it does not is below one in
 *     10^9, whatever n is. For more it grows by itself; where it must not, or memory is short, it may hold a few
 *     more, and then refuses, with a status for each key.
 *   - Nothing hangs, aborts, exits or prints. Every call returns a status; loom_last_error() has the sentence.
 *   - Nothing is dropped and nothing is stored twice: after any call, a key is in the table once or not at all.
 *   - A call that fails leaves the table as it was, or tells for each key what became of it.
 *   - A file that was saved is either the whole new table or the file that was there before.
 *   - A program built with an older header, whose structs are smaller (struct_size), is served: the
 *     fields it lacks have their defaults. A larger struct than the library's is INVALID_ARGUMENT.
 *
 * COSTS
 *   - A lookup reads 1.12 buckets of 64 bytes on average at load 0.8, 1.25 at 0.9; a lookup of an absent key
 *     1.01 and 1.03. loom_map_stats() tells what a table at hand costs.
 *     A table made with LOOM_ENGINE_PERFECT reads one bucket, and 8 bytes of codes, for every lookup; inserting into it is slower.
 *   - 4 + 4 byte pairs take 9.2 bytes per slot; divide by the load for the bytes per pair.
 *
 * CAVEATS
 *   - The hash is seeded and mixes well, but it is not cryptographic: whoever learns the seed can make keys
 *     that collide. Such keys make a table slow or refuse keys early; they cannot make it wrong.
 *   - With a fixed seed (loom_context_config.fixed_seed) two runs agree, and an adversary may know the seed.
 *   - A table that is to hold more keys than it was made for moves into a larger one, in the midst of a call: both are in memory
 *     then, and the call waits. Make tables for as many keys as they are to hold, or loom_map_reserve; growth = 0 turns it off.
 *   - Erasing leaves bits behind that cost lookups of absent keys extra buckets, and keys away from where they would lie in a
 *     fresh table. A call that finds a partition worn enough puts it in order at its end: keys move, nothing else changes.
 *     So at load 0.9, however often the keys change, and whichever go, lookups read on average less than 10 % more buckets
 *     than in a fresh table; tables of two partitions (some 20,000 keys) for moments up to 15 %. loom_map_stats() tells.
 *   - Arrays given to a call must not change while it runs. If they do, what is stored is not defined; nothing else is harmed.
 *   - Of equal keys in one batch any one may win, unless the call asks for order (LOOM_IN_ORDER).
 *   - After fork() a child may use contexts and tables that no other thread was using at that moment; its
 *     calls then run on the calling thread alone. On the cuda machine its calls return LOOM_DEVICE.
 *
 * EXAMPLE
 *   loom_context *context;
 *   loom_map *map;
 *   loom_map_config config = LOOM_MAP_CONFIG_INIT;
 *   config.key_bytes = config.value_bytes = 4;
 *   config.capacity = n;
 *   if (loom_context_create(NULL, &context) || loom_map_create(context, &config, &map)) {
 *       fprintf(stderr, "%s\n", loom_last_error());
 *       return 1;
 *   }
 *   loom_map_build(map, keys, values, n, LOOM_KEEP, NULL, NULL, NULL);
 *   loom_map_find(map, wanted, m, found_values, found_status, NULL, NULL);
 *   loom_map_destroy(map);
 *   loom_context_destroy(context);
 *
 * This header is ordered by stability: what stands under EXPERIMENTAL, at the end, may change in any release.
 */
#ifndef LOOM_LOOM_H
#define LOOM_LOOM_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* LOOM_STATIC, a definition for programs that link the static library: calls are direct, and a shared library of yours that
 * contains hashloom does not export its functions. */
#if defined(__GNUC__) && defined(LOOM_STATIC)
#define LOOM_API __attribute__((visibility("hidden")))
#elif defined(__GNUC__)
#define LOOM_API __attribute__((visibility("default")))
#else
#define LOOM_API
#endif

/* ---- Version ------------------------------------------------------------------------------------------ */

#define LOOM_VERSION_MAJOR 0
#define LOOM_VERSION_MINOR 1
#define LOOM_VERSION_PATCH 0
#define LOOM_VERSION       (LOOM_VERSION_MAJOR * 10000 + LOOM_VERSION_MINOR * 100 + LOOM_VERSION_PATCH)

/* The version of the library that is running, as LOOM_VERSION is that of the header. */
LOOM_API uint32_t loom_version(void);

/* ---- Statuses ----------------------------------------------------------------------------------------- */

/* X(name, value, text). Values never change meaning. Those below 16 are also used per key, as uint8_t. */
#define LOOM_STATUS_LIST(X)                                                         \
    X(OK, 0, "done")                                                                \
    X(NOT_FOUND, 1, "the key is not in the table")                                  \
    X(EXISTS, 2, "the key was in the table already")                                \
    X(FULL, 3, "there is no room for the key")                                      \
    X(INVALID_ARGUMENT, 16, "an argument cannot be used")                           \
    X(OUT_OF_MEMORY, 17, "memory could not be had")                                 \
    X(UNSUPPORTED, 18, "this machine, engine or version does not offer the call")   \
    X(CHANGED, 19, "the table changed while a cursor was reading it")               \
    X(TOO_SMALL, 20, "an output array is too small")                                \
    X(NO_MACHINE, 21, "the machine asked for is not present")                       \
    X(DEVICE, 22, "the device reported an error")                                   \
    X(IN_USE, 23, "a device view of the table is out")                              \
    X(OVERFILLED, 24, "the filter holds more keys than it was made for")            \
    X(IO, 32, "a file could not be read or written")                                \
    X(BAD_FILE, 33, "the file is damaged or is not a hashloom file")                \
    X(FOREIGN_VERSION, 34, "the file was written in another version of the format") \
    X(INTERNAL, 64, "a fault inside hashloom")

typedef enum loom_status {
#define LOOM_STATUS_ENUM_(name, value, text) LOOM_##name = value,
    LOOM_STATUS_LIST(LOOM_STATUS_ENUM_)
#undef LOOM_STATUS_ENUM_
        LOOM_STATUS_FORCE_INT_ = 0x7fffffff
} loom_status;

/* "LOOM_FULL" and "there is no room for the key" for LOOM_FULL; never NULL, whatever the value. */
LOOM_API const char *loom_status_name(loom_status status);
LOOM_API const char *loom_status_text(loom_status status);

/* What was wrong in the last call of this thread that failed, and what to do about it: one sentence, "" if
 * none failed yet. Valid until the next failing call of the same thread. Calls that succeed do not clear it. */
LOOM_API const char *loom_last_error(void);

/* ---- Context ------------------------------------------------------------------------------------------ */

typedef struct loom_context loom_context;
typedef struct loom_map loom_map;
typedef struct loom_cursor loom_cursor;
typedef struct loom_filter loom_filter;

/* A stream of the context's machine: a cudaStream_t on the cuda machine. The cpu machine has none and takes
 * only NULL: there, every call has happened when it returns. */
typedef void *loom_stream;

typedef enum loom_machine {
    LOOM_MACHINE_BEST = 0, /* the fastest that is present */
    LOOM_MACHINE_CPU = 1,
    LOOM_MACHINE_CUDA = 2
} loom_machine;

/* How the cpu machine compares a bucket's slots with a key. */
typedef enum loom_simd {
    LOOM_SIMD_BEST = 0, /* the widest that the processor has */
    LOOM_SIMD_SCALAR = 1,
    LOOM_SIMD_NEON = 2,
    LOOM_SIMD_AVX2 = 3
} loom_simd;

typedef enum loom_memory_kind {
    LOOM_MEMORY_HOST = 0,  /* handles and bookkeeping; read and written by the host */
    LOOM_MEMORY_TABLE = 1, /* tables, and what lives as long; where the context's machine works */
    LOOM_MEMORY_TEMPORARY =
        2 /* there, too, for one call: released in the call's stream, perhaps before its work is done */
} loom_memory_kind;

/* Where a context takes memory from. Either both functions or neither. They may be called from any thread, at the same
 * time. `allocate` returns NULL when there is none; `release` gets the size that was asked for. `stream` is the stream of
 * the call that needs table memory (a clone, a load, temporary memory of a build), NULL where a call has none (create,
 * destroy) and for HOST memory. What `allocate` returns must be usable by every stream; what `release` gets is not in use
 * any more. The cuda machine's staging buffers, 65 MiB a context, are taken from CUDA itself. */
typedef struct loom_allocator {
    void *(*allocate)(void *user, size_t bytes, size_t alignment, loom_memory_kind kind, loom_stream stream);
    void (*release)(void *user, void *memory, size_t bytes, loom_memory_kind kind, loom_stream stream);
    void *user;
} loom_allocator;

typedef enum loom_log_level { LOOM_LOG_INFO = 0, LOOM_LOG_WARNING = 1 } loom_log_level;
typedef void (*loom_log_function)(void *user, loom_log_level level, const char *message);

typedef struct loom_context_config {
    size_t struct_size;   /* set by LOOM_CONTEXT_CONFIG_INIT */
    loom_machine machine; /* LOOM_MACHINE_BEST */
    int32_t device;       /* which device of that machine; -1: its current one. The cpu machine has only -1 and 0 */
    uint32_t threads;     /* host threads, the calling one included; 0: one per core this process may use */
    loom_simd simd;       /* LOOM_SIMD_BEST */
    uint32_t fixed_seed;  /* 0: every table gets a random seed; 1: every table gets `seed` */
    uint32_t lanes; /* cuda machine: lanes that look at a bucket together: 1, 2, 4 or 8; 0: chosen by the library */
    uint64_t seed;  /* any value; used when fixed_seed is 1 */
    loom_allocator allocator; /* all NULL: the library's own, with huge pages for tables where the system has them */
    loom_log_function log;    /* NULL: silence. Called on the thread that made the call */
    void *log_user;
} loom_context_config;

#define LOOM_CONTEXT_CONFIG_INIT                                                                                       \
    {                                                                                                                  \
        sizeof(loom_context_config), LOOM_MACHINE_BEST, -1, 0, LOOM_SIMD_BEST, 0, 0, 0, {NULL, NULL, NULL}, NULL, NULL \
    }

typedef struct loom_context_info {
    size_t struct_size; /* set by LOOM_CONTEXT_INFO_INIT before the call */
    loom_machine machine;
    loom_simd simd;
    uint32_t threads;
    uint32_t reserved;
    char machine_name[16];    /* "cpu" */
    char simd_name[16];       /* "neon" */
    char device_name[96];     /* the processor, as the system names it */
    uint64_t memory_bytes;    /* memory of the device in all */
    uint64_t huge_page_bytes; /* page size that tables get where the system gives it; 0: ordinary pages */
} loom_context_info;

#define LOOM_CONTEXT_INFO_INIT                                                                  \
    {                                                                                           \
        sizeof(loom_context_info), LOOM_MACHINE_BEST, LOOM_SIMD_BEST, 0, 0, {0}, {0}, {0}, 0, 0 \
    }

/* Makes a context: a machine, its threads, and where memory comes from. Tables made from it keep it alive.
 *   config   NULL means LOOM_CONTEXT_CONFIG_INIT
 * Synchronous; allocates; may be called from any thread.
 * INVALID_ARGUMENT: a field has no meaning (the sentence names it). NO_MACHINE: the machine, device or SIMD kind
 * is not present (the sentence says why; with LOOM_MACHINE_BEST this cannot happen). OUT_OF_MEMORY. */
LOOM_API loom_status loom_context_create(const loom_context_config *config, loom_context **context);

/* Gives the context back. It goes when the last table made from it is destroyed. NULL is fine. */
LOOM_API void loom_context_destroy(loom_context *context);

/* Tells what the context runs on. Synchronous; does not allocate. INVALID_ARGUMENT. */
LOOM_API loom_status loom_context_describe(loom_context *context, loom_context_info *info);

/* OK if a context could be made for this machine here; otherwise NO_MACHINE and the sentence says what is missing. */
LOOM_API loom_status loom_machine_present(loom_machine machine);

typedef enum loom_type {
    LOOM_TYPE_DEFAULT = 0, /* a map */
    LOOM_TYPE_MAP = 1,
    LOOM_TYPE_SET = 2,     /* keys without values */
    LOOM_TYPE_COUNTER = 3, /* a map whose values are counts */
    LOOM_TYPE_FILTER = 4   /* a loom_filter */
} loom_type;
typedef enum loom_engine {
    LOOM_ENGINE_DEFAULT = 0, /* the best for the type: open, for filters bloom */
    LOOM_ENGINE_OPEN = 1,
    LOOM_ENGINE_BLOOM = 2,  /* filters alone */
    LOOM_ENGINE_PERFECT = 3 /* maps, sets and counters that are read more than written: every lookup reads one bucket */
} loom_engine;

typedef enum loom_feature {
    LOOM_FEATURE_BUILD = 1,
    LOOM_FEATURE_INSERT = 2,
    LOOM_FEATURE_INSERT_IN_ORDER = 3, /* LOOM_IN_ORDER in insert and build */
    LOOM_FEATURE_FIND = 4,
    LOOM_FEATURE_ERASE = 5,
    LOOM_FEATURE_RETRIEVE_ALL = 6,
    LOOM_FEATURE_SAVE = 7,
    LOOM_FEATURE_CLONE = 8,
    LOOM_FEATURE_GROW = 9, /* loom_map_reserve, loom_map_shrink, loom_map_config.growth */
    LOOM_FEATURE_CONCURRENT_READS =
        10,                         /* find while a call of another stream inserts, accumulates, updates or erases */
    LOOM_FEATURE_ASYNCHRONOUS = 11, /* calls with a loom_result may return before the work is done */
    LOOM_FEATURE_FIND_OR_INSERT = 12,
    LOOM_FEATURE_UPDATE = 13,
    LOOM_FEATURE_ACCUMULATE = 14,   /* and loom_map_count */
    LOOM_FEATURE_VIEWS = 15,        /* loom_map_view_begin: the table inside kernels of your own; lookups at least */
    LOOM_FEATURE_MERGE = 16,        /* loom_filter_merge */
    LOOM_FEATURE_WRITING_VIEWS = 17 /* views through which kernels write: all but LOOM_VIEW_FIND */
} loom_feature;

/* OK if tables of this type and engine offer the feature on this context's machine; UNSUPPORTED if not, and the
 * sentence says what to do instead. INVALID_ARGUMENT for values this version does not know. */
LOOM_API loom_status loom_supports(loom_context *context, loom_type type, loom_engine engine, loom_feature feature);

/* ---- Bulk calls: what they share ---------------------------------------------------------------------- */

/* Arrays. Keys and values are plain bytes of the table's widths, in the machine's byte order, aligned to their
 * width. On the cpu machine arrays live in host memory. On the cuda machine each array of a call, and its result, may live
 * in host memory, pinned or not, in managed memory, or in memory of the context's device; the library finds out which.
 * Host arrays are copied in overlapping chunks, and the call then waits for its end. Arrays on another device are refused.
 * No output array may overlap another array of the call. With n = 0 arrays may be NULL.
 *
 * `status` /[n], optional/ gets one loom_status (below 16) for each key.
 *
 * `result`, optional. Without one the call waits until the batch is done and returns its outcome. With one it is
 * stream-ordered: the return value covers arguments and launch, and what became of the batch is written to
 * *result and to the arrays in stream order (on the cpu machine, and with host arrays or a result in pageable host memory:
 * before the call returns). So with a result a
 * full table is result->status == LOOM_FULL, while the call itself returns LOOM_OK.
 *
 * On the cuda machine any call may also return DEVICE; UNSUPPORTED while its stream is being captured into a graph, except
 * loom_map_build; and
 * OUT_OF_MEMORY, since the first call that takes host arrays or reads a whole table makes the context's staging buffers.
 * "Does not allocate" is meant apart from that. On the cpu machine a call that puts partitions in order (CAVEATS) takes host
 * memory for it, for as long as that lasts: four to eight bytes for each slot of a partition, a thread; where there is
 * none it does with less, and the order is less good. While a device view is out, calls that it may not overlap return IN_USE.
 *
 * What may run at the same time. A handle may be used by any number of host threads. Where a call has ended when it returns
 * (the cpu machine; calls without a result) those that read (find, contains, size, retrieve_all, save, clone, stats) run
 * beside each other, and one that writes runs alone: a call waits for those it may not overlap, in the order of arrival.
 * Calls that return before their end (LOOM_FEATURE_ASYNCHRONOUS) are put in order on the device, whatever their streams:
 * those that the table below lets overlap may overlap, the others follow each other. contains counts as find; size,
 * retrieve_all, save, clone and stats wait for all that write; build, clear, reserve, shrink, LOOM_IN_ORDER and
 * LOOM_BY_PARTITION overlap with nothing, nor do large inserts (loom_map_insert). Nor does a call that might make the table grow:
 * one that inserts, and whose n keys, with all that were given to the table before, might pass its capacity
 * (loom_map_config.growth). It waits, at least until the keys in the table are counted; if the batch might still pass the capacity, until its end. With growth = 0 no call does.
 *
 * Inside a table these may work at the same time; the lane simulator (docs/simulator.md) runs every pair marked so under
 * thousands of schedules, and this table says no more than what it verified. It is why a call may use many threads or
 * lanes at once, and how far calls may overlap on machines with LOOM_FEATURE_CONCURRENT_READS.
 *
 *              | find      insert*   accumulate  update    erase
 *   -----------+--------------------------------------------------     yes       at any time
 *   find       | yes       coherent  coherent    coherent  coherent   coherent  in tables made with concurrent_reads:
 *   insert*    | coherent  yes       no          no        no                   loads then may cost more
 *   accumulate | coherent  no        yes         no        no         no        calls are put one after the other
 *   update     | coherent  no        no          yes       no
 *   erase      | coherent  no        no          no        yes        * find_or_insert is one
 *
 * A lookup may overlap one kind of writers, but not an erasure and then an insertion: the later one waits for it. Only kernels of
 * users, through a view for it (LOOM_VIEW_MIXED), insert and erase at the same time; nothing else overlaps with such a view.
 * Each key then behaves as if the operations on it had come one after the other, each at some time between the beginning
 * and the end of its call: a key that was there throughout is found, one that a call has stored before another began is
 * found by that one, values are never torn, and nothing is stored or erased twice.
 *
 * Parallelism lies inside a call: it uses all threads of its context. Destroying a table waits for the calls on
 * it that have begun; beginning one afterwards is an error that cannot be detected. */

typedef struct loom_result { /* 64 bytes; a key is counted once, by its status */
    int32_t status;          /* loom_status of the batch: OK; FULL if any key was refused; OVERFILLED (filters) */
    uint32_t reserved0;
    uint64_t keys;      /* n */
    uint64_t ok;        /* stored as new, found (find, contains), updated or erased */
    uint64_t exists;    /* was there before, or earlier in the batch (insert, build, find_or_insert, accumulate) */
    uint64_t not_found; /* absent (find, contains, update, erase) */
    uint64_t full;      /* refused (insert, build, find_or_insert, accumulate) */
    uint64_t reserved[2];
} loom_result;

typedef enum loom_insert_flags {
    LOOM_KEEP = 0,      /* a key that exists keeps its value */
    LOOM_OVERWRITE = 1, /* a key that exists gets the new value */
    LOOM_IN_ORDER = 2,  /* of equal keys in the batch exactly the first (keep) or the last (overwrite) wins;
                           without it, any one. Takes temporary memory (loom_memory.order_bytes). The cpu machine goes
                           by partition; so does the cuda machine for builds without statuses of no more keys than the
                           table has slots, at 60 % of a build's speed and more, and waits; else it sorts the batch, in
                           turns of at most 2^31 keys. Of more keys than there is room for any may be refused, each in
                           all its places */
    /* How the keys go into the table; without either the library chooses, by measured break-even points. */
    LOOM_BY_PARTITION = 4, /* sorted by partition first, then each partition filled whole; overlaps with nothing.
                              UNSUPPORTED if the batch cannot go that way, unless with LOOM_IN_ORDER */
    LOOM_DIRECTLY = 8,     /* one by one, without temporary memory */
    LOOM_LOW_MEMORY = 16 /* a build takes less than a quarter of the pairs' own bytes of temporary memory (a few percent
                              more below a million keys; loom_memory.low_memory_bytes tells), and a tenth more time; where it
                              cannot, and on the cpu machine, it goes directly. Changes nothing with LOOM_IN_ORDER, and for
                              inserts */
} loom_insert_flags;

/* ---- Map, set, counter -------------------------------------------------------------------------------- */

/* One handle for all three, told apart by config.type; the same calls, as far as they make sense:
 *   a map      keys and values.
 *   a set      keys alone: value_bytes is 0, and every array of values is NULL. It has build, insert, find and contains (which
 *              tell whether a key is there), erase, and all calls on the whole table; find_or_insert, update, accumulate and
 *              count are UNSUPPORTED. 4-byte keys: 14 to a bucket of 64 bytes, in perfect tables 16.
 *   a counter  a map whose values are counts of 4 or 8 bytes: loom_map_count adds one for every key it is given, loom_map_find
 *              tells the counts, 0 for keys that were never counted. It has the other calls of a map, too. */

typedef struct loom_map_config {
    size_t struct_size;        /* set by LOOM_MAP_CONFIG_INIT */
    uint32_t key_bytes;        /* 4 or 8; no default */
    uint32_t value_bytes;      /* 4 or 8; no default; 0 for sets */
    uint64_t capacity;         /* keys the table must be able to hold; 0 is fine */
    double max_load;           /* capacity / slots at most this: 0.01 to 0.95; 0: 0.8, see memory_limit */
    loom_engine engine;        /* LOOM_ENGINE_DEFAULT */
    uint32_t concurrent_reads; /* 0; 1 is for machines with LOOM_FEATURE_CONCURRENT_READS */
    uint32_t
        buckets_per_partition; /* 0: chosen by the library; else, open: a prime up to 3499; perfect: 9, 17, … 3497 */
    loom_type type;            /* LOOM_TYPE_DEFAULT: a map */
    double growth; /* above 1, up to 16: a table that would pass its capacity grows by itself, to at least so many times
                      its capacity (loom_map_reserve); 0: a table that is full stays as it is and refuses keys.
                      LOOM_MAP_CONFIG_INIT: 2. Not part of files */
    /* Bytes that the table may take (loom_memory.table_bytes); 0: any number. If max_load is 0, a table that would take more is made
     * fuller, up to 0.95; that is its load from then on. It grows as far as the limit allows, then refuses keys; while it moves, the
     * table that it leaves is in memory, too. Not part of files: a table that was loaded has none
     * (loom_map_set_memory_limit). */
    uint64_t memory_limit;
    /* Perfect tables: how many keys share a code in a table that is full to max_load; above 0, up to 12. The more, the fewer codes,
     * and the emptier a table must be: it gets the slots that such cells need. 0: chosen by the library, for the load; up to load 0.8
     * more, if the load leaves room for them, where codes would take over a third of a device's L2 cache. Open tables: 0. */
    double keys_per_cell;
} loom_map_config;

#define LOOM_MAP_CONFIG_INIT                                                                             \
    {                                                                                                    \
        sizeof(loom_map_config), 0, 0, 0, 0.0, LOOM_ENGINE_DEFAULT, 0, 0, LOOM_TYPE_DEFAULT, 2.0, 0, 0.0 \
    }

typedef struct loom_memory {
    size_t struct_size;        /* set by LOOM_MEMORY_INIT before the call */
    uint64_t table_bytes;      /* held as long as the table lives, bookkeeping included */
    uint64_t build_bytes;      /* more, during a build of `capacity` keys */
    uint64_t status_bytes;     /* instead of build_bytes, if that build has a status array */
    uint64_t order_bytes;      /* instead of both, in a build or an insert of `capacity` keys with LOOM_IN_ORDER; on the
                              cuda machine for arrays on the device; on the host they take value_bytes + 1 more for
                              each key of a turn, and a little */
    uint64_t low_memory_bytes; /* instead of build_bytes, in a build of `capacity` keys with LOOM_LOW_MEMORY */
} loom_memory;

#define LOOM_MEMORY_INIT                   \
    {                                      \
        sizeof(loom_memory), 0, 0, 0, 0, 0 \
    }

/* Tells beforehand what loom_map_create(config) and builds will take.
 * Synchronous; does not allocate. INVALID_ARGUMENT, and OUT_OF_MEMORY by memory_limit, as for create. */
LOOM_API loom_status loom_map_memory_required(loom_context *context, const loom_map_config *config,
                                              loom_memory *memory);

/* Makes an empty table. *map is set only on success.
 * Synchronous; allocates table_bytes. INVALID_ARGUMENT (the sentence names the field), UNSUPPORTED, OUT_OF_MEMORY. */
LOOM_API loom_status loom_map_create(loom_context *context, const loom_map_config *config, loom_map **map);

/* Waits for calls in flight, then frees the table. NULL is fine. Cursors of the map must be gone before. Device views should be
 * back; for those that are not (perhaps since the device is lost), destroy first waits for all that runs on the device, in any
 * stream, and warns in the log. Such a view is gone, too: kernels that were launched with it are over, and to launch one
 * afterwards is an error that cannot be detected for certain. */
LOOM_API void loom_map_destroy(loom_map *map);

/* Makes room for `capacity` keys in all, if there is not: moves the table, partition by partition, into a larger one. While that
 * lasts both are in memory; lookups afterwards are as fast as in a fresh table. What the table was made with (max_load, type, seed)
 * stays; a partition size or keys_per_cell that was asked for does not.
 *
 * A table with `growth` does the same by itself (build, insert, find_or_insert, accumulate, count):
 *   - A batch that surely fits goes to the table as it would without growth, and as fast.
 *   - Any other goes to the table whole; rows with keys that are there already need no room, and are often most. Only if
 *     the table holds more than its capacity then, or has refused keys, it grows: by the factor `growth`, or to as many keys as
 *     the refused rows seem to have, if those are more. Then these rows go to the table again; each counts once.
 *     So a table never grows for keys that do not come, and grouping any number of rows costs no more than without growth,
 *     but for a wait, as long as the table was made for their keys. Of a batch with many times more new keys than there is
 *     room for, most rows go to the table twice: reserve room before it, if their number is known.
 *   - Memory: while the table moves, both. Beside that temporary memory: for each refused row its key and value, and, if the
 *     call has a status or a found array, up to 9 bytes and a value more (twice that, if rows are refused a second time);
 *     before the table begins to move, and not any more then, also 8 bytes for each refused row, and a byte for each row if
 *     there is no status array where the machine works; and for a sample of keys 1 MB of host memory and 0.5 MB of temporary memory, if those can be had.
 *   - If memory is short, or the table is as large as its memory_limit allows, it does not begin to grow: what was stored stays so,
 *     the rest is refused, and the sentence tells how many bytes were missing, or the limit (where the call has a result, and so
 *     returns OK, too: ask loom_last_error at once).
 *   - While device views are out a table does not grow: calls beside them refuse keys, as kernels of views do.
 *
 * Synchronous; allocates. IN_USE: device views are out. OUT_OF_MEMORY: the table is as it was. */
LOOM_API loom_status loom_map_reserve(loom_map *map, uint64_t capacity, loom_stream stream);

/* Moves the table into one for the keys that it holds, if that is smaller. Otherwise as loom_map_reserve. */
LOOM_API loom_status loom_map_shrink(loom_map *map, loom_stream stream);

/* Changes loom_map_config.growth of a table that is there: of one that was loaded, for example. Calls that have begun go on as
 * they were. Waits for calls of other host threads; does not allocate; writer. INVALID_ARGUMENT: as for create. */
LOOM_API loom_status loom_map_set_growth(loom_map *map, double growth);

/* Likewise loom_map_config.memory_limit, in bytes; 0: none. Loads do not change. OUT_OF_MEMORY: the table takes more than that
 * already, and the limit is as it was. */
LOOM_API loom_status loom_map_set_memory_limit(loom_map *map, uint64_t memory_limit);

/* Gives the table memory to work with: builds and inserts that need temporary memory, and no more than that, take it from there
 * instead of allocating. It is memory of the kind that the context's tables have (loom_array_create makes some), stays the
 * caller's, and must not be used otherwise until another one, or NULL and 0, has been set and the calls before have ended.
 *   workspace   aligned to LOOM_WORKSPACE_ALIGNMENT     bytes   loom_map_memory_required tells how many a build needs
 * Does not wait. INVALID_ARGUMENT. */
#define LOOM_WORKSPACE_ALIGNMENT 64
LOOM_API loom_status loom_map_set_workspace(loom_map *map, void *workspace, size_t bytes);

/* Replaces the table's contents by the batch, partition by partition: the fastest way to fill a table.
 *   flags    LOOM_KEEP or LOOM_OVERWRITE, perhaps | LOOM_IN_ORDER: which of equal keys in the batch wins;
 *            perhaps | LOOM_BY_PARTITION or LOOM_DIRECTLY: how
 *   keys     /[n] key_bytes/     values   /[n] value_bytes/     status   /[n], optional/ OK, EXISTS or FULL
 * Allocates temporary memory (loom_map_memory_required), and for growth; writer.
 *
 * CUDA graphs. In a stream that is being captured a build becomes part of the graph: small builds are launched faster so. It
 * needs a workspace of build_bytes (loom_map_set_workspace), with statuses status_bytes, arrays and a result where the device
 * reaches them, and goes by partition. Replays read the arrays as they are then. The library does not see replays: while one
 * runs nothing else may use the table or its workspace, and neither may move: no growth, reserve, shrink or destroy before
 * the graph's last replay; cursors do not notice; inserts into a table that may grow then always wait, until their end.
 * Builds of perfect tables wait for their end, and cannot be captured: UNSUPPORTED.
 * FULL: some keys were refused, since the table must not grow or could not; the others are stored, `status` says which.
 * INVALID_ARGUMENT, OUT_OF_MEMORY, UNSUPPORTED (by the flags, see there): the table is as it was. */
LOOM_API loom_status loom_map_build(loom_map *map, const void *keys, const void *values, uint64_t n, uint32_t flags,
                                    uint8_t *status, loom_result *result, loom_stream stream);

/* Puts the batch into the table beside what is there. Parameters and statuses as in loom_map_build.
 * On the cuda machine a batch of 2^18 keys and more, one for every ten slots of the table, goes by partition if it has no status
 * array, nothing else is asked for, and temporary memory can be had; then, as with LOOM_BY_PARTITION, it overlaps with nothing.
 * Allocates for that and with LOOM_BY_PARTITION (as a build, on the cuda machine up to twice as much), with LOOM_IN_ORDER
 * (loom_memory.order_bytes), and for growth; writer. UNSUPPORTED: by the flags, see there.
 * Perfect tables: whatever may store keys (insert, find_or_insert, accumulate, count) overlaps with nothing. On the cpu machine it
 * is in order, and takes temporary memory as a build does, if it can be had; and, where room is hard to make, some host memory. On
 * the cuda machine it takes as much as a build, or less where there is less: OUT_OF_MEMORY if some cannot be had at all. */
LOOM_API loom_status loom_map_insert(loom_map *map, const void *keys, const void *values, uint64_t n, uint32_t flags,
                                     uint8_t *status, loom_result *result, loom_stream stream);

/* Looks the keys up, and stores those that are absent with the values given.
 *   keys     /[n] key_bytes/     values   /[n] value_bytes/ for keys that are absent
 *   found    /[n] value_bytes, optional/ the value of each key, found or stored; zero bytes where it was refused
 *   status   /[n], optional/ OK (stored as new), EXISTS or FULL
 * Of equal keys in the batch one is stored and the others find it. Allocates only for growth (perfect tables: as loom_map_insert); writer. FULL:
 * as in loom_map_insert. INVALID_ARGUMENT. */
LOOM_API loom_status loom_map_find_or_insert(loom_map *map, const void *keys, const void *values, uint64_t n,
                                             void *found, uint8_t *status, loom_result *result, loom_stream stream);

/* Gives new values to keys that are there; others are left absent.
 *   keys     /[n] key_bytes/     values   /[n] value_bytes/     status   /[n], optional/ OK or NOT_FOUND
 * Of equal keys in the batch any one's value stays. Does not allocate; writer. INVALID_ARGUMENT. */
LOOM_API loom_status loom_map_update(loom_map *map, const void *keys, const void *values, uint64_t n, uint8_t *status,
                                     loom_result *result, loom_stream stream);

typedef enum loom_combine {
    LOOM_COMBINE_ADD = 0,
    LOOM_COMBINE_MIN = 1,
    LOOM_COMBINE_MAX = 2,
    LOOM_COMBINE_ADD_AND_COUNT = 3 /* sum and count in one value of 8 bytes */
} loom_combine;

/* What the numbers given are; what values are, then, too, unless those are wider. */
typedef enum loom_number {
    LOOM_NUMBER_U32 = 0,
    LOOM_NUMBER_I32 = 1,
    LOOM_NUMBER_F32 = 2,
    LOOM_NUMBER_U64 = 3,
    LOOM_NUMBER_I64 = 4,
    LOOM_NUMBER_F64 = 5
} loom_number;

/* A value that LOOM_COMBINE_ADD_AND_COUNT made, taken apart; and what one number of 32 bits is there, for kernels that add such
 * values by themselves. */
#define LOOM_SUM_OF(value)   ((uint64_t)(value) & (((uint64_t)1 << 40) - 1))
#define LOOM_COUNT_OF(value) ((uint64_t)(value) >> 40)
#define LOOM_COUNTED(number) ((uint64_t)(number) + ((uint64_t)1 << 40))

/* Adds each value to the one that its key has, or keeps the smaller or larger of both; an absent key is stored with the
 * value given. Equal keys in the batch all count: this is counting, and grouping by key.
 *   combine  LOOM_COMBINE_ADD, _MIN, _MAX or _ADD_AND_COUNT     number   the type of the numbers in `values`
 *   keys     /[n] key_bytes/     values   /[n] bytes of the number/
 *   status   /[n], optional/ OK (stored as new), EXISTS or FULL
 * Numbers are as wide as the map's values, or of 4 bytes where those are of 8. Then each is widened before it is combined: U32
 * to U64, I32 to I64, F32 to F64. So 4 bytes are read for each row, and sums have 64 bits.
 * LOOM_COMBINE_ADD_AND_COUNT takes LOOM_NUMBER_U32 and a map with values of 8 bytes. It adds up and counts at once: the lower 40
 * bits of a value are the sum, the upper 24 the count (LOOM_SUM_OF, LOOM_COUNT_OF). That holds while the sum of a key is below
 * 2^40 and its rows are at most 2^24 - 1; beyond, sums run into counts, and counts wrap around, without notice. Use two tables then.
 * Sums of integers wrap around, modulo 2^32 or 2^64. Sums of floats come out in the order of the additions, which differs
 * from run to run; on the cuda machine those in values of 4 bytes may take subnormal numbers for zero. Minima and maxima
 * ignore a NaN that comes; one that is there stays.
 * Takes temporary memory where it can be had and that is faster (cuda, batches with several rows for each key of the table), and
 * memory for growth; writer. FULL: as in loom_map_insert. INVALID_ARGUMENT: also if the numbers do not fit the values. */
LOOM_API loom_status loom_map_accumulate(loom_map *map, const void *keys, const void *values, uint64_t n,
                                         loom_combine combine, loom_number number, uint8_t *status, loom_result *result,
                                         loom_stream stream);

/* Counts: adds one to the value of each key, as an unsigned number of value_bytes; an absent key is stored with one. The
 * same as loom_map_accumulate with LOOM_COMBINE_ADD and values of one, without reading them.
 *   keys     /[n] key_bytes/     status   /[n], optional/ OK (counted for the first time), EXISTS or FULL
 * Memory as in loom_map_accumulate; writer. FULL: as in loom_map_insert. INVALID_ARGUMENT, UNSUPPORTED (a set). */
LOOM_API loom_status loom_map_count(loom_map *map, const void *keys, uint64_t n, uint8_t *status, loom_result *result,
                                    loom_stream stream);

/* Looks the keys up.
 *   keys     /[n] key_bytes/     values   /[n] value_bytes/ zero bytes where the key is absent; a set: NULL
 *   status   /[n], optional/ OK or NOT_FOUND
 * Does not allocate; reader. Absent keys are no failure: OK. INVALID_ARGUMENT. */
LOOM_API loom_status loom_map_find(loom_map *map, const void *keys, uint64_t n, void *values, uint8_t *status,
                                   loom_result *result, loom_stream stream);

/* Tells which keys are there.
 *   found    /[n], optional/ 1 or 0     status   /[n], optional/ OK or NOT_FOUND
 * Does not allocate; reader. INVALID_ARGUMENT. */
LOOM_API loom_status loom_map_contains(loom_map *map, const void *keys, uint64_t n, uint8_t *found, uint8_t *status,
                                       loom_result *result, loom_stream stream);

/* Takes the keys out. Of equal keys in the batch one gets OK, the others NOT_FOUND.
 *   status   /[n], optional/ OK or NOT_FOUND
 * Does not allocate; writer. INVALID_ARGUMENT. */
LOOM_API loom_status loom_map_erase(loom_map *map, const void *keys, uint64_t n, uint8_t *status, loom_result *result,
                                    loom_stream stream);

/* The exact number of keys. Does not allocate; reader. INVALID_ARGUMENT. */
LOOM_API loom_status loom_map_size(loom_map *map, uint64_t *size, loom_stream stream);

/* Empties the table. Does not allocate; writer. INVALID_ARGUMENT. */
LOOM_API loom_status loom_map_clear(loom_map *map, loom_result *result, loom_stream stream);

/* Makes a second table with the same contents, shape, seed and growth, on the same context.
 * Allocates as create does; reader. OUT_OF_MEMORY, INVALID_ARGUMENT. */
LOOM_API loom_status loom_map_clone(loom_map *map, loom_map **clone, loom_stream stream);

/* Writes all pairs, in no particular order, and their number.
 *   keys     /[room], or NULL with room = 0: count only/     values   /[room], optional/
 *   count    the number of pairs in the table
 * Does not allocate; reader. TOO_SMALL: room < *count; nothing was written. INVALID_ARGUMENT. */
LOOM_API loom_status loom_map_retrieve_all(loom_map *map, void *keys, void *values, uint64_t room, uint64_t *count,
                                           loom_result *result, loom_stream stream);

/* The same in chunks, for tables larger than the arrays at hand: open, then next until *got is 0, then close.
 * Every pair comes once. Between calls the table may be read; after any call that writes, even one that found nothing to
 * change, next returns CHANGED and the cursor stays so: close it and open another.
 *   count    optional: pairs in all     keys   /[room]/     values   /[room], optional/     got   pairs written
 * Does not allocate except in open; reader; a cursor is for one thread at a time. INVALID_ARGUMENT (room = 0),
 * CHANGED, OUT_OF_MEMORY. */
LOOM_API loom_status loom_map_cursor_open(loom_map *map, loom_cursor **cursor, uint64_t *count, loom_stream stream);
LOOM_API loom_status loom_cursor_next(loom_cursor *cursor, void *keys, void *values, uint64_t room, uint64_t *got,
                                      loom_stream stream);
LOOM_API void loom_cursor_close(loom_cursor *cursor);

/* Calls `visit` with all pairs, in no particular order, a few thousand at a time, on the calling thread.
 *   keys, values   /[n]/ in host memory, on every machine, valid during the visit; a set has values = NULL
 * `visit` returns 0 to go on; anything else ends the visits, and *stopped, if given, gets that value (0 at the end). It may
 * call anything: the table is not locked meanwhile. After a call that writes it, by whomever, the visits end with CHANGED.
 * Synchronous; allocates; reader. INVALID_ARGUMENT, CHANGED, OUT_OF_MEMORY. In kernels: loom/device.cuh. */
typedef int (*loom_visit)(void *user, const void *keys, const void *values, uint64_t n);
LOOM_API loom_status loom_map_for_each(loom_map *map, loom_visit visit, void *user, int *stopped, loom_stream stream);

/* Writes the table to a file (docs/format.md): under a temporary name in the same directory, synced, then renamed
 * over `path`, then the directory synced. If anything fails the old file is untouched and the temporary one gone; only if
 * the very last step fails, syncing the directory, the new file is in place but might not survive a power failure. The new
 * file has the permissions of the old one; a symbolic link is replaced, not followed.
 * Synchronous; allocates; reader. IO (the sentence has the system's reason), INVALID_ARGUMENT, OUT_OF_MEMORY. */
LOOM_API loom_status loom_map_save(loom_map *map, const char *path, loom_stream stream);

/* Makes a table from a file, whichever machine wrote it. *map is set only on success. It grows as LOOM_MAP_CONFIG_INIT says
 * (loom_map_set_growth), without a limit (loom_map_set_memory_limit).
 * Synchronous; allocates as create does. IO, BAD_FILE (truncated, damaged, or not ours), FOREIGN_VERSION,
 * UNSUPPORTED, INVALID_ARGUMENT, OUT_OF_MEMORY. */
LOOM_API loom_status loom_map_load(loom_context *context, const char *path, loom_map **map, loom_stream stream);

typedef struct loom_stats {
    size_t struct_size; /* set by LOOM_STATS_INIT before the call */
    loom_engine engine;
    uint32_t key_bytes;
    uint32_t value_bytes;
    uint32_t slots_per_bucket;
    uint64_t capacity; /* as asked for */
    uint64_t size;     /* keys in the table */
    uint64_t slots;    /* places for keys */
    uint64_t partitions;
    uint64_t buckets_per_partition;
    uint64_t
        fullest_partition; /* keys in the fullest partition; it refuses keys at slots / partitions, a perfect one before */
    uint64_t displaced;    /* keys that do not lie in their home bucket; perfect tables: 0 */
    uint64_t longest_chain; /* buckets read to find the farthest key */
    uint64_t memory_bytes;
    uint64_t seed;
    double load;              /* size / slots */
    double accesses_per_hit;  /* buckets read per lookup of a key that is there, over all keys */
    double accesses_per_miss; /* expected for a random absent key, from the overflow filters as they are; perfect: 1 */
    loom_type type;
    uint32_t reserved;
    uint64_t code_bytes; /* perfect tables: of all codes, of which a lookup reads 8; best less than a cache holds */
    uint64_t stashed;    /* perfect tables: keys that no code places, in stash buckets; found as fast as any */
} loom_stats;

#define LOOM_STATS_INIT                                                                                                \
    {                                                                                                                  \
        sizeof(loom_stats), LOOM_ENGINE_DEFAULT, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, LOOM_TYPE_DEFAULT, 0, \
            0, 0                                                                                                       \
    }

/* Measures the table; reads all of it. Does not allocate; reader. INVALID_ARGUMENT. */
LOOM_API loom_status loom_map_stats(loom_map *map, loom_stats *stats, loom_stream stream);

/* Bytes that the table holds now, bookkeeping included. Does not allocate; reader. INVALID_ARGUMENT. */
LOOM_API loom_status loom_map_memory_used(loom_map *map, uint64_t *bytes);

/* What a map was made with: a config from which an equal, empty one can be made. INVALID_ARGUMENT. */
LOOM_API loom_status loom_map_get_config(loom_map *map, loom_map_config *config);

/* ---- Filter ------------------------------------------------------------------------------------------- */

/* A blocked Bloom filter: of a key that was inserted it always says that it is there; of any other one it says so with the
 * false-positive rate, and otherwise that it is absent. A key sets 4, 8, 12 or 16 bits of one block of 64 bytes, so a query
 * reads one block. Keys cannot be counted, listed or taken out.
 *
 * What may run at the same time: insert and contains, each with itself and with the other, from any number of host threads and in
 * any streams; a key whose insertion ended before a query began is found (the lane simulator, docs/simulator.md, runs the algorithms
 * beside each other). Large inserts (LOOM_BY_PARTITION, or chosen by the library), merge and clear run alone; save, clone, stats and being
 * merged into another filter beside each other on the device, and alone among the calls of host threads. */

typedef struct loom_filter_config {
    size_t struct_size;         /* set by LOOM_FILTER_CONFIG_INIT */
    uint32_t key_bytes;         /* 4 or 8; no default */
    uint32_t probes;            /* bits that a key sets: 4, 8, 12 or 16; 0: chosen from the bits available */
    uint64_t capacity;          /* keys that it is to hold. With `bytes`, 0: unknown */
    double false_positive_rate; /* that it is to have with so many keys: 10^-9 to 0.5; not used with `bytes` */
    uint64_t bytes; /* its size, rounded up to whole blocks, above 64 KiB to multiples of that; 0: follows from the
                                   two above */
} loom_filter_config;

#define LOOM_FILTER_CONFIG_INIT                       \
    {                                                 \
        sizeof(loom_filter_config), 0, 0, 0, 0.001, 0 \
    }

/* Tells beforehand what loom_filter_create(config) will take, and an insertion of `capacity` keys by partition (build_bytes; 0: it
 * cannot go so; the other fields are 0). Synchronous; does not allocate. INVALID_ARGUMENT as for create. */
LOOM_API loom_status loom_filter_memory_required(loom_context *context, const loom_filter_config *config,
                                                 loom_memory *memory);

/* Makes an empty filter. *filter is set only on success.
 * Synchronous; allocates table_bytes. INVALID_ARGUMENT (the sentence names the field; neither a capacity nor bytes, say, or more
 * than 2^32 - 1024 blocks), UNSUPPORTED (the machine has no filters), OUT_OF_MEMORY. */
LOOM_API loom_status loom_filter_create(loom_context *context, const loom_filter_config *config, loom_filter **filter);

/* Makes an empty filter of the same shape and seed, on the same context, so that the two can be merged.
 * Synchronous; allocates. INVALID_ARGUMENT, OUT_OF_MEMORY. */
LOOM_API loom_status loom_filter_create_like(loom_filter *filter, loom_filter **like);

/* The same with the same contents. Reader. INVALID_ARGUMENT, OUT_OF_MEMORY. */
LOOM_API loom_status loom_filter_clone(loom_filter *filter, loom_filter **clone, loom_stream stream);

/* Waits for calls in flight, then frees the filter. NULL is fine. Device views: as in loom_map_destroy. */
LOOM_API void loom_filter_destroy(loom_filter *filter);

/* Inserts the keys. They are in it afterwards, with OVERFILLED, too.
 *   keys     /[n] key_bytes/     flags   0, LOOM_BY_PARTITION or LOOM_DIRECTLY
 * Takes temporary memory by partition, where it can be had; without, it goes directly.
 * OVERFILLED: the filter, going by its bits, holds more keys than its capacity, a sixty-fourth of it and what such an estimate may be wrong by
 * (four times the capacity's square root): its false positives are more than were asked for (loom_filter_stats tells). To find that out, a call that brings the keys given so far past the capacity counts the
 * filter's bits, and waits; so does one of each sixty-fourth of the capacity that follows. Filters without a capacity, and keys that
 * are there already, never make it so. INVALID_ARGUMENT; UNSUPPORTED or OUT_OF_MEMORY: LOOM_BY_PARTITION cannot be had. */
LOOM_API loom_status loom_filter_insert(loom_filter *filter, const void *keys, uint64_t n, uint32_t flags,
                                        loom_result *result, loom_stream stream);

/* Tells which keys are there, perhaps.
 *   keys     /[n] key_bytes/     found    /[n], optional/ 1: probably; 0: surely not
 * result->ok counts the former, not_found the latter. Does not allocate; reader. INVALID_ARGUMENT. */
LOOM_API loom_status loom_filter_contains(loom_filter *filter, const void *keys, uint64_t n, uint8_t *found,
                                          loom_result *result, loom_stream stream);

/* Puts all keys of `other` into `filter`, by uniting their bits. Both have the same context, key width, shape and seed
 * (loom_filter_create_like; two of a fixed seed and equal configs; a file and its filter). `other` stays as it is. It waits.
 * INVALID_ARGUMENT: they differ, and the sentence says in what. OVERFILLED: as in loom_filter_insert; they are merged. */
LOOM_API loom_status loom_filter_merge(loom_filter *filter, loom_filter *other, loom_stream stream);

/* UNSUPPORTED, for every filter: a bit may belong to several keys. Clear the filter and insert what is left, or use a set. */
LOOM_API loom_status loom_filter_erase(loom_filter *filter, const void *keys, uint64_t n, loom_result *result,
                                       loom_stream stream);

/* Empties the filter. Does not allocate; writer. INVALID_ARGUMENT. */
LOOM_API loom_status loom_filter_clear(loom_filter *filter, loom_result *result, loom_stream stream);

/* To and from files, as loom_map_save and loom_map_load. */
LOOM_API loom_status loom_filter_save(loom_filter *filter, const char *path, loom_stream stream);
LOOM_API loom_status loom_filter_load(loom_context *context, const char *path, loom_filter **filter,
                                      loom_stream stream);

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
    double fill;           /* bits_set / bits */
    double estimated_keys; /* different ones, from the fill: right within some tenths of a percent in large filters */
    double false_positive_rate; /* of a random absent key, from the bits as they are: exact but for the hash */
    double designed_rate;       /* the same as expected with `capacity` keys; 0 without a capacity */
} loom_filter_report;

#define LOOM_FILTER_REPORT_INIT                                                                     \
    {                                                                                               \
        sizeof(loom_filter_report), LOOM_ENGINE_DEFAULT, 0, 0, 0, 0, 0, 0, 0, 0, 0.0, 0.0, 0.0, 0.0 \
    }

/* Measures the filter; reads all of it. Does not allocate; reader. INVALID_ARGUMENT. */
LOOM_API loom_status loom_filter_stats(loom_filter *filter, loom_filter_report *report, loom_stream stream);

/* Bytes that the filter holds now, bookkeeping included. INVALID_ARGUMENT. */
LOOM_API loom_status loom_filter_memory_used(loom_filter *filter, uint64_t *bytes);

/* A config from which an equal, empty one can be made (with a seed of its own, unless seeds are fixed): `bytes` and `probes` are
 * those it has. INVALID_ARGUMENT. */
LOOM_API loom_status loom_filter_get_config(loom_filter *filter, loom_filter_config *config);

/* ---- Device views ------------------------------------------------------------------------------------- */

/* What a user's kernels do to a table through a view; loom/device.cuh has the functions, and says what each view offers. */
typedef enum loom_view_access {
    LOOM_VIEW_FIND = 1,       /* lookups of a table that nobody writes */
    LOOM_VIEW_INSERT = 2,     /* insert, find_or_insert; and lookups */
    LOOM_VIEW_ACCUMULATE = 3, /* accumulate; and lookups */
    LOOM_VIEW_ERASE = 4,      /* erase; and lookups */
    LOOM_VIEW_MIXED =
        5 /* insert (keeping), find_or_insert, erase and lookups, all at the same time. A slot that was freed
                                 is not taken again before the view is given back: leave room for what comes meanwhile */
} loom_view_access;

/* A table as kernels see it: pass it by value. */
typedef struct loom_map_view {
    uint32_t layout; /* LOOM_VIEW_LAYOUT, or that of its engine, of the library that made it; device.cuh compares */
    loom_view_access access;
    uint32_t key_bytes, value_bytes;
    uint64_t generation; /* changes when the table's memory does; device.cuh compares */
    uint64_t serial;     /* no two views of a process have the same; loom_map_view_end knows by it which are out */
    uint64_t table[22];  /* for device.cuh */
} loom_map_view;

#define LOOM_VIEW_LAYOUT         2       /* of open tables: loom::table of device.cuh */
#define LOOM_PERFECT_VIEW_LAYOUT 0x30001 /* of perfect tables: loom::perfect_table; no number that another engine has */

/* Lends the table to kernels that are launched into `stream` from now on, and takes it back behind those that were. Between
 * the two, calls that may not overlap with what the view does, as the table above says, return IN_USE; those that may, and
 * further views of the same access, up to 16 at once, go on. A view is given back once, as it is or as a copy, in the stream it
 * was taken with, or in one that waits for its kernels. If giving it back fails it is still out: try again, or destroy the table.
 * Stream-ordered; neither waits nor allocates. The table's size is right again, and a mixed view's freed slots are free again, when
 * the last view is back. UNSUPPORTED: the machine has no kernels (LOOM_FEATURE_VIEWS), a set cannot accumulate, or the
 * table is a perfect one and the access another than LOOM_VIEW_FIND (LOOM_FEATURE_WRITING_VIEWS): keys of such a table move when
 * others come, which is for the bulk calls to do. IN_USE: a view of another access is out, or 16 are. INVALID_ARGUMENT: not a view
 * that is out, of this table. */
LOOM_API loom_status loom_map_view_begin(loom_map *map, loom_view_access access, loom_map_view *view,
                                         loom_stream stream);
LOOM_API loom_status loom_map_view_end(loom_map *map, const loom_map_view *view, loom_stream stream);

/* A filter as kernels see it: pass it by value. A view offers insert and contains, in any kernels at the same time; while one is
 * out, calls that run alone return IN_USE. Taken and given back as those of maps. */
typedef struct loom_filter_view {
    uint32_t layout; /* LOOM_FILTER_VIEW_LAYOUT of the library that made it; device.cuh compares */
    uint32_t key_bytes;
    uint64_t serial;
    uint64_t filter[8]; /* for device.cuh */
} loom_filter_view;

#define LOOM_FILTER_VIEW_LAYOUT 1

LOOM_API loom_status loom_filter_view_begin(loom_filter *filter, loom_filter_view *view, loom_stream stream);
LOOM_API loom_status loom_filter_view_end(loom_filter *filter, const loom_filter_view *view, loom_stream stream);

/* ---- EXPERIMENTAL ------------------------------------------------------------------------------------- */

/* Checks every invariant of the table's layout: each key lies in its own partition, is reachable by its own chain,
 * is there once, and the counts agree. Does not allocate; reader. INTERNAL or BAD_FILE-worthy damage is reported as
 * INTERNAL with a sentence that names the first bucket concerned. */
LOOM_API loom_status loom_map_verify(loom_map *map, loom_stream stream);

/* Counts the buckets that finding these keys reads: *accesses / n is the price of one lookup. For keys that were
 * just inserted into a table without erases it is also what the insertions read.
 *   keys     /[n] key_bytes/
 * Does not allocate; reader. INVALID_ARGUMENT. */
LOOM_API loom_status loom_map_count_accesses(loom_map *map, const void *keys, uint64_t n, uint64_t *accesses,
                                             loom_stream stream);

/* Arrays where the context's machine works: device memory on the cuda machine, host memory on the cpu machine. For callers
 * without a CUDA runtime of their own. `copy` takes any two arrays, here or on the host, that do not overlap, and waits.
 * `destroy` gets the bytes that were asked for; NULL is fine; calls that use the array must have ended.
 * INVALID_ARGUMENT, OUT_OF_MEMORY, DEVICE. */
LOOM_API loom_status loom_array_create(loom_context *context, size_t bytes, void **array);
LOOM_API void loom_array_destroy(loom_context *context, void *array, size_t bytes);
LOOM_API loom_status loom_array_copy(loom_context *context, void *to, const void *from, size_t bytes,
                                     loom_stream stream);

/* What the hardware can do at most, measured here and now. */
typedef enum loom_limit_kind {
    LOOM_LIMIT_COPY = 1,        /* sequential copy; rate in bytes per second, read plus written */
    LOOM_LIMIT_RANDOM_READ = 2, /* independent aligned reads of access_bytes (8 to 128); rate in reads per second */
    LOOM_LIMIT_RANDOM_CAS = 3,  /* independent 64-bit compare-and-swap; rate in swaps per second */
    /* Machines with memory of their own; others: UNSUPPORTED. */
    LOOM_LIMIT_HOST_COPY = 4, /* copy to device memory from a footprint of pinned host memory; in bytes per second */
    LOOM_LIMIT_HOST_RANDOM_READ = 5, /* RANDOM_READ by the device from pinned host memory; in reads per second */
    LOOM_LIMIT_ANSWERED_READ = 6 /* RANDOM_READ of 64 bytes, for each of which 4 bytes are read from and 5 written to
                                        other arrays, in order, as lookups do; in reads per second */
} loom_limit_kind;

typedef struct loom_limit {
    size_t struct_size;       /* set by LOOM_LIMIT_INIT before the call */
    loom_limit_kind kind;     /* in */
    uint32_t access_bytes;    /* in: 8, 16, 32, 64 or 128 for RANDOM_READ */
    uint64_t footprint_bytes; /* in: size of the array; at least 4096 */
    double rate;              /* out: the best of several shapes */
    char shape[64];           /* out: which one, e.g. "2 threads, distance 32, huge pages" */
} loom_limit;

#define LOOM_LIMIT_INIT                                 \
    {                                                   \
        sizeof(loom_limit), LOOM_LIMIT_COPY, 0, 0, 0.0, \
        {                                               \
            0                                           \
        }                                               \
    }

/* Measures one limit of the context's machine, trying several shapes (threads, prefetch distances, page sizes).
 * Takes about a second; allocates footprint_bytes (COPY: as source and target together); the rate is what the machine
 * did, so other load on it lowers it. INVALID_ARGUMENT, UNSUPPORTED, OUT_OF_MEMORY. */
LOOM_API loom_status loom_measure_limit(loom_context *context, loom_limit *limit);

#ifdef __cplusplus
}
#endif
#endif
