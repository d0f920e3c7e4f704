/* An engine: one struct of functions and properties, registered once. Nothing in `api` or `core` names an engine.
 *
 * An optional member may be NULL or 0, which means the default that is told beside it. */
#ifndef LOOM_CORE_ENGINE_H
#define LOOM_CORE_ENGINE_H

#include "core/batch.h"
#include "core/machine.h"

/* Loads of any map, in configs and in files. With a smaller one a table would be so large that it could hardly grow. */
#define LOOM__SMALLEST_LOAD 0.01
#define LOOM__LARGEST_LOAD  0.95

typedef struct loom__table loom__table;
typedef struct loom__description loom__description;

/* Fields of loom_map_config that only some engines have. The others refuse them unless they are 0. */
enum { LOOM__OPTION_CONCURRENT_READS = 1, LOOM__OPTION_KEYS_PER_CELL = 2 };

typedef struct loom__filter_engine loom__filter_engine;

typedef struct loom__engine {
    loom_engine id;
    const char *name;        /* as sentences call it */
    uint32_t types;          /* 1 << loom_type for each that it can be */
    uint32_t layout_version; /* of its regions, in files */
    uint32_t parameters;     /* how many of a description's it uses */
    uint32_t options;        /* LOOM__OPTION_… */
    uint32_t view_layout;    /* of device views; 0: none */
    double largest_load;     /* that it offers; 0: LOOM__LARGEST_LOAD */

    /* Insertions may move keys that are stored: each call that inserts has the table alone, and views may only find. */
    uint32_t moves_keys;

    /* OK, or UNSUPPORTED and a sentence. Not asked for what `options`, `view_layout` and `moves_keys` of maps rule out. A kind of write
     * that is refused here is refused by the kernels, too. Optional: the machine is asked. */
    loom_status (*supports)(loom__machine *machine, loom_type type, loom_feature feature);

    /* OK, or `status` and a sentence, for widths of a config (INVALID_ARGUMENT) or a file (BAD_FILE). Optional: keys and values have 4
     * or 8 bytes. */
    loom_status (*check_widths)(uint32_t key_bytes, uint32_t value_bytes, loom_status status);

    /* Chooses partitions, buckets and parameters for a complete config: a loom_map_config, or of filters a loom_filter_config.
     * INVALID_ARGUMENT and a sentence if there is no such table. */
    loom_status (*choose)(loom__machine *machine, const void *config, loom__description *is);

    /* Could `choose` have made this? Otherwise BAD_FILE and a sentence. What holds for every table of the type was checked. */
    loom_status (*check)(const loom__description *is);

    /* Lists the regions (loom__table_add_region) and sets slots_per_bucket. */
    void (*lay_out)(loom__table *table);

    /* Makes table->view: the regions have their memory, or none where only sizes are asked for. */
    void (*attach)(loom__table *table);

    /* The contents were read from a file; the totals are right. Optional. */
    loom_status (*restored)(loom__table *table, loom_stream stream);

    /* Keys given to erasures, or to insertions into a table beyond its capacity, before upkeep may find something to do. Optional. */
    uint64_t (*upkeep_after)(const loom__table *table);

    /* What only this engine can tell. Optional, both. */
    void (*tell_config)(const loom__table *table, loom_map_config *config);
    void (*tell_stats)(const loom__table *table, loom_stats *stats);

    /* Its kernels on a machine. Optional: the machine is asked. */
    const void *(*kernels)(const loom__machine *machine);

    const loom__filter_engine *filter; /* of filters alone */
} loom__engine;

/* What a filter's engine knows of its bits. */
struct loom__filter_engine {
    double (*designed_rate)(const loom__table *table);               /* of false positives at the table's capacity */
    double (*estimate)(const loom__table *table, uint64_t bits_set); /* different keys that leave so many bits set */
    void (*tell_report)(const loom__table *table, const loom__filter_survey *survey, loom_filter_report *report);
    void (*tell_config)(const loom__table *table, loom_filter_config *config);
    /* OK if both have the same bits for the same keys, or INVALID_ARGUMENT and a sentence. The widths are the same. */
    loom_status (*check_alike)(const loom__table *a, const loom__table *b);
};

/* ---- the registry ---- */

/* The engine with this number that can be of this type; with LOOM_ENGINE_DEFAULT the first one that can. NULL: there is none. */
const loom__engine *loom__engine_of(loom_type type, uint32_t id);

/* The largest load factor that an engine's tables may be made for. */
double loom__engine_largest_load(const loom__engine *engine);

/* Is there any engine with this number? */
int loom__engine_is_known(uint32_t id);

/* Adds an engine that is not part of the library. Not thread-safe: before the first context. 0: its number is taken, or there is no room. */
int loom__engine_register(const loom__engine *engine);

/* The library's own, in the order in which they are asked; ends with NULL (engines/engines.c). */
extern const loom__engine *const loom__own_engines[];

#endif
