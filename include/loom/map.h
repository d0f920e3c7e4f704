/* Maps, sets, counters and multimaps. loom/base.h has what all bulk calls share: arrays, `status`,
 * `result`, streams and memory. It also explains how the comments below read. docs/guide.md tells
 * more about engines, sizes, growth and streams.
 *
 * One handle serves four types, chosen by config.type:
 *   map       keys and values.
 *   set       keys only: value_bytes is 0, and every array of values is NULL. find and contains
 *             tell whether a key is present. find_or_insert, update, accumulate, count and erase_if
 *             are UNSUPPORTED. A bucket of 64 bytes holds 14 keys of 4 bytes, in perfect tables 16.
 *   counter   a map whose values are counts of 4 or 8 bytes. loom_map_count adds one for each key
 *             of its batch. loom_map_find returns the counts; it returns 0 for keys that were never
 *             counted, unless the call gives another value for them. All other calls of a map work
 *             too.
 *   multimap  keys with any number of values each. A pair may come any number of times: insert
 *             keeps all of them, and its status for a key that has values is OK. find returns one
 *             value of each key, find_all all of them; erase erases a key with all its values,
 *             erase_pairs single pairs, erase_if pairs by their value. loom_map_size counts pairs,
 *             loom_map_distinct keys. LOOM_OVERWRITE, find_or_insert, update, accumulate and count
 *             are UNSUPPORTED.
 *
 * Which calls may overlap ("Runs" in the comments)
 *   Host threads. On the cpu machine, and without a result, a call has ended when it returns.
 *   Readers run at the same time; a writer runs alone. A call waits for the calls that it may not
 *   overlap. Waiting calls are served first come, first served. Readers are find, contains,
 *   find_counts, find_all, size, distinct, retrieve_all, cursors, save, clone and stats.
 *
 *   Device. Calls that return before their work has ended (LOOM_FEATURE_ASYNCHRONOUS) are ordered
 *   on the device, whatever their streams:
 *     - The table below says which calls may overlap. Other calls run one after the other.
 *     - contains, find_counts and find_all count as find. size, retrieve_all, cursors, save, clone
 *       and stats wait for all writers.
 *     - These run alone: build, apply, clear, erase_if, reserve, shrink, calls with LOOM_IN_ORDER or
 *       LOOM_BY_PARTITION, large inserts (loom_map_insert), in perfect tables every call that may
 *       store keys, in multimaps every call that writes, and in tables with rows in host memory
 *       every update, and insertions and accumulations of 32,768 keys or more.
 *     - A call that might grow the table runs alone. An insertion first waits and counts the stored
 *       keys. If the batch still may not fit, the call is synchronous. An insertion might grow the
 *       table if its n keys, plus all keys given to the table before, exceed the capacity. A build
 *       might grow it if its own n keys do, and is synchronous then. With growth = 0 no call grows
 *       the table. docs/guide.md, "Growth", tells more.
 *
 *                | find      insert*   accumulate  update    erase
 *     -----------+--------------------------------------------------
 *     find       | yes       coherent  coherent    coherent  coherent
 *     insert*    | coherent  yes       no          no        no
 *     accumulate | coherent  no        yes         no        no
 *     update     | coherent  no        no          yes       no
 *     erase      | coherent  no        no          no        yes
 *
 *     yes        always
 *     coherent   in tables created with concurrent_reads. Their loads may cost more
 *     no         one after the other
 *     *          find_or_insert counts as insert
 *
 *   Tables of the rows engine have no concurrent_reads: for them "coherent" means no. Of values that
 *   overlap in one batch, however wide, one stays whole.
 *
 *   The same table says what the lanes and threads of one batch may do at the same time. For two
 *   batches it applies on machines with LOOM_FEATURE_CONCURRENT_READS. The lane simulator
 *   (docs/simulator.md) runs every allowed pair under thousands of schedules. The table claims no
 *   more than what the simulator verified.
 *
 *   A lookup overlaps writers of one kind only. If an erase and then an insert arrive while a find
 *   is in flight, the insert waits for the find. Inserts and erasures run at the same time only in
 *   kernels with a mixed view (LOOM_VIEW_MIXED). No call overlaps with a mixed view.
 *
 *   Operations on one key are linearizable: each takes effect at one moment between the begin and
 *   the end of its call. A call finds a key that is present during the whole call, and a key that
 *   was stored before the call began. Values are never torn. Nothing is stored or erased twice.
 *
 *   While a device view is lent, calls that may not overlap with it return IN_USE (loom/view.h). */
#ifndef LOOM_LOOM_MAP_H
#define LOOM_LOOM_MAP_H

#include <loom/base.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Create, destroy ------------------------------------------------------------------------- */

typedef struct loom_map_config {
    size_t struct_size; /* set by LOOM_MAP_CONFIG_INIT */
    /* 4 or 8; rows: 1 to 256, or LOOM_VARIABLE; tickets, multimaps: 1 to 256; no default */
    uint32_t key_bytes;
    /* 4 or 8; rows: 1 to 65536, or LOOM_VARIABLE; tickets, multimaps: 1 to 65536; no default; 0 for
     * sets */
    uint32_t value_bytes;
    uint64_t capacity;  /* keys that the table must be able to hold; 0 is fine */
    double max_load;    /* most capacity / slots: 0.01 to 0.95; 0: 0.8 (memory_limit) */
    loom_engine engine; /* LOOM_ENGINE_DEFAULT: open, or rows for widths that open does not have */
    /* 0; or 1: open maps, sets and counters, on machines with LOOM_FEATURE_CONCURRENT_READS */
    uint32_t concurrent_reads;
    /* 0: chosen. open, rows: prime, to 3499; perfect: 9, 17, ... 3497; tickets: slots, a prime from
     * 17 to 65521 */
    uint32_t buckets_per_partition;
    loom_type type; /* LOOM_TYPE_DEFAULT: a map */

    /* Above 1, up to 16: a table that would exceed its capacity grows to at least this many times
     * its capacity (loom_map_reserve). 0: a full table refuses keys. LOOM_MAP_CONFIG_INIT sets 2.
     * Files do not store this field. */
    double growth;

    /* Most bytes that the table may take (loom_memory.table_bytes); 0: no limit. It does not count
     * rows in host memory. If max_load is 0 and the table would take more at load factor 0.8, it
     * gets a higher max_load, up to 0.95, and keeps it. The table grows as far as the limit allows
     * and then refuses keys. While the table moves, the limit does not count its old memory. Files
     * do not store this field: a loaded table has no limit (loom_map_set_memory_limit). */
    uint64_t memory_limit;

    /* Perfect tables: how many keys share a code when the table is full to max_load; above 0, up to
     * 12. More keys per cell mean fewer codes and a lower load factor: the table gets the slots
     * that these cells need. 0: the library chooses by the load factor. Up to load factor 0.8 it
     * chooses larger cells if codes would exceed a third of the device's L2 cache and the load
     * factor leaves room. Open tables: 0. */
    double keys_per_cell;

    /* Multimaps; otherwise 0. The space for values, in values of all keys; `capacity` counts keys.
     * 0 is fine: the table grows. A build of `values` pairs fits. Inserts may need more: a list
     * that grows takes space elsewhere, and in the chain engine also for links. With growth = 0
     * they are then refused. Single values of 4 bytes lie beside their keys and take no space. */
    uint64_t values;

    /* Multimaps: further values of a key are refused (FULL); 0: a key has at most 2^30 - 1 values.
     * Otherwise 0. */
    uint64_t most_values_per_key;

    /* Multimaps of the chain engine; otherwise 0. A list that has no room gets a further bucket.
     * The first one has room for `first_bucket` values (1 to 32768), and each further one for
     * `bucket_growth` (1 to 8) times as many as the one before. A batch that brings a key more
     * values gets one bucket for all of them. 0: the library chooses, 4 and 1.5. */
    uint64_t first_bucket;
    double bucket_growth;

    /* Tables with LOOM_VARIABLE keys or values; otherwise 0. The space for strings, in bytes; 0 is
     * fine: the table grows. A string takes its length, rounded up to a multiple of 8. */
    uint64_t string_bytes;

    /* LOOM_VARIABLE: the longest key and the longest value, up to 2^30 bytes. A longer one gets the
     * status TOO_LONG, and the others of its batch are stored. 0: 4096, and 65536 for values.
     * Otherwise 0. */
    uint64_t most_key_bytes;
    uint64_t most_value_bytes;

    /* Tables of the rows engine: keys and values side by side, or in two arrays. A file stores it,
     * and a table keeps it when it grows. Sets, and other engines: 0. */
    loom_layout layout;

    /* Tables of the rows engine, which this field makes the default, and of the tickets engine: rows
     * where the machine works, or in host memory. A file stores it, and a table keeps it when it
     * grows. On the cuda machine calls with 32,768 keys or more may then wait, with a result too, and
     * writes of so many run alone (docs/guide.md, "Rows in host memory"). On the cpu machine it
     * changes nothing but what counts as host_bytes. Multimaps, and other engines: 0. */
    loom_row_place row_place;

    /* Tables of the tickets engine: bits of a ticket, 1, 2, 4 or 8, beside its access bit. One says
     * whether a slot is taken, the others are of the key's hash: more of them mean fewer rows of
     * other keys that a lookup reads. 0: 8. A file stores it, and a table keeps it when it grows.
     * Other engines: 0. */
    uint32_t ticket_bits;
} loom_map_config;

#define LOOM_MAP_CONFIG_INIT                                                                                       \
    {                                                                                                              \
        sizeof(loom_map_config), 0, 0, 0, 0.0, LOOM_ENGINE_DEFAULT, 0, 0, LOOM_TYPE_DEFAULT, 2.0, 0, 0.0, 0, 0, 0, \
            0.0, 0, 0, 0, LOOM_LAYOUT_DEFAULT, LOOM_ROWS_ON_DEVICE, 0                                              \
    }

/* Tells how much memory loom_map_create(config) and builds will take.
 *   - Memory   allocates nothing
 *   - Runs     synchronous
 *   - Status   as loom_map_create; OUT_OF_MEMORY only if the table does not fit its memory_limit */
LOOM_API loom_status loom_map_memory_required(loom_context *context, const loom_map_config *config,
                                              loom_memory *memory);

/* Creates an empty table. *map is set only on success.
 *   - Memory   allocates table_bytes
 *   - Runs     synchronous
 *   - Status   INVALID_ARGUMENT: the sentence names the field; UNSUPPORTED: the machine or the engine
 *              does not have such a table, for example keys of 16 bytes in a perfect table;
 *              OUT_OF_MEMORY: also if the table does not fit its memory_limit */
LOOM_API loom_status loom_map_create(loom_context *context, const loom_map_config *config, loom_map **map);

/* Waits for calls in flight, then frees the table. NULL is fine.
 *   - Close its cursors and end its device views first.
 *   - If views are still lent, for example because the device is lost, destroy logs a warning and
 *     waits for all work on the device, in any stream. Kernels that were launched with these views
 *     have then ended. Launching another one is an error; the library does not always detect it. */
LOOM_API void loom_map_destroy(loom_map *map);

/* ---- Size of the table ----------------------------------------------------------------------- */

/* Makes room for `capacity` keys in all. If the capacity of the table is smaller, the table moves
 * into a larger one. A table that already holds more than `capacity` keys stays as it is.
 *   - The new table keeps max_load, type and seed. A given buckets_per_partition or keys_per_cell
 *     is dropped. Lookups are as fast as in a fresh table.
 *   - Memory   allocates the larger table; both tables are in memory until the move ends
 *   - Runs     synchronous; alone
 *   - Status   After each of these the table is unchanged. IN_USE: a device view is lent;
 *              OUT_OF_MEMORY: no memory, or memory_limit; FULL: too many keys collide in one
 *              partition of the new table, by very bad luck or by construction: ask for a larger
 *              capacity; INVALID_ARGUMENT: the engine cannot address that many keys
 * Tables with `growth` do the same by themselves: docs/guide.md, "Growth", tells when, and what it
 * costs. */
LOOM_API loom_status loom_map_reserve(loom_map *map, uint64_t capacity, loom_stream stream);

/* Makes the space for values large enough for `values` values in all, as loom_map_reserve does for
 * keys. If it is already that large, the call does nothing, even if erased and moved lists left
 * part of it unused (loom_stats.values_unused). loom_map_shrink makes that part free.
 *   - Memory, Runs   as loom_map_reserve
 *   - Status         as loom_map_reserve; UNSUPPORTED: not a multimap */
LOOM_API loom_status loom_map_reserve_values(loom_map *map, uint64_t values, loom_stream stream);

/* Moves the table into one for just the keys and values that it holds, if that table takes less
 * memory. Otherwise does nothing.
 *   - Memory, Runs, Status   as loom_map_reserve, FULL included */
LOOM_API loom_status loom_map_shrink(loom_map *map, loom_stream stream);

/* Changes loom_map_config.growth of an existing table, for example of a loaded one. Calls that have
 * begun use the old value.
 *   - Memory   allocates nothing
 *   - Runs     waits for calls of other host threads; writer
 *   - Status   INVALID_ARGUMENT: as loom_map_create */
LOOM_API loom_status loom_map_set_growth(loom_map *map, double growth);

/* Changes loom_map_config.memory_limit, in bytes; 0: no limit. The load factor does not change.
 *   - Memory, Runs   as loom_map_set_growth
 *   - Status         OUT_OF_MEMORY: the table already takes more; the limit is unchanged */
LOOM_API loom_status loom_map_set_memory_limit(loom_map *map, uint64_t memory_limit);

/* Lends the table a workspace. Builds and inserts whose temporary memory fits into the workspace
 * use it and do not allocate. Multimaps on the cuda machine still allocate smaller amounts, and
 * copies of arrays in host memory (loom_memory.host_array_bytes) if there is a status array, or if
 * keys or values have neither 4 nor 8 bytes. Calls with byte strings allocate references to them.
 *   workspace   memory of the kind that the context's tables have, for example from
 *               loom_array_create, aligned to LOOM_WORKSPACE_ALIGNMENT; NULL takes it back
 *   bytes       its size; loom_map_memory_required tells how much a build needs; 0 with NULL
 *   - The caller owns the memory. Nothing else may use it until another workspace, or NULL, is set
 *     and all earlier calls have ended.
 *   - Runs     waits for calls of other host threads, not for work on the device */
#define LOOM_WORKSPACE_ALIGNMENT 64
LOOM_API loom_status loom_map_set_workspace(loom_map *map, void *workspace, size_t bytes);

/* ---- Insert ---------------------------------------------------------------------------------- */

/* Replaces the contents of the table by the batch. This is the fastest way to fill a table.
 *   keys     [n] of key_bytes; LOOM_VARIABLE: a loom_strings, in this call and all others
 *   values   [n] of value_bytes; LOOM_VARIABLE: a loom_strings
 *   flags    loom_insert_flags: which of equal keys in the batch wins, and which path the keys take
 *   status   [n], optional: OK, EXISTS, FULL or TOO_LONG (strings)
 *   - Memory   temporary memory (loom_map_memory_required); memory for growth
 *   - Runs     as `result` says; alone. Synchronous: builds of perfect tables and multimaps, and
 *              builds in order that go by partition (docs/guide.md, "Batches")
 *   - Status   FULL: some keys were refused, since the table must not or could not grow; the others
 *              are stored, and `status` tells which. TOO_LONG: no key was refused, but some strings
 *              are longer than the table allows; the others are stored. UNSUPPORTED: see
 *              loom_insert_flags; in multimaps also LOOM_OVERWRITE, and 2^32 pairs or more on the
 *              cuda machine. After OUT_OF_MEMORY, UNSUPPORTED and INVALID_ARGUMENT the table is
 *              unchanged
 * In a captured stream, builds, inserts and lookups become part of the CUDA graph, with rules of
 * their own: docs/guide.md, "Streams and CUDA graphs". Perfect tables: only lookups. The rows
 * engine: no builds. Multimaps, and tables with byte strings: nothing. */
LOOM_API loom_status loom_map_build(loom_map *map, const void *keys, const void *values, uint64_t n, uint32_t flags,
                                    uint8_t *status, loom_result *result, loom_stream stream);

/* Adds the batch to the contents of the table. Parameters and statuses as in loom_map_build.
 *   - Large inserts into open tables on the cuda machine go by partition and run alone: batches of
 *     at least 2^18 keys with at least one key for every ten slots. docs/guide.md, "Batches", has
 *     the exact conditions; for multimaps, "Multimaps".
 *   - Memory   none, with these exceptions. By partition: as a build, on the cuda machine up to
 *              twice as much. LOOM_IN_ORDER: loom_memory.order_bytes. Multimaps: as a build. Memory
 *              for growth
 *   - Runs     as `result` says; writer; alone if the keys go by partition or in order. Multimaps:
 *              synchronous and alone
 *   - Status   FULL, TOO_LONG, UNSUPPORTED: as in loom_map_build; OUT_OF_MEMORY
 * In perfect tables every call that may store keys (insert, find_or_insert, accumulate, count) runs
 * alone.
 *   - cpu machine: these calls behave as with LOOM_IN_ORDER. They take the temporary memory of a
 *     build if it is available, and some host memory where room is hard to make.
 *   - cuda machine: these calls take as much temporary memory as a build, or less if less is
 *     available. OUT_OF_MEMORY: none is available. */
LOOM_API loom_status loom_map_insert(loom_map *map, const void *keys, const void *values, uint64_t n, uint32_t flags,
                                     uint8_t *status, loom_result *result, loom_stream stream);

/* Looks the keys up and stores absent ones with the given values. Of equal keys in the batch one is
 * stored, and the others find it.
 *   keys     [n] of key_bytes
 *   values   [n] of value_bytes: for keys that are absent
 *   found    [n] of value_bytes, optional: the value of each key, found or stored; zero if the key
 *            is refused or too long
 *   status   [n], optional: OK (stored as new), EXISTS, FULL or TOO_LONG (keys that are strings)
 *   - Memory   only for growth; perfect tables as loom_map_insert
 *   - Runs     as `result` says; writer
 *   - Status   FULL, TOO_LONG: as in loom_map_build; UNSUPPORTED: a set, a multimap, or values that
 *              are byte strings */
LOOM_API loom_status loom_map_find_or_insert(loom_map *map, const void *keys, const void *values, uint64_t n,
                                             void *found, uint8_t *status, loom_result *result, loom_stream stream);

/* Gives new values to keys that are present. Absent keys stay absent. Of equal keys in the batch
 * any one wins.
 *   keys     [n] of key_bytes
 *   values   [n] of value_bytes
 *   status   [n], optional: OK or NOT_FOUND; TOO_LONG (strings), FULL (values that are strings)
 *   - Memory   allocates nothing; values that are strings: memory for growth
 *   - Runs     as `result` says; writer
 *   - Status   UNSUPPORTED: a set or a multimap; FULL, if values are strings, and TOO_LONG: as in
 *              loom_map_build */
LOOM_API loom_status loom_map_update(loom_map *map, const void *keys, const void *values, uint64_t n, uint8_t *status,
                                     loom_result *result, loom_stream stream);

/* ---- Accumulate, count ----------------------------------------------------------------------- */

typedef enum loom_combine {
    LOOM_COMBINE_ADD = 0,
    LOOM_COMBINE_MIN = 1,
    LOOM_COMBINE_MAX = 2,
    LOOM_COMBINE_ADD_AND_COUNT = 3 /* sum and count in one value of 8 bytes */
} loom_combine;

/* The type of numbers. loom_map_accumulate: of the input; the stored values have the same type, or
 * the wider type of the same kind. loom_map_erase_if: of the stored values and the bounds. */
typedef enum loom_number {
    LOOM_NUMBER_U32 = 0,
    LOOM_NUMBER_I32 = 1,
    LOOM_NUMBER_F32 = 2,
    LOOM_NUMBER_U64 = 3,
    LOOM_NUMBER_I64 = 4,
    LOOM_NUMBER_F64 = 5
} loom_number;

/* LOOM_COMBINE_ADD_AND_COUNT keeps the sum in the lower 40 bits of a value and the count in the
 * upper 24. The sum of a key must stay below 2^40, and a key must have at most 2^24 - 1 rows.
 * Beyond these bounds sums run into counts and counts wrap around, without notice: use two tables.
 * LOOM_SUM_OF and LOOM_COUNT_OF take a value apart. LOOM_COUNTED makes the value of one 32-bit
 * number, for kernels that add these values themselves. */
#define LOOM_SUM_OF(value)   ((uint64_t)(value) & (((uint64_t)1 << 40) - 1))
#define LOOM_COUNT_OF(value) ((uint64_t)(value) >> 40)
#define LOOM_COUNTED(number) ((uint64_t)(number) + ((uint64_t)1 << 40))

/* Combines each number with the value of its key: adds it, or keeps the smaller or larger one. An
 * absent key is stored with the number. Every row counts, also rows with equal keys: this is
 * group-by.
 *   combine  LOOM_COMBINE_ADD, _MIN, _MAX or _ADD_AND_COUNT
 *   number   the type of the numbers in `values`
 *   keys     [n] of key_bytes
 *   values   [n] of the number's bytes
 *   status   [n], optional: OK (stored as new), EXISTS, FULL or TOO_LONG (keys that are strings)
 *   - Widths: numbers are as wide as the values, or they have 4 bytes and the values 8. Narrower
 *     numbers are widened before they are combined: U32 to U64, I32 to I64, F32 to F64. A row then
 *     reads 4 bytes, and sums have 64 bits. LOOM_COMBINE_ADD_AND_COUNT takes LOOM_NUMBER_U32 and
 *     values of 8 bytes.
 *   - Integer sums wrap around modulo 2^32 or 2^64.
 *   - Float sums depend on the sequence of the additions, which differs from run to run. On the
 *     cuda machine float sums in values of 4 bytes may treat subnormal numbers as zero.
 *   - Minima and maxima ignore a NaN in the batch. A stored NaN stays.
 *   - Memory   temporary memory if it is available and the call is faster with it (cuda machine,
 *              several rows for each key of the table); memory for growth
 *   - Runs     as `result` says; writer
 *   - Status   FULL, TOO_LONG: as in loom_map_build; INVALID_ARGUMENT: also if the numbers do not
 *              fit the values; UNSUPPORTED: a set, a multimap, or values that are byte strings or
 *              have other widths than 4 and 8 bytes */
LOOM_API loom_status loom_map_accumulate(loom_map *map, const void *keys, const void *values, uint64_t n,
                                         loom_combine combine, loom_number number, uint8_t *status, loom_result *result,
                                         loom_stream stream);

/* Adds one to the value of each key, an unsigned number of value_bytes. An absent key is stored
 * with one. The call does the same as loom_map_accumulate with LOOM_COMBINE_ADD and an array of
 * ones, without reading the array.
 *   keys     [n] of key_bytes
 *   status   [n], optional: OK (counted for the first time), EXISTS, FULL or TOO_LONG (keys that
 *            are strings)
 *   - Memory, Runs   as loom_map_accumulate
 *   - Status         FULL, TOO_LONG: as in loom_map_build; UNSUPPORTED: as loom_map_accumulate */
LOOM_API loom_status loom_map_count(loom_map *map, const void *keys, uint64_t n, uint8_t *status, loom_result *result,
                                    loom_stream stream);

/* ---- Find, erase ----------------------------------------------------------------------------- */

/* Looks the keys up. An absent key is no failure: the call returns OK.
 *   keys     [n] of key_bytes
 *   values   [n] of value_bytes; NULL for a set
 *   absent   optional: value_bytes bytes in host memory, at most 8: the value for absent keys. The
 *            call reads them before it returns. NULL: zeros. NULL for a set
 *   status   [n], optional: OK or NOT_FOUND
 *   - Without a status array, choose an `absent` that no key has as its value. Then the values tell
 *     which keys are present, and the call writes no statuses.
 *   - Memory   allocates nothing; multimaps on the cuda machine: 8 bytes for each key
 *   - Runs     as `result` says; reader
 *   - Status   UNSUPPORTED: `absent` is given, and values have more than 8 bytes; `values` or
 *              `absent` is given, and values are byte strings: use loom_map_find_strings */
LOOM_API loom_status loom_map_find(loom_map *map, const void *keys, uint64_t n, void *values, const void *absent,
                                   uint8_t *status, loom_result *result, loom_stream stream);

/* Tells which keys are present.
 *   keys     [n] of key_bytes
 *   found    [n], optional: 1 or 0
 *   status   [n], optional: OK or NOT_FOUND
 *   - Memory   allocates nothing
 *   - Runs     as `result` says; reader */
LOOM_API loom_status loom_map_contains(loom_map *map, const void *keys, uint64_t n, uint8_t *found, uint8_t *status,
                                       loom_result *result, loom_stream stream);

/* Erases the keys, those of multimaps with all their values. Of equal keys in the batch one gets
 * OK, the others NOT_FOUND. The result counts keys.
 *   keys     [n] of key_bytes
 *   status   [n], optional: OK or NOT_FOUND
 *   - Memory   allocates nothing; multimaps: temporary memory, on the cpu machine if it is
 *              available
 *   - Runs     as `result` says; writer */
LOOM_API loom_status loom_map_erase(loom_map *map, const void *keys, uint64_t n, uint8_t *status, loom_result *result,
                                    loom_stream stream);

/* ---- Mixed batches --------------------------------------------------------------------------- */

/* What a row of loom_map_apply does, and its status. */
typedef enum loom_operation {
    LOOM_APPLY_FIND = 0,      /* looks the key up: OK or NOT_FOUND */
    LOOM_APPLY_INSERT = 1,    /* stores the pair if the key is absent: OK, EXISTS or FULL */
    LOOM_APPLY_OVERWRITE = 2, /* stores the pair in any case: OK (stored as new), EXISTS or FULL */
    LOOM_APPLY_UPDATE = 3,    /* gives a new value to a key that is present: OK or NOT_FOUND */
    LOOM_APPLY_ERASE = 4,     /* erases the key: OK or NOT_FOUND */
    LOOM_APPLY_ADD = 5        /* adds a number as LOOM_COMBINE_ADD does, or stores it: OK (stored), EXISTS or FULL */
} loom_operation;

/* Runs a batch in which each row says what it does.
 *   operations  [n] of one byte: loom_operation
 *   keys        [n] of key_bytes
 *   values      [n] of value_bytes, read by rows that store or add; NULL for a set, or if no row does.
 *               ADD: unsigned or signed numbers as wide as the values
 *   flags       0, or LOOM_IN_ORDER
 *   found       [n] of value_bytes, optional: the value that a FIND finds; zero if it finds none.
 *               Elements of other rows are left as they are. NULL for a set
 *   status      [n], optional: as loom_operation says
 *   - Order. With flags 0 the outcome is as if the operations had come in some order. The library
 *     chooses the one that costs least: rows of a kind go together. Of several OVERWRITE rows with
 *     equal keys, any one may be the one that is told that it stored the key. With LOOM_IN_ORDER
 *     rows with equal keys come in the order of the batch.
 *   - With LOOM_IN_ORDER a key for which there is no room is refused as a whole, except in multimaps:
 *     its rows that would store it get FULL, the others find it absent. Otherwise rows are refused.
 *   - Multimaps have FIND (any value of the key; in order the newest of the batch), INSERT (one more
 *     value) and ERASE (all values). Sets have FIND, INSERT, OVERWRITE (which is INSERT) and ERASE.
 *   - Memory   temporary memory: a copy of all rows, unless all have the same operation; in order
 *              some 50 bytes for each row, and three copies of its key and value. Arrays in host
 *              memory go in parts of 2^24 rows, and all batches in parts if memory is short: the
 *              sentences above are then about the rows of a part. Memory for growth, as
 *              loom_map_insert
 *   - Runs     synchronous; alone
 *   - Status   FULL: as in loom_map_build; INVALID_ARGUMENT: also an operation that is none of the
 *              above, or values are NULL but needed; UNSUPPORTED: perfect tables, byte strings, an
 *              operation that the type of table does not have, ADD with other widths than 4 and 8;
 *              OUT_OF_MEMORY: result->keys rows are done, and some of the others may be. The
 *              sentence tells how many */
LOOM_API loom_status loom_map_apply(loom_map *map, const uint8_t *operations, const void *keys, const void *values,
                                    uint64_t n, uint32_t flags, void *found, uint8_t *status, loom_result *result,
                                    loom_stream stream);

/* ---- Erase by value -------------------------------------------------------------------------- */

/* Erases all pairs whose value lies in a range: values that are not below *least and not above
 * *most. One pass reads every slot of the table once, whatever the range is; in tables of the tickets
 * engine keys are copied out and erased one by one.
 *   number   the type of the values, which has value_bytes. Counts are LOOM_NUMBER_U32 or U64. A
 *            range of LOOM_COMBINE_ADD_AND_COUNT values is one of LOOM_NUMBER_U64, ordered by the
 *            count and then by the sum
 *   least    optional: one number in host memory; NULL: no bound below
 *   most     optional: one number in host memory; NULL: no bound above
 *   result   optional: keys (pairs before the call), ok (erased), exists (pairs that stay)
 *   - If *least is above *most, no pair is erased.
 *   - NaNs lie in no range: they stay, even without bounds. Zero and minus zero are equal.
 *   - Multimaps: the other values of a key stay, in their order. A key whose last value is erased
 *     is absent.
 *   - The call reads the bounds before it returns.
 *   - Memory   allocates nothing; the engines rows and tickets, and multimaps on the cuda machine:
 *              temporary memory
 *   - Runs     as `result` says, in multimaps synchronous; alone
 *   - Status   INVALID_ARGUMENT: also if the number is not as wide as the values, or a bound is a
 *              NaN; UNSUPPORTED: a set, or values that are byte strings or have other widths than 4
 *              and 8 bytes; OUT_OF_MEMORY: the engines rows and tickets, multimaps on the cuda
 *              machine. Pairs that were erased before stay erased: call again
 * Kernels have erase_if of loom/device.cuh instead, with a condition of your own. */
LOOM_API loom_status loom_map_erase_if(loom_map *map, loom_number number, const void *least, const void *most,
                                       loom_result *result, loom_stream stream);

/* ---- Lists of values (multimaps) ------------------------------------------------------------- */

/* Tells how many values each key has.
 *   keys     [n] of key_bytes
 *   counts   [n]: 0 for absent keys
 *   status   [n], optional: OK or NOT_FOUND
 *   - Memory   allocates nothing; cuda machine: copies of arrays in host memory
 *   - Runs     as `result` says; reader
 *   - Status   UNSUPPORTED: not a multimap */
LOOM_API loom_status loom_map_find_counts(loom_map *map, const void *keys, uint64_t n, uint64_t *counts,
                                          uint8_t *status, loom_result *result, loom_stream stream);

/* Returns all values of each key, or the first ones. The values of keys[i] are values[offsets[i]]
 * to values[offsets[i + 1] - 1].
 *   keys      [n] of key_bytes; a key that comes several times gets its values each time
 *   limit     most values per key; 0: all
 *   offsets   [n + 1]: from 0 to the number of values in all
 *   values    [room] of value_bytes; NULL with room = 0: offsets only
 *   needed    optional, in host memory: the number of values in all
 *   - The values of a key come in the order of its insertions if all of them were in order (the cpu
 *     machine always inserts in order), otherwise in any order.
 *   - Memory   allocates nothing; cuda machine: 8 bytes for each key, and copies of arrays in host
 *              memory
 *   - Runs     as `result` says; synchronous if `needed` is given; reader
 *   - Status   TOO_SMALL: room is not 0, but less than needed; offsets were written, values were
 *              not; UNSUPPORTED: not a multimap */
LOOM_API loom_status loom_map_find_all(loom_map *map, const void *keys, uint64_t n, uint64_t limit, uint64_t *offsets,
                                       void *values, uint64_t room, uint64_t *needed, loom_result *result,
                                       loom_stream stream);

/* Erases single pairs: each row erases one pair that is equal to it. The other values of the key
 * keep their order. A key whose last value is erased is absent.
 *   keys     [n] of key_bytes
 *   values   [n] of value_bytes
 *   status   [n], optional: OK or NOT_FOUND
 *   - A row reads the values of its key up to the pair, and moves those behind it.
 *   - Memory   temporary memory, as loom_map_insert by partition
 *   - Runs     as `result` says, but the cuda machine waits for the device meanwhile; alone
 *   - Status   OUT_OF_MEMORY: the table is unchanged; UNSUPPORTED: not a multimap, or 2^32 rows or
 *              more on the cuda machine */
LOOM_API loom_status loom_map_erase_pairs(loom_map *map, const void *keys, const void *values, uint64_t n,
                                          uint8_t *status, loom_result *result, loom_stream stream);

/* ---- Byte strings ---------------------------------------------------------------------------- */

/* Returns the values of keys, in tables whose values are LOOM_VARIABLE. The value of keys[i] is
 * bytes[offsets[i]] to bytes[offsets[i + 1] - 1]; that of an absent key is empty.
 *   keys      [n] of key_bytes, or a loom_strings
 *   offsets   [n + 1]: from 0 to the number of bytes in all
 *   bytes     [room]; NULL with room = 0: offsets only
 *   needed    optional, in host memory: the number of bytes in all
 *   status    [n], optional: OK or NOT_FOUND
 *   - Memory   temporary memory: 24 bytes for each key, 40 if keys are LOOM_VARIABLE, too; of at
 *              most 2^18 keys at once, on the cuda machine of 2^24
 *   - Runs     synchronous; reader
 *   - Status   TOO_SMALL: room is not 0, but less than needed; offsets were written, bytes were not;
 *              UNSUPPORTED: values are no strings */
LOOM_API loom_status loom_map_find_strings(loom_map *map, const void *keys, uint64_t n, uint64_t *offsets, void *bytes,
                                           uint64_t room, uint64_t *needed, uint8_t *status, loom_result *result,
                                           loom_stream stream);

/* Makes the space for strings large enough for `bytes` bytes in all, as loom_map_reserve does for
 * keys. A string takes its length, rounded up to a multiple of 8. If the space is already that
 * large, the call does nothing.
 *   - Memory, Runs   as loom_map_reserve
 *   - Status         as loom_map_reserve; UNSUPPORTED: neither keys nor values are strings */
LOOM_API loom_status loom_map_reserve_strings(loom_map *map, uint64_t bytes, loom_stream stream);

/* ---- Whole tables ---------------------------------------------------------------------------- */

/* Return the exact number of pairs, and of keys; in sets and maps both are the same. Allocate
 * nothing; synchronous; reader. */
LOOM_API loom_status loom_map_size(loom_map *map, uint64_t *size, loom_stream stream);
LOOM_API loom_status loom_map_distinct(loom_map *map, uint64_t *distinct, loom_stream stream);

/* Erases all keys. Allocates nothing; synchronous, with a result too; alone. */
LOOM_API loom_status loom_map_clear(loom_map *map, loom_result *result, loom_stream stream);

/* Creates a second table with the same contents, shape, seed, growth and memory_limit, on the same
 * context. The bound of loom_map_set_row_staging is the same, too.
 *   - Memory   as loom_map_create
 *   - Runs     synchronous; reader
 *   - Status   OUT_OF_MEMORY */
LOOM_API loom_status loom_map_clone(loom_map *map, loom_map **clone, loom_stream stream);

/* Writes all pairs, in no particular order, and their number.
 *   keys     [room]; NULL with room = 0: count only. LOOM_VARIABLE: a loom_strings_out
 *   values   [room], optional. LOOM_VARIABLE: a loom_strings_out
 *   count    in host memory: the number of pairs in the table
 *   - Memory   allocates nothing; strings: 40 bytes of temporary memory for each pair, but at most
 *              0.7 MB, on the cuda machine 10 MB
 *   - Runs     synchronous, with a result too; reader
 *   - Status   TOO_SMALL: room < *count, and no pair was written; or byte_room is not 0, but less
 *              than `needed`: offsets were written, strings were not */
LOOM_API loom_status loom_map_retrieve_all(loom_map *map, void *keys, void *values, uint64_t room, uint64_t *count,
                                           loom_result *result, loom_stream stream);

/* Return all pairs in chunks, each pair once: open, then next until *got is 0, then close.
 *   count    optional: pairs in all
 *   keys     [room]; LOOM_VARIABLE: a loom_strings_out. `next` writes as many pairs as its bytes hold
 *   values   [room], optional; LOOM_VARIABLE: likewise
 *   got      pairs that were written
 *   - Between calls the table may be read. After a call that writes to the table or moves it, even
 *     if it changed no pair, next returns CHANGED from then on: close the cursor and open another.
 *     Calls with n = 0 and calls that failed do not count as writing.
 *   - Memory   only open allocates
 *   - Runs     synchronous; reader; one thread at a time uses a cursor
 *   - Status   CHANGED; OUT_OF_MEMORY; INVALID_ARGUMENT: also room = 0; TOO_SMALL: byte_room is
 *              less than the next string, whose bytes `needed` tells */
LOOM_API loom_status loom_map_cursor_open(loom_map *map, loom_cursor **cursor, uint64_t *count, loom_stream stream);
LOOM_API loom_status loom_cursor_next(loom_cursor *cursor, void *keys, void *values, uint64_t room, uint64_t *got,
                                      loom_stream stream);
LOOM_API void loom_cursor_close(loom_cursor *cursor);

/* Calls `visit` with all pairs, in no particular order, a few thousand at a time, on the calling
 * thread.
 *   visit    returns 0 to go on; another value ends the visits
 *   stopped  optional: what the last visit returned
 *   - `visit` gets keys and values, [n], in host memory on every machine. They are valid during the
 *     visit. LOOM_VARIABLE: they are loom_strings. For a set `values` is NULL. `visit` may make any
 *     call: the table is not locked.
 *   - Memory   allocates
 *   - Runs     synchronous; reader
 *   - Status   CHANGED: a call wrote to the table, and the visits ended; OUT_OF_MEMORY
 * Kernels have for_each of loom/device.cuh instead. */
typedef int (*loom_visit)(void *user, const void *keys, const void *values, uint64_t n);
LOOM_API loom_status loom_map_for_each(loom_map *map, loom_visit visit, void *user, int *stopped, loom_stream stream);

/* ---- Files ----------------------------------------------------------------------------------- */

/* Writes the table to a file (docs/format.md) and replaces an old file as a whole.
 *   - The call writes a temporary file in the same directory, syncs it, renames it to `path`, and
 *     syncs the directory. If a step before the last fails, the old file is untouched and the
 *     temporary file is removed. If only the last step fails, the new file is in place but may not
 *     survive a power failure.
 *   - The new file has the permissions of the old one. A symbolic link is replaced, not followed.
 *   - Memory   allocates
 *   - Runs     synchronous; reader
 *   - Status   IO: the sentence has the system's reason; OUT_OF_MEMORY */
LOOM_API loom_status loom_map_save(loom_map *map, const char *path, loom_stream stream);

/* Creates a table from a file that any machine wrote. *map is set only on success.
 *   - Files do not store three fields of the config. The table has the growth of
 *     LOOM_MAP_CONFIG_INIT (loom_map_set_growth), no memory limit (loom_map_set_memory_limit), and
 *     concurrent_reads = 0.
 *   - Memory   as loom_map_create; temporary memory to check the file: multimaps a bit for each value
 *              for which there is space, tables with strings 1 / 64 of the space for strings
 *   - Runs     synchronous
 *   - Status   IO; BAD_FILE: truncated, damaged, or not a hashloom file; FOREIGN_VERSION;
 *              UNSUPPORTED: the file holds a filter, or a table that this version or this machine
 *              does not have; OUT_OF_MEMORY */
LOOM_API loom_status loom_map_load(loom_context *context, const char *path, loom_map **map, loom_stream stream);

/* ---- Statistics ------------------------------------------------------------------------------ */

typedef struct loom_stats {
    size_t struct_size; /* set by LOOM_STATS_INIT before the call */
    loom_engine engine;
    uint32_t key_bytes;
    uint32_t value_bytes;
    uint32_t slots_per_bucket;
    uint64_t capacity; /* as asked for */
    uint64_t size;     /* pairs in the table */
    uint64_t slots;    /* places for keys */
    uint64_t partitions;
    uint64_t buckets_per_partition;
    /* Keys in the fullest partition. A partition refuses keys at slots / partitions; in perfect
     * tables, and in those of tickets with more than 1,024 slots, it may refuse them earlier. */
    uint64_t fullest_partition;
    uint64_t displaced;       /* keys outside of their home bucket; perfect tables: 0 */
    uint64_t longest_chain;   /* most buckets that a lookup of a stored key reads */
    uint64_t memory_bytes;    /* without rows in host memory, which host_bytes tells */
    uint64_t seed;            /* of the hash (loom_hash); growth, clones and files keep it */
    double load;              /* load factor: distinct / slots */
    double accesses_per_hit;  /* buckets read per lookup of a stored key, over all keys */
    double accesses_per_miss; /* the same for random absent keys, by filter bits; perfect: 1 */
    loom_type type;
    uint32_t reserved;
    /* Perfect tables: bytes of all codes. A lookup reads 8 of them. Lookups are fastest if a cache
     * holds all codes. */
    uint64_t code_bytes;
    /* Perfect tables: keys in stash buckets, since no code could place them. Lookups find them as
     * fast as others. */
    uint64_t stashed;
    uint64_t distinct; /* keys in the table */
    /* Bytes of keys, each once, and of values, as a share of memory_bytes and host_bytes. */
    double density;
    uint64_t longest_list; /* multimaps: most values of one key */
    uint64_t values_room;  /* multimaps: values for which there is space */
    uint64_t values_free;  /* of these: free for new values */
    /* Of these: neither free nor values, but room behind lists, links, and what erased and moved
     * lists left. It becomes free when the table next moves (loom_map_shrink). */
    uint64_t values_unused;
    /* Tables with strings, in bytes. A string takes its length, rounded up to a multiple of 8. */
    uint64_t string_bytes; /* of all strings in the table */
    uint64_t string_room;  /* space for strings */
    uint64_t string_free;  /* of this space: free for new strings */
    /* Of this space: what erased and replaced strings left. It becomes free when the table next
     * moves (docs/guide.md, "Byte strings"). */
    uint64_t string_unused;
    uint64_t host_bytes; /* of rows in host memory (LOOM_ROWS_IN_HOST_MEMORY) */
} loom_stats;

#define LOOM_STATS_INIT                                                                                                \
    {                                                                                                                  \
        sizeof(loom_stats), LOOM_ENGINE_DEFAULT, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, LOOM_TYPE_DEFAULT, 0, \
            0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0                                                                      \
    }

/* Measures the table; reads all of it. Allocates nothing; in multimaps as much as loom_map_verify,
 * if it is available; synchronous; reader. */
LOOM_API loom_status loom_map_stats(loom_map *map, loom_stats *stats, loom_stream stream);

/* How a batch went into the table. */
typedef enum loom_route {
    LOOM_ROUTE_NONE = 0,         /* nothing was inserted yet */
    LOOM_ROUTE_DIRECTLY = 1,     /* key by key */
    LOOM_ROUTE_BY_PARTITION = 2, /* split by partition, then partition by partition */
    LOOM_ROUTE_IN_ORDER = 3      /* sorted first, on a GPU: LOOM_IN_ORDER; multimaps also without it */
} loom_route;

/* What went on since the table was created, loaded or cloned. */
typedef struct loom_activity {
    size_t struct_size;    /* set by LOOM_ACTIVITY_INIT before the call */
    uint64_t calls;        /* bulk calls that ran: build, insert, find, erase and so on */
    uint64_t keys;         /* given to these calls */
    uint64_t growths;      /* how often the table grew by itself */
    double growth_seconds; /* time for moving its keys meanwhile */
    uint64_t upkeeps;      /* how often a call that erased or was refused started upkeep */
    loom_route last_route; /* of the last call that inserted: build, insert, accumulate and so on */
    uint32_t reserved;
    /* Perfect tables: how often a cell, the keys that share a code, went to a stash bucket because
     * no code could place it. Growth, builds and clear keep the count. It can be larger than the
     * number of cells in stashes, since cells also leave them. 0 in other tables. */
    uint64_t stashed_cells;
} loom_activity;

#define LOOM_ACTIVITY_INIT                                          \
    {                                                               \
        sizeof(loom_activity), 0, 0, 0, 0, 0, LOOM_ROUTE_NONE, 0, 0 \
    }

/* Returns these counters without a pass over the table. Builds in captured streams and the kernels
 * of device views are not counted. A call in which the table grows more than once is logged, too
 * (loom_context_config.log). Allocates nothing; reader. A perfect table counts its stashed cells in
 * its own memory: the call is then synchronous, as loom_map_size is. For other tables it waits for
 * nothing. */
LOOM_API loom_status loom_map_activity(loom_map *map, loom_activity *activity, loom_stream stream);

/* Returns the bytes that the table takes now, bookkeeping included, rows in host memory not
 * (loom_stats.host_bytes). Allocates nothing; reader. */
LOOM_API loom_status loom_map_memory_used(loom_map *map, uint64_t *bytes);

/* Returns a config from which an equal, empty table can be created. Allocates nothing; reader. */
LOOM_API loom_status loom_map_get_config(loom_map *map, loom_map_config *config);

#ifdef __cplusplus
}
#endif
#endif
