/* A table of any engine: a description, a list of memory regions, and the engine's view struct. Making, cloning,
 * resizing, saving and loading walk the list and know nothing else of an engine (table.c, table_file.c). map_table.c
 * holds what only maps, sets and counters have. An engine adds its shape, its layout and its kernels (engine.h). */
#ifndef LOOM_CORE_TABLE_H
#define LOOM_CORE_TABLE_H

#include "core/engine.h"
#include "core/kernels.h"

enum {
    LOOM__MOST_REGIONS = 5,
    LOOM__MOST_PARAMETERS = 6,
    LOOM__VIEW_WORDS = 54 /* 8-byte words of a view struct; a device view has room for 22 */
};

/* What a file says about a table. */
typedef struct loom__description {
    loom_type type;
    uint32_t engine;
    uint32_t layout_version; /* of the engine's regions */
    uint32_t key_bytes, value_bytes;
    uint32_t partitions;
    uint32_t buckets; /* per partition */
    uint64_t capacity;
    uint64_t size; /* used in files only: a table counts its keys in its totals */
    uint64_t seed;
    double max_load;
    uint64_t parameters[LOOM__MOST_PARAMETERS]; /* the engine's own numbers; unused ones are 0 */
} loom__description;

/* Where a region lies. The core refuses files until an engine needs them. */
typedef enum loom__place {
    LOOM__PLACE_DEVICE, /* where the machine works */
    LOOM__PLACE_HOST,   /* in host memory that the machine reaches, too */
    LOOM__PLACES,       /* number of places on offer; the following ones are refused */
    LOOM__PLACE_FILE = LOOM__PLACES
} loom__place;

/* What a region holds, and its number in files. */
typedef enum loom__section {
    LOOM__SECTION_NONE = 0, /* not in files: state that a loaded table starts afresh */
    LOOM__SECTION_PARTITIONS = 1,
    LOOM__SECTION_CODES = 2,
    LOOM__SECTION_VALUES = 3,
    LOOM__SECTION_ROWS = 4,
    LOOM__SECTION_STRINGS = 5,
    LOOM__SECTION_ROW_VALUES = 6
} loom__section;

struct loom__region {
    loom__section section;
    loom__place place;
    uint64_t at; /* offset in the table's memory at this place */
    uint64_t bytes;
    uint64_t unit;         /* bytes read, checked and written together; the last unit may be shorter */
    unsigned char *memory; /* aligned to 64 bytes; NULL until the table has memory */
};

struct loom__table {
    const loom__engine *engine;
    loom__machine *machine;
    const void *kernels; /* loom__map_kernels, or loom__filter_kernels for filters */
    loom__description is;
    uint32_t concurrent_reads;
    uint32_t slots_per_bucket; /* set by the engine's `lay_out`; 0 in filters */
    uint64_t row_staging;      /* rows in host memory: most temporary memory of a call; 0: the machine chooses */
    loom__region regions[LOOM__MOST_REGIONS];
    uint32_t region_count;
    uint32_t sections;            /* regions that are saved */
    uint64_t bytes[LOOM__PLACES]; /* of the regions at each place: one allocation */
    unsigned char *memory[LOOM__PLACES];
    uint32_t state;                  /* the region that begins with the totals; LOOM__MOST_REGIONS: there is none */
    loom__totals *totals;            /* the beginning of the state region; NULL if there is none */
    uint64_t most_string_bytes;      /* upper bound of what strings took of the heap, unused bytes included */
    uint64_t most;                   /* upper bound of the stored keys: all keys given to the table */
    uint64_t stashed;                /* cells that set_totals counts as stashed: those of the tables before this one */
    uint64_t worn;                   /* keys given to calls that may wear partitions, since the last upkeep */
    int replayed;                    /* a graph may have changed the contents unseen */
    int free_is_zero;                /* the memory that users' kernels may take */
    uint64_t view[LOOM__VIEW_WORDS]; /* the engine's view struct, as its kernels take it */
};

/* For an engine's `lay_out`: appends a region. Regions of one place share one allocation, in the order in which they
 * were appended. The first region is in device memory. */
void loom__table_add_region_at(loom__table *table, loom__place place, loom__section section, uint64_t bytes,
                               uint64_t unit);
/* Appends a region in device memory. */
void loom__table_add_region(loom__table *table, loom__section section, uint64_t bytes, uint64_t unit);

/* Appends the region that is not saved: the totals, then `more_bytes` for the engine. */
void loom__table_add_state(loom__table *table, uint64_t more_bytes);

/* The engine's part of the state region; NULL while the table has no memory. */
unsigned char *loom__table_state(const loom__table *table);

/* Bytes of a table: its host struct and its regions where the machine works. */
uint64_t loom__table_bytes(const loom__table *table);

/* Bytes of its regions in host memory. */
uint64_t loom__table_host_bytes(const loom__table *table);

/* Bounds the temporary memory of calls that reach rows in host memory; 0: the machine chooses. Clones and larger tables
 * keep the bound, files do not. The caller has the table alone on the host. */
void loom__table_set_row_staging(loom__table *table, uint64_t bytes);

/* Slots of all partitions. */
uint64_t loom__table_slots_in_all(const loom__table *table);

/* Lays out a table in the caller's struct `table`, without memory for its regions. UNSUPPORTED if the machine does not
 * offer the engine, or if a region's place is not on offer. */
loom_status loom__table_plan(loom__machine *machine, const loom__engine *engine, const loom__description *is,
                             uint32_t concurrent_reads, loom__table *table);

/* Makes a table with memory; its contents are undefined. */
loom_status loom__table_make(loom__machine *machine, const loom__engine *engine, const loom__description *is,
                             uint32_t concurrent_reads, loom__table **made, loom_stream stream);
/* Makes a table without keys. Every stream sees it as empty. */
loom_status loom__table_make_empty(loom__machine *machine, const loom__engine *engine, const loom__description *is,
                                   uint32_t concurrent_reads, loom__table **made);
void loom__table_destroy(loom__table *table);

/* Makes a table of the same description and contents; waits. */
loom_status loom__table_clone(loom__table *table, loom__table **made, loom_stream stream);

/* OK if the machine offers the engine; otherwise UNSUPPORTED and a sentence. */
loom_status loom__table_offered(loom__machine *machine, const loom__engine *engine);

/* Copy part of a region to or from the host; they wait. */
loom_status loom__region_read(loom__table *table, const loom__region *region, uint64_t at, void *host, uint64_t bytes,
                              loom_stream stream);
loom_status loom__region_write(loom__table *table, const loom__region *region, uint64_t at, const void *host,
                               uint64_t bytes, loom_stream stream);

/* Sets the totals and resets all other state: no partition is marked. Waits: every stream then sees the table. For a
 * table without totals it only waits. */
loom_status loom__table_set_totals(loom__table *table, uint64_t keys, loom_stream stream);

/* Removes all keys; does not wait. */
loom_status loom__table_clear(loom__table *table, loom_stream stream);

/* Waits for the stream's work on the table. */
loom_status loom__table_wait(loom__table *table, loom_stream stream);

/* Fills in a device view of the table. The caller has set view->access. UNSUPPORTED and a sentence if the table has no
 * views with this access. */
loom_status loom__table_lend(loom__table *table, loom_map_view *view);

/* ---- maps, sets, counters (map_table.c) ---- */

/* The engine of a config, whose type is set; NULL if there is none. LOOM_ENGINE_DEFAULT stands for the first engine
 * that implements the type, or for the first with such widths and rows. */
const loom__engine *loom__map_engine_of(const loom_map_config *config);

/* OK, or `status` and a sentence if the engine has no tables of this type with these widths. INVALID_ARGUMENT becomes
 * UNSUPPORTED if another engine has them. */
loom_status loom__map_check_widths(const loom__engine *engine, loom_type type, uint32_t key_bytes, uint32_t value_bytes,
                                   loom_status status);

/* Both take a complete config. */
loom_status loom__map_table_measure(loom__machine *machine, const loom_map_config *config, loom_memory *memory);
loom_status loom__map_table_create(loom__machine *machine, const loom_map_config *config, uint64_t seed,
                                   loom__table **made);

/* How large a table is, or is to be. */
typedef struct loom__room {
    uint64_t capacity; /* keys */
    uint64_t values;   /* multimaps: values; tables with strings: bytes; otherwise 0 */
} loom__room;

loom__room loom__map_table_room(const loom__table *table);

/* Whether keys or values are byte strings. */
int loom__map_table_has_strings(const loom__table *table);

/* The config of a table like this one with other room. */
loom_map_config loom__map_table_config(const loom__table *table, loom__room room);

loom_status loom__map_table_build(loom__table *table, const loom__batch *batch);
loom_status loom__map_table_find(loom__table *table, const loom__batch *batch);
loom_status loom__map_table_write(loom__table *table, const loom__batch *batch); /* does what batch->write says */

/* The access that an insertion of this batch needs if no device view is lent. Sets batch->by_partition if the batch is
 * faster by partition. The access is ALONE in this case or if the engine moves keys, otherwise `asked`. Also sets
 * batch->fresh. Call this before the batch is ordered with other calls. */
loom__access loom__map_table_access(const loom__table *table, loom__batch *batch, loom__access asked);

/* Erases the pairs whose values lie in the range. The table has values, and the call has it alone. Counts in *result:
 * ok (erased), exists (the others), keys (all). Waits only if the machine cannot write *result in stream order. */
loom_status loom__map_table_erase_if(loom__table *table, const loom__value_range *range, loom_result *result,
                                     loom_stream stream);

/* Whether upkeep is due after calls that write. Upkeep needs the table alone; it does not wait. */
int loom__map_table_wants_upkeep(const loom__table *table);
loom_status loom__map_table_upkeep(loom__table *table, loom_stream stream);

/* Runs before the kernels of device views that write, and zeroes memory that they may take, unless it is zero. Needs the
 * table alone; does not wait. */
loom_status loom__map_table_prepare_view(loom__table *table, loom_stream stream);

/* Runs after the kernels of device views that wrote, and adds the keys that they stored to the size. With `sweep`, also
 * frees retired slots; mixed views need this. Needs the table alone; does not wait. */
loom_status loom__map_table_take_back(loom__table *table, int sweep, loom_stream stream);

/* Whether n more keys surely fit, and so many bytes of strings. Every key given since the last recount counts as
 * stored. `recount` reads the exact number of stored keys from the table, and waits; later calls count from that
 * number on. */
int loom__map_table_surely_fits(const loom__table *table, uint64_t n, uint64_t string_bytes);
loom_status loom__map_table_recount(loom__table *table, uint64_t *keys, loom_stream stream);

/* Moves all keys into a table with this room; waits. A failure leaves the table unchanged. FULL: the keys do not fit,
 * since too many fall into one partition. */
loom_status loom__map_table_resize(loom__table *table, loom__room room, loom_stream stream);

/* Builds a table with this room from the batch; it takes the place of this table. batch->result must be in host memory,
 * so that the call waits. A failure leaves the table unchanged. */
loom_status loom__map_table_build_resized(loom__table *table, loom__room room, const loom__batch *batch);

/* The number of keys; of pairs; of values for which a packed multimap needs room, or of bytes for which a
 * packed table with strings does (otherwise 0). All wait. */
loom_status loom__map_table_size(loom__table *table, uint64_t *keys, loom_stream stream);
loom_status loom__map_table_pairs(loom__table *table, uint64_t *pairs, loom_stream stream);
loom_status loom__map_table_values(loom__table *table, uint64_t *values, loom_stream stream);

/* How often a cell went to a stash since the table was made, loaded or cloned. Waits if the engine has stashes. */
loom_status loom__map_table_stashed(loom__table *table, uint64_t *cells, loom_stream stream);

/* Multimaps; kernels.h. */
loom_status loom__map_table_find_all(loom__table *table, const loom__list_query *query);
loom_status loom__map_table_erase_pairs(loom__table *table, const loom__batch *batch);
int loom__map_table_tries_builds(const loom__table *table);

loom_status loom__map_table_retrieve(loom__table *table, loom__position *position, void *keys, void *values,
                                     uint64_t room, uint64_t *got, loom_stream stream);
loom_status loom__map_table_survey(loom__table *table, loom__survey *survey, loom_stream stream);
loom_status loom__map_table_count_accesses(loom__table *table, const void *keys, uint64_t n, uint64_t *accesses,
                                           loom_stream stream);

/* Sets the totals of a loaded table and checks its contents: BAD_FILE and a sentence if they are not a table. */
loom_status loom__map_table_restored(loom__table *table, const char *path, loom_stream stream);

#endif
