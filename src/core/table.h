/* A table, whichever its engine: a description, a list of memory regions, and the engine's view of them. Making, cloning, resizing,
 * saving and loading walk the list and know nothing else of an engine (table.c, table_file.c); what only maps have is in map_table.c.
 * An engine adds its shape, its layout and its kernels (engine.h). */
#ifndef LOOM_CORE_TABLE_H
#define LOOM_CORE_TABLE_H

#include "core/engine.h"
#include "core/kernels.h"

enum {
    LOOM__MOST_REGIONS = 4,
    LOOM__MOST_PARAMETERS = 6,
    LOOM__VIEW_WORDS = 22 /* of 8 bytes: as many as a public view has for it */
};

/* What a file tells of a table. */
typedef struct loom__description {
    loom_type type;
    uint32_t engine;
    uint32_t layout_version; /* of the engine's regions */
    uint32_t key_bytes, value_bytes;
    uint32_t partitions;
    uint32_t buckets; /* in a partition */
    uint64_t capacity;
    uint64_t size; /* of files alone: tables count theirs in their totals */
    uint64_t seed;
    double max_load;
    uint64_t parameters[LOOM__MOST_PARAMETERS]; /* the engine's own numbers; those that it does not use are 0 */
} loom__description;

/* Where a region lies. Pinned host memory and files are refused until an engine needs them. */
typedef enum loom__place { LOOM__PLACE_DEVICE, LOOM__PLACE_PINNED, LOOM__PLACE_HOST, LOOM__PLACE_FILE } loom__place;

/* What a region holds; its number in files. */
typedef enum loom__section {
    LOOM__SECTION_NONE = 0, /* not in files: state that a loaded table begins anew */
    LOOM__SECTION_PARTITIONS = 1,
    LOOM__SECTION_CODES = 2
} loom__section;

typedef struct loom__region {
    loom__section section;
    loom__place place;
    uint64_t bytes;
    uint64_t unit;         /* bytes that are read, checked and written together; the last unit may be shorter */
    unsigned char *memory; /* aligned to 64 bytes; NULL until the table has memory */
} loom__region;

struct loom__table {
    const loom__engine *engine;
    loom__machine *machine;
    const void *kernels; /* loom__map_kernels, or of filters loom__filter_kernels */
    loom__description is;
    uint32_t concurrent_reads;
    uint32_t slots_per_bucket; /* the engine sets it when it lays the table out; 0 in filters */
    loom__region regions[LOOM__MOST_REGIONS];
    uint32_t region_count;
    loom__totals *totals;            /* the beginning of the state region; NULL where there is none */
    uint64_t most;                   /* keys that the table may hold: as many as were given to it */
    uint64_t worn;                   /* keys given to calls that may wear partitions, since the last upkeep */
    int replayed;                    /* a graph may have changed the contents, unseen */
    uint64_t view[LOOM__VIEW_WORDS]; /* the engine's, as its kernels take it */
};

/* For an engine's `lay_out`: appends a region. Regions of one place are one allocation, in this order. */
void loom__table_add_region(loom__table *table, loom__section section, uint64_t bytes, uint64_t unit);

/* The same for the region that is not saved: the totals, then `more_bytes` for the engine. */
void loom__table_add_state(loom__table *table, uint64_t more_bytes);

/* The engine's part of the state region. Without memory: NULL. */
unsigned char *loom__table_state(const loom__table *table);

/* What a table of this description takes: its host struct and its regions. */
uint64_t loom__table_bytes(const loom__table *table);

/* Slots of all partitions. */
uint64_t loom__table_slots_in_all(const loom__table *table);

/* Lays a table out without giving it memory; `table` is the caller's. UNSUPPORTED if the machine does not offer the engine, or a region
 * lies where nothing can. */
loom_status loom__table_plan(loom__machine *machine, const loom__engine *engine, const loom__description *is,
                             uint32_t concurrent_reads, loom__table *table);

/* A table with memory whose contents are whatever was there. */
loom_status loom__table_make(loom__machine *machine, const loom__engine *engine, const loom__description *is,
                             uint32_t concurrent_reads, loom__table **made, loom_stream stream);
void loom__table_destroy(loom__table *table);

/* A table of the same description and contents; waits. */
loom_status loom__table_clone(loom__table *table, loom__table **made, loom_stream stream);

/* OK if the machine offers the engine; otherwise UNSUPPORTED and a sentence. */
loom_status loom__table_offered(loom__machine *machine, const loom__engine *engine);

/* Part of a region from or to the host; waits. */
loom_status loom__region_read(loom__table *table, const loom__region *region, uint64_t at, void *host, uint64_t bytes,
                              loom_stream stream);
loom_status loom__region_write(loom__table *table, const loom__region *region, uint64_t at, const void *host,
                               uint64_t bytes, loom_stream stream);

/* ---- maps, sets, counters (map_table.c) ---- */

/* OK, or `status` and a sentence, if the engine has no tables of this type with these widths. */
loom_status loom__map_check_widths(const loom__engine *engine, loom_type type, uint32_t key_bytes, uint32_t value_bytes,
                                   loom_status status);

/* What a config describes. The config is complete. */
loom_status loom__map_describe(loom__machine *machine, const loom_map_config *config, uint64_t seed,
                               loom__description *is);

loom_status loom__map_table_measure(loom__machine *machine, const loom_map_config *config, loom_memory *memory);
loom_status loom__map_table_create(loom__machine *machine, const loom_map_config *config, uint64_t seed,
                                   loom__table **made);

/* The config with which a table like this one of another capacity is made. */
loom_map_config loom__map_table_config(const loom__table *table, uint64_t capacity);

loom_status loom__map_table_build(loom__table *table, const loom__batch *batch);
loom_status loom__map_table_find(loom__table *table, const loom__batch *batch);
loom_status loom__map_table_write(loom__table *table, const loom__batch *batch); /* as batch->write says */

/* The access that an insertion of this batch needs, if no view is out: ALONE where the engine moves keys, and where the batch had better
 * go by partition, which then stands in the batch; otherwise `asked`. Call it before the batch is put in order with others. */
loom__access loom__map_table_access(const loom__table *table, loom__batch *batch, loom__access asked);

/* After calls that write: is there something to put in order? Upkeep then needs the table alone; it does not wait. */
int loom__map_table_wants_upkeep(const loom__table *table);
loom_status loom__map_table_upkeep(loom__table *table, loom_stream stream);

/* Device views: fills in `view`, of which only `access` is set; takes it back. UNSUPPORTED and a sentence where there are none. */
loom_status loom__map_table_lend(loom__table *table, loom_map_view *view);
loom_status loom__map_table_take_back(loom__table *table, const loom_map_view *view, loom_stream stream);

/* Do n more keys surely fit? It counts every key ever given as a key stored. `recount` asks the table, and waits; from then on the number
 * is exact. */
int loom__map_table_surely_fits(const loom__table *table, uint64_t n);
loom_status loom__map_table_recount(loom__table *table, uint64_t *keys, loom_stream stream);

/* Moves all keys into a table for `capacity` keys; waits. After a failure the table is as it was. FULL: the keys do not fit, since too
 * many fall into one partition. */
loom_status loom__map_table_resize(loom__table *table, uint64_t capacity, loom_stream stream);

loom_status loom__map_table_clear(loom__table *table, loom_stream stream);
loom_status loom__map_table_size(loom__table *table, uint64_t *size, loom_stream stream);
loom_status loom__map_table_retrieve(loom__table *table, loom__position *position, void *keys, void *values,
                                     uint64_t room, uint64_t *got, loom_stream stream);
loom_status loom__map_table_survey(loom__table *table, loom__survey *survey, loom_stream stream);
loom_status loom__map_table_count_accesses(loom__table *table, const void *keys, uint64_t n, uint64_t *accesses,
                                           loom_stream stream);

/* A loaded table takes up its size, and its contents are checked: BAD_FILE and a sentence if they are not a table. */
loom_status loom__map_table_restored(loom__table *table, const char *path, loom_stream stream);

#endif
