/* What every part of hashloom shares: version, status codes, contexts, memory, bulk calls.
 * loom/loom.h has the guarantees, the costs and an example. */
#ifndef LOOM_LOOM_BASE_H
#define LOOM_LOOM_BASE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Define LOOM_STATIC in programs that link the static library. Calls are then direct, and a shared
 * library of yours that contains hashloom does not export hashloom's functions. */
#if defined(__GNUC__) && defined(LOOM_STATIC)
#define LOOM_API __attribute__((visibility("hidden")))
#elif defined(__GNUC__)
#define LOOM_API __attribute__((visibility("default")))
#else
#define LOOM_API
#endif

/* ---- Version --------------------------------------------------------------------------------- */

#define LOOM_VERSION_MAJOR 0
#define LOOM_VERSION_MINOR 1
#define LOOM_VERSION_PATCH 0
#define LOOM_VERSION       (LOOM_VERSION_MAJOR * 10000 + LOOM_VERSION_MINOR * 100 + LOOM_VERSION_PATCH)

/* Returns the version of the running library. LOOM_VERSION is the version of the header. */
LOOM_API uint32_t loom_version(void);

/* ---- Status codes ---------------------------------------------------------------------------- */

/* X(name, value, text). A value never changes its meaning. Values below 16 are also used for single
 * keys, as uint8_t. */
#define LOOM_STATUS_LIST(X)                                                         \
    X(OK, 0, "done")                                                                \
    X(NOT_FOUND, 1, "the key is not in the table")                                  \
    X(EXISTS, 2, "the key was in the table already")                                \
    X(FULL, 3, "there is no room for the key")                                      \
    X(TOO_LONG, 4, "the key or its value is longer than the table allows")          \
    X(INVALID_ARGUMENT, 16, "an argument cannot be used")                           \
    X(OUT_OF_MEMORY, 17, "memory could not be had")                                 \
    X(UNSUPPORTED, 18, "this machine, engine or version does not offer the call")   \
    X(CHANGED, 19, "the table changed while a cursor was reading it")               \
    X(TOO_SMALL, 20, "an output array is too small")                                \
    X(NO_MACHINE, 21, "the machine asked for is not present")                       \
    X(DEVICE, 22, "the device reported an error")                                   \
    X(IN_USE, 23, "a device view of the table is lent")                             \
    X(OVERFILLED, 24, "the filter holds more keys than it was made for")            \
    X(IO, 32, "a file could not be read or written")                                \
    X(BAD_FILE, 33, "the file is damaged or is not a hashloom file")                \
    X(FOREIGN_VERSION, 34, "the file was written in another version of the format") \
    X(LOCKED, 35, "the durable map is open elsewhere")                              \
    X(INTERNAL, 64, "a fault inside hashloom")

typedef enum loom_status {
#define LOOM_STATUS_ENUM_(name, value, text) LOOM_##name = value,
    LOOM_STATUS_LIST(LOOM_STATUS_ENUM_)
#undef LOOM_STATUS_ENUM_
        LOOM_STATUS_FORCE_INT_ = 0x7fffffff
} loom_status;

/* Return the name and the text of a status code. For LOOM_FULL these are "LOOM_FULL" and "there is
 * no room for the key". Never NULL. */
LOOM_API const char *loom_status_name(loom_status status);
LOOM_API const char *loom_status_text(loom_status status);

/* Returns one sentence about the last failed call of this thread: what was wrong, and what to do.
 * Returns "" if no call failed yet. The string is valid until the next failing call of the same
 * thread. Successful calls do not clear it. */
LOOM_API const char *loom_last_error(void);

/* ---- How the comments of calls read ------------------------------------------------------------
 *
 * A comment begins with what the call does. Then come its parameters: [n] is the number of elements
 * of an array, and "optional" means that NULL is fine. Then comes a list:
 *   Memory   what the call allocates. Three allocations are not repeated there: "Memory" under
 *            "Bulk calls" describes them
 *   Runs     when the call ends: "synchronous" means before it returns; "as `result` says" is
 *            explained under "Bulk calls". Then which calls it may overlap: "reader", "writer" and
 *            "alone" are explained in map.h and filter.h
 *   Status   the status codes that the call returns apart from OK
 * Some status codes are not repeated in each list:
 *   - Every call may return INVALID_ARGUMENT. The sentence of loom_last_error names the argument.
 *     The list mentions INVALID_ARGUMENT where it has a special meaning.
 *   - On the cuda machine every call may return DEVICE, OUT_OF_MEMORY and UNSUPPORTED ("Bulk
 *     calls").
 *   - On tables with byte strings every call that takes or returns keys or values may return
 *     OUT_OF_MEMORY ("Bulk calls").
 *   - While a device view is lent, calls that may not overlap with it return IN_USE (view.h).
 * After OUT_OF_MEMORY the table is unchanged, unless the comment says otherwise. Large batches of
 * byte strings are another exception: docs/guide.md, "Byte strings". */

/* ---- Context --------------------------------------------------------------------------------- */

typedef struct loom_context loom_context;
typedef struct loom_map loom_map;
typedef struct loom_cursor loom_cursor;
typedef struct loom_filter loom_filter;

/* A stream of the context's machine: a cudaStream_t on the cuda machine. The cpu machine has no
 * streams and takes only NULL: there, a call is complete when it returns. */
typedef void *loom_stream;

typedef enum loom_machine {
    LOOM_MACHINE_BEST = 0, /* the fastest that is present */
    LOOM_MACHINE_CPU = 1,
    LOOM_MACHINE_CUDA = 2
} loom_machine;

/* How the cpu machine compares the slots of a bucket with a key. */
typedef enum loom_simd {
    LOOM_SIMD_BEST = 0, /* the widest that the processor has */
    LOOM_SIMD_SCALAR = 1,
    LOOM_SIMD_NEON = 2,
    LOOM_SIMD_AVX2 = 3
} loom_simd;

typedef enum loom_memory_kind {
    LOOM_MEMORY_HOST = 0,  /* handles and bookkeeping; the host reads and writes it */
    LOOM_MEMORY_TABLE = 1, /* tables and other long-lived memory; in the machine's memory */
    /* Memory for one call, also in the machine's memory. The library releases it in the stream of
     * the call, possibly before the work of the call has ended. */
    LOOM_MEMORY_TEMPORARY = 2,
    /* Host memory for rows of tables (LOOM_ROWS_IN_HOST_MEMORY). The machine reads and writes it,
     * too: for the cuda machine it is pinned and mapped, by cudaHostAlloc or cudaHostRegister. */
    LOOM_MEMORY_PINNED = 3
} loom_memory_kind;

/* Where a context takes memory from. Set both functions or neither.
 *   - Any thread may call them, at the same time.
 *   - `allocate` returns NULL if there is no memory. `release` gets the size that was asked for.
 *   - `stream` is the stream of the call that needs the memory, for example a clone, a load or a
 *     build. It is NULL for calls without a stream (create, destroy) and for HOST memory.
 *   - Memory from `allocate` must be usable by every stream.
 *   - HOST, TABLE and PINNED memory is not in use any more when `release` gets it. TEMPORARY memory
 *     may still be in use by work that is ahead in `stream`.
 *   - The staging buffers of the cuda machine come from CUDA itself: 65 MiB for a context, up to
 *     194 MiB if threads call at the same time. */
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
    int32_t device;       /* device number; -1: the current one. cpu machine: -1 or 0 */
    uint32_t threads;     /* host threads, the caller included; 0: one per usable core */
    loom_simd simd;       /* LOOM_SIMD_BEST */
    uint32_t fixed_seed;  /* 0: every table gets a random seed; 1: every table gets `seed` */
    uint32_t lanes;       /* cuda machine: lanes that probe a bucket: 1, 2, 4, 8; 0: chosen */
    uint64_t seed;        /* any value; used if fixed_seed is 1 */
    /* All NULL: the library's own allocator. It gives tables huge pages where the system has
     * them. */
    loom_allocator allocator;
    loom_log_function log; /* NULL: no log. Runs on the thread that made the call */
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
    uint64_t memory_bytes;    /* all memory of the device */
    uint64_t huge_page_bytes; /* page size of tables, if available; 0: ordinary pages */
} loom_context_info;

#define LOOM_CONTEXT_INFO_INIT                                                                  \
    {                                                                                           \
        sizeof(loom_context_info), LOOM_MACHINE_BEST, LOOM_SIMD_BEST, 0, 0, {0}, {0}, {0}, 0, 0 \
    }

/* Creates a context: a machine, its threads, and the source of memory. Tables keep their context
 * alive.
 *   config   NULL: LOOM_CONTEXT_CONFIG_INIT
 *   - Memory   allocates
 *   - Runs     synchronous; from any thread
 *   - Status   NO_MACHINE: the machine, device or SIMD kind is not present, and the sentence says
 *              why; LOOM_MACHINE_BEST without a GPU takes the cpu machine instead; OUT_OF_MEMORY;
 *              INVALID_ARGUMENT: a field has an unknown value, and the sentence names it */
LOOM_API loom_status loom_context_create(const loom_context_config *config, loom_context **context);

/* Releases the context. It is destroyed at once, or together with its last table. NULL is fine. */
LOOM_API void loom_context_destroy(loom_context *context);

/* Describes what the context runs on. Synchronous; allocates nothing. */
LOOM_API loom_status loom_context_describe(loom_context *context, loom_context_info *info);

/* Returns OK if a context for this machine can be created here.
 *   - Status   NO_MACHINE: it cannot, and the sentence says what is missing */
LOOM_API loom_status loom_machine_present(loom_machine machine);

typedef enum loom_type {
    LOOM_TYPE_DEFAULT = 0, /* a map */
    LOOM_TYPE_MAP = 1,
    LOOM_TYPE_SET = 2,     /* keys without values */
    LOOM_TYPE_COUNTER = 3, /* a map whose values are counts */
    LOOM_TYPE_FILTER = 4,  /* a loom_filter */
    LOOM_TYPE_MULTIMAP = 5 /* keys with any number of values each */
} loom_type;

typedef enum loom_engine {
    LOOM_ENGINE_DEFAULT = 0, /* open; rows for other widths than 4 and 8 bytes; bloom for filters */
    LOOM_ENGINE_OPEN = 1,
    LOOM_ENGINE_BLOOM = 2,   /* filters only */
    LOOM_ENGINE_PERFECT = 3, /* read-mostly maps, sets and counters: every lookup reads one bucket */
    LOOM_ENGINE_CHAIN = 4,   /* multimaps whose lists grow often: their values do not move */
    LOOM_ENGINE_ROWS = 5,    /* maps, sets, counters; any widths, and byte strings */
    LOOM_ENGINE_TICKETS = 6  /* the same without byte strings; fewer bytes a slot, more reads */
} loom_engine;

/* Tables of the rows engine: where the key and the value of an entry lie. */
typedef enum loom_layout {
    LOOM_LAYOUT_DEFAULT = 0,  /* the library chooses: together */
    LOOM_LAYOUT_TOGETHER = 1, /* side by side: best if lookups find their keys and read the values */
    LOOM_LAYOUT_APART = 2     /* keys in one array, values in another: best if values are seldom read */
} loom_layout;

/* Tables of the rows and tickets engines: where rows lie, and the bytes of strings. Tags always lie
 * where the machine works. They take 2.3 bytes for each slot, and answer lookups of absent keys by
 * themselves, all but one in some thousand. Boards of tickets take 0.25 to 1.15 bytes; an absent key
 * costs 0.03 rows with tickets of 8 bits, and up to 4 with fewer (docs/guide.md, "The tickets
 * engine"). */
typedef enum loom_row_place {
    LOOM_ROWS_ON_DEVICE = 0,     /* where the machine works */
    LOOM_ROWS_IN_HOST_MEMORY = 1 /* in host memory: for tables larger than the memory of a GPU */
} loom_row_place;

typedef enum loom_feature {
    LOOM_FEATURE_BUILD = 1,
    LOOM_FEATURE_INSERT = 2,
    LOOM_FEATURE_INSERT_IN_ORDER = 3, /* LOOM_IN_ORDER in insert and build; filters: in insert */
    LOOM_FEATURE_FIND = 4,
    LOOM_FEATURE_ERASE = 5,
    LOOM_FEATURE_RETRIEVE_ALL = 6,
    LOOM_FEATURE_SAVE = 7,
    LOOM_FEATURE_CLONE = 8,
    LOOM_FEATURE_GROW = 9, /* loom_map_reserve, loom_map_shrink, loom_map_config.growth */
    /* find while a call of another stream inserts, accumulates, updates or erases */
    LOOM_FEATURE_CONCURRENT_READS = 10,
    LOOM_FEATURE_ASYNCHRONOUS = 11, /* calls with a result may return before they are done */
    LOOM_FEATURE_FIND_OR_INSERT = 12,
    LOOM_FEATURE_UPDATE = 13,
    LOOM_FEATURE_ACCUMULATE = 14, /* also loom_map_count */
    LOOM_FEATURE_VIEWS = 15,      /* loom_map_view_begin with LOOM_VIEW_FIND at least */
    LOOM_FEATURE_MERGE = 16,      /* loom_filter_merge */
    /* loom_map_view_begin with all other accesses, which write; multimaps: with LOOM_VIEW_INSERT */
    LOOM_FEATURE_WRITING_VIEWS = 17,
    LOOM_FEATURE_ERASE_IF = 18,
    LOOM_FEATURE_LISTS = 19,   /* loom_map_find_counts, loom_map_find_all, loom_map_erase_pairs */
    LOOM_FEATURE_STRINGS = 20, /* LOOM_VARIABLE: keys or values that are byte strings */
    LOOM_FEATURE_APPLY = 21,   /* loom_map_apply */
    LOOM_FEATURE_DURABLE = 22  /* loom_map_open, for keys and values of fixed widths */
} loom_feature;

/* Returns OK if tables of this type and engine offer the feature on the context's machine.
 *   - Status   UNSUPPORTED: they do not, and the sentence says what to do instead;
 *              INVALID_ARGUMENT: this version does not know the type, engine or feature */
LOOM_API loom_status loom_supports(loom_context *context, loom_type type, loom_engine engine, loom_feature feature);

/* ---- Bulk calls -------------------------------------------------------------------------------
 *
 * Arrays. Keys and values are plain bytes of the table's widths, in the machine's byte order. Those
 * of 4 and 8 bytes are aligned to their width. Those of other widths may lie at any address.
 *   - cpu machine: arrays are in host memory.
 *   - cuda machine: each array, and the result, may be in host memory (pinned or pageable), in
 *     managed memory, or in memory of the context's device. The library detects which. Arrays on
 *     another device are refused. A call with host arrays is synchronous: it copies them in chunks,
 *     and copies overlap with work.
 *   - An output array must not overlap any other array of the call. With n = 0 arrays may be NULL.
 *
 * `status`, [n], optional: one loom_status below 16 for each key.
 *
 * `result`, optional.
 *   - Without a result the call is synchronous and returns the outcome of the batch.
 *   - With a result the call is stream-ordered. Its return value covers the arguments and the
 *     launch. The outcome is written to *result and to the arrays in stream order. If the table is
 *     full, the call itself returns LOOM_OK, and result->status is LOOM_FULL.
 *   - On the cpu machine, with host arrays, and with a result in pageable host memory, the outcome
 *     is written before the call returns. docs/guide.md ("Streams") lists every such case.
 *
 * Memory. Three allocations may happen even where a comment says "allocates nothing":
 *   - cuda machine: the first call that takes host arrays or reads a whole table allocates the
 *     staging buffers of the context. Any call may therefore return OUT_OF_MEMORY.
 *   - cpu machine: a call that reorganises worn partitions (upkeep, CAVEATS in loom.h) takes host
 *     memory until it ends: 4 to 8 bytes for each slot of a partition, per thread. Without that
 *     memory upkeep does less: more keys stay outside of their home buckets.
 *   - tables with byte strings: calls take temporary memory, 16 bytes for each key and each value
 *     that is a string. docs/guide.md, "Byte strings", tells more.
 *
 * Capture. While a stream of the cuda machine is being captured into a graph, loom_map_build,
 * loom_map_insert, loom_map_find and loom_map_contains can become part of the graph: docs/guide.md,
 * "Streams and CUDA graphs". Other calls return UNSUPPORTED, and so do all calls on multimaps and
 * on tables with byte strings.
 *
 * Threads. Any number of host threads may use a handle. A call uses all threads of its context.
 * Destroying a table waits for the calls that have begun. Beginning a call after that is an error
 * that the library cannot detect. */

typedef struct loom_result { /* 64 bytes; a key is counted once, by its status */
    int32_t status;          /* of the batch: OK; FULL: a key was refused; TOO_LONG; OVERFILLED (filters) */
    uint32_t reserved0;
    uint64_t keys;      /* n; erase_if: the pairs of the table before the call; byte strings: after a
                           failure the first keys of the batch that are done */
    uint64_t ok;        /* stored as new, found (find, contains), updated or erased */
    uint64_t exists;    /* was present, or came earlier in the batch (calls that insert); stays
                           (erase_if) */
    uint64_t not_found; /* absent (find, contains, update, erase) */
    uint64_t full;      /* refused (build, insert, find_or_insert, accumulate, count) */
    uint64_t too_long;  /* strings longer than the table allows (calls that insert, update) */
    uint64_t reserved[1];
} loom_result;

/* As key_bytes or value_bytes of a config: byte strings, each with a length of its own. */
#define LOOM_VARIABLE UINT32_MAX

/* Byte strings, one behind the other. String i is bytes[offsets[i]] to bytes[offsets[i + 1] - 1].
 * Embedded zeros and empty strings are strings like any other. Where keys (or values) are
 * LOOM_VARIABLE, the argument `keys` (`values`) of a call points to one of these, in host memory.
 *   offsets  [n + 1], ascending; in any memory
 *   bytes    [offsets[n]], in any memory; NULL if all strings are empty */
typedef struct loom_strings {
    const uint64_t *offsets;
    const void *bytes;
} loom_strings;

/* Where a call writes byte strings: retrieve_all and cursors, in place of an array of keys or
 * values.
 *   offsets  [room + 1] for a call with `room` pairs, in any memory. As in loom_strings, from 0 on
 *   bytes    [byte_room]; NULL with byte_room = 0: offsets only
 *   needed   the call sets it: the bytes of all strings */
typedef struct loom_strings_out {
    uint64_t *offsets;
    void *bytes;
    uint64_t byte_room;
    uint64_t needed;
} loom_strings_out;

/* LOOM_KEEP or LOOM_OVERWRITE, and other flags, combined by |. */
typedef enum loom_insert_flags {
    LOOM_KEEP = 0,      /* a key that exists keeps its value; multimaps: it gets another one */
    LOOM_OVERWRITE = 1, /* a key that exists gets the new value */

    /* Of equal keys in the batch the first (keep) or the last (overwrite) wins. Without this flag
     * any one wins. Takes temporary memory (loom_memory.order_bytes); docs/guide.md has the costs.
     * If the batch does not fit, any of its keys may be refused. A refused key is refused at all
     * its places in the batch. Filters: loom_filter_insert tells what the flag means there.
     * Multimaps: the values of a key keep the order of the batch. */
    LOOM_IN_ORDER = 2,

    /* These two choose the path that the keys take. Without either flag the library chooses by
     * measured break-even points. LOOM_BY_PARTITION and LOOM_IN_ORDER sort the batch first, and
     * LOOM_DIRECTLY does not: LOOM_DIRECTLY with either of them is INVALID_ARGUMENT. */
    LOOM_BY_PARTITION = 4, /* Sort by partition, then fill each partition as a whole; runs alone.
                              Without LOOM_IN_ORDER, a batch that cannot take this path returns
                              UNSUPPORTED. Inserts into perfect tables, and all batches of the
                              rows engine on the cuda machine, ignore the flag; multimaps take
                              another path instead */
    LOOM_DIRECTLY = 8,     /* insert key by key; open tables: without temporary memory */

    /* The build of an open table on the cuda machine takes temporary memory of less than a quarter
     * of the bytes of its pairs (a few percent more below a million keys), and a tenth more time.
     * loom_memory.low_memory_bytes tells the bytes. If this is not possible, for perfect tables,
     * and on the cpu machine, the build goes directly. In open tables the flag has no effect on
     * inserts, nor together with LOOM_IN_ORDER. Multimaps ignore the flag. */
    LOOM_LOW_MEMORY = 16
} loom_insert_flags;

/* The memory that a table takes, in bytes. loom_map_memory_required and loom_filter_memory_required
 * fill it in. */
typedef struct loom_memory {
    size_t struct_size;    /* set by LOOM_MEMORY_INIT before the call */
    uint64_t table_bytes;  /* for the life of the table, bookkeeping included; without host_bytes */
    uint64_t build_bytes;  /* in addition, in a build of `capacity` keys, or of `values` pairs */
    uint64_t status_bytes; /* instead of build_bytes, if the build has a status array */
    /* Instead of build_bytes and status_bytes, in a build or insert of `capacity` keys with
     * LOOM_IN_ORDER. */
    uint64_t order_bytes;
    uint64_t low_memory_bytes; /* instead of build_bytes, in a build with LOOM_LOW_MEMORY */
    /* The four numbers above are for arrays where the machine works. On the cuda machine, arrays in
     * host memory take at most this in addition: with LOOM_IN_ORDER, in multimaps, and for byte
     * strings, which are taken to have config.string_bytes bytes. 0 on the cpu machine. */
    uint64_t host_array_bytes;
    /* For the life of the table: rows in host memory (LOOM_ROWS_IN_HOST_MEMORY). */
    uint64_t host_bytes;
} loom_memory;

#define LOOM_MEMORY_INIT                         \
    {                                            \
        sizeof(loom_memory), 0, 0, 0, 0, 0, 0, 0 \
    }

/* ---- Hash ------------------------------------------------------------------------------------ */

/* Writes the 64-bit hash of each key. Tables and filters place their keys by this hash.
 *   keys       [n] of key_bytes
 *   key_bytes  1 to 256
 *   seed       any value. loom_stats.seed and loom_filter_report.seed are the seeds of a table and
 *              of a filter: with them the call writes the hashes that the table or filter uses
 *   hashes     [n]
 *   - The hash follows from the key, its width and the seed. It is the same on every machine. It is
 *     part of the file format (docs/format.md) and changes only with the format's number.
 *   - Different keys of the same width have different hashes, if they have at most 8 bytes.
 *   - A key with hash h belongs to partition ((h >> 32) * p) >> 32 of a table of p partitions
 *     (loom_stats.partitions).
 *   - All keys of a call have the same width. The call does not take a loom_strings.
 *   - The hash is not cryptographic: the seed is enough to compute a key from its hash.
 *   - loom::hash of loom/device.cuh is the same hash inside kernels.
 *   - Memory   allocates nothing
 *   - Runs     synchronous; overlaps with every call
 *   - Status   INVALID_ARGUMENT: another key_bytes */
LOOM_API loom_status loom_hash(loom_context *context, const void *keys, uint32_t key_bytes, uint64_t n, uint64_t seed,
                               uint64_t *hashes, loom_stream stream);

#ifdef __cplusplus
}
#endif
#endif
