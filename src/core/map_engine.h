/* An engine that can be a map: what `api` asks of it, and the words in which they speak. Arguments are checked and the
 * handle's lock is held before any of these is called. */
#ifndef LOOM_CORE_MAP_ENGINE_H
#define LOOM_CORE_MAP_ENGINE_H

#include "core/combine.h"
#include "core/machine.h"

#define LOOM__LARGEST_LOAD 0.95 /* of any map; in configs and in files */

typedef enum loom__write {
    LOOM__WRITE_KEEP,
    LOOM__WRITE_OVERWRITE,
    LOOM__WRITE_FETCH,   /* find_or_insert */
    LOOM__WRITE_COMBINE, /* accumulate */
    LOOM__WRITE_UPDATE,
    LOOM__WRITE_ERASE
} loom__write;

/* One bulk call. What became of it is written to *result in stream order; `result` is never NULL here. */
typedef struct loom__batch {
    const void *keys;   /* [n] */
    const void *values; /* [n] insert, build, find_or_insert, update; accumulate: of loom__number_bytes() each */
    void *found_values; /* [n] find, find_or_insert; NULL for contains, may be NULL else */
    uint8_t *found;     /* [n] contains; may be NULL */
    uint8_t *status;    /* [n] may be NULL */
    uint64_t n;
    uint32_t flags;          /* loom_insert_flags as they were given; LOOM_OVERWRITE is in `write` too */
    loom__write write;       /* what a writing call does */
    loom__how how;           /* accumulate */
    loom__widening widening; /* accumulate */
    void *workspace; /* the caller's, instead of temporary memory, if that takes no more; builds and inserts alone */
    uint64_t workspace_bytes;
    uint32_t captured;     /* build: the stream is being captured into a graph */
    uint32_t by_partition; /* insert: had better go that way; the table is the call\'s alone */
    uint32_t replace;      /* build: the table's former contents go */
    uint32_t uncounted;    /* nobody will look at the result's counts */
    loom_result *result;
    loom_stream stream;
} loom__batch;

/* Where a cursor stands: all pairs in lower buckets, and in lower slots of its bucket, have been given out. */
typedef struct loom__position {
    uint64_t bucket; /* over all partitions */
    uint32_t slot;
} loom__position;

/* What reading a whole table tells. */
typedef struct loom__survey {
    uint64_t size;
    uint64_t fullest_partition;
    uint64_t displaced;
    uint64_t longest_chain;
    uint64_t hit_accesses; /* summed over all keys */
    double miss_accesses;  /* expected for one random absent key */
    uint64_t stashed;      /* perfect tables: keys in stash buckets */
    uint64_t first_bad;    /* the lowest bucket that violates an invariant; UINT64_MAX: none */
} loom__survey;

/* A table as a file describes it (core/file_layout.h). */
typedef struct loom__map_image {
    uint32_t engine, layout_version;
    uint32_t key_bytes, value_bytes;
    uint32_t partitions, buckets;
    uint64_t partition_bytes;
    uint64_t capacity, size, seed;
    double max_load;
    uint32_t concurrent_reads; /* not in the file */
    loom_type type;
    double keys_per_cell;    /* perfect tables, at max_load; not in the file; else 0 */
    uint64_t words;          /* perfect tables: of codes, in a partition; else 0 */
    uint64_t further_pieces; /* of a partition's size, behind the partitions: perfect tables' codes; else 0 */
} loom__map_image;

typedef struct loom__table loom__table; /* an engine's own */

typedef struct loom__map_engine {
    loom_engine id;
    const char *name;

    loom_status (*memory_required)(loom__machine *machine, const loom_map_config *config, loom_memory *memory);
    loom_status (*create)(loom__machine *machine, const loom_map_config *config, uint64_t seed, loom__table **table);
    void (*destroy)(loom__table *table);

    loom_status (*build)(loom__table *table, const loom__batch *batch);
    loom_status (*find)(loom__table *table, const loom__batch *batch);
    loom_status (*write)(loom__table *table, const loom__batch *batch); /* as batch->write says */

    /* Had an insertion of this batch better go by partition? Asked before the call is put in order with others. */
    int (*goes_by_partition)(const loom__table *table, const loom__batch *batch);

    /* After calls that write: is there something to put in order? Upkeep then needs the table alone; it does not wait. */
    int (*wants_upkeep)(const loom__table *table);
    loom_status (*upkeep)(loom__table *table, loom_stream stream);

    /* Device views: fills in `view`, of which only `access` is set; takes it back. NULL, or UNSUPPORTED and a sentence, where
     * there are none. */
    loom_status (*lend)(loom__table *table, loom_map_view *view);
    loom_status (*take_back)(loom__table *table, const loom_map_view *view, loom_stream stream);

    /* Do n more keys surely fit? From what is known without looking: as many keys as the table was given may be in it.
     * `recount` looks, and waits; from then on it is known how many there are. */
    int (*surely_fits)(const loom__table *table, uint64_t n);
    loom_status (*recount)(loom__table *table, uint64_t *keys, loom_stream stream);

    /* Moves all keys into a table for `capacity` keys, at least as many as there are; waits. After a failure the table is as it
     * was. */
    loom_status (*resize)(loom__table *table, uint64_t capacity, loom_stream stream);

    loom_status (*clear)(loom__table *table, loom_stream stream);
    loom_status (*clone)(loom__table *table, loom__table **clone, loom_stream stream);

    loom_status (*size)(loom__table *table, uint64_t *size, loom_stream stream);
    loom_status (*retrieve)(loom__table *table, loom__position *position, void *keys, void *values, uint64_t room,
                            uint64_t *got, loom_stream stream);
    loom_status (*survey)(loom__table *table, loom__survey *survey, loom_stream stream);
    loom_status (*count_accesses)(loom__table *table, const void *keys, uint64_t n, uint64_t *accesses,
                                  loom_stream stream);

    /* What the table is, its size excepted, which is asked for by itself. */
    void (*describe)(const loom__table *table, loom__map_image *image, uint32_t *slots_per_bucket,
                     uint64_t *memory_bytes);

    /* For files. `restore` makes a table whose partitions will be written next, then `restored` takes the size. It
     * refuses an image that this engine could not have made: BAD_FILE or UNSUPPORTED and a sentence. */
    loom_status (*restore)(loom__machine *machine, const loom__map_image *image, loom__table **table,
                           loom_stream stream);
    unsigned char *(*partition)(loom__table *table, uint64_t index);
    loom_status (*restored)(loom__table *table, uint64_t size, loom_stream stream);
} loom__map_engine;

extern const loom__map_engine loom__open_map;
extern const loom__map_engine loom__perfect_map;

#endif
