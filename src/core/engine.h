/* An engine: one struct of functions and properties, registered once. Nothing in `api` or `core` names an engine.
 *
 * An optional member may be NULL or 0. Its comment then gives the default after the word "Optional". */
#ifndef LOOM_CORE_ENGINE_H
#define LOOM_CORE_ENGINE_H

#include "core/batch.h"
#include "core/machine.h"

/* Bounds of a map's load factor, in configs and in files. With a smaller load factor a table would be so large that it
 * could hardly grow. */
#define LOOM__SMALLEST_LOAD 0.01
#define LOOM__LARGEST_LOAD  0.95

typedef struct loom__table loom__table;
typedef struct loom__region loom__region;
typedef struct loom__description loom__description;

/* Fields of loom_map_config that only some engines support. A config for another engine must leave them 0. */
enum {
    LOOM__OPTION_CONCURRENT_READS = 1,
    LOOM__OPTION_KEYS_PER_CELL = 2,
    LOOM__OPTION_LISTS = 4,      /* values, and most_values_per_key */
    LOOM__OPTION_BUCKETS = 8,    /* first_bucket, and bucket_growth */
    LOOM__OPTION_STRINGS = 16,   /* LOOM_VARIABLE, string_bytes, most_key_bytes and most_value_bytes */
    LOOM__OPTION_LAYOUT = 32,    /* layout */
    LOOM__OPTION_ROW_PLACE = 64, /* row_place */
    LOOM__OPTION_TICKETS = 128   /* ticket_bits */
};

typedef struct loom__filter_engine loom__filter_engine;

typedef struct loom__engine {
    loom_engine id;
    const char *name;        /* as error messages spell it */
    uint32_t types;          /* 1 << loom_type for each type it implements */
    uint32_t layout_version; /* of its regions, in files */
    /* The same for this table. Optional: it is the same for all. */
    uint32_t (*layout_of)(const loom__description *is);
    uint32_t parameters;  /* how many of a description's parameters it uses */
    uint32_t options;     /* LOOM__OPTION_… */
    uint32_t view_layout; /* of device views; 0: none */
    double largest_load;  /* 0: LOOM__LARGEST_LOAD */
    uint64_t most_values; /* multimaps: the most values for which a table may have room; strings: the most bytes */

    uint32_t stashes; /* cells may go to stashes, and the totals count them */

    /* Insertions may move stored keys: each inserting call has the table alone. Device views may only find, and write
     * with the accesses of view_writes. */
    uint32_t moves_keys;
    uint32_t view_writes; /* with moves_keys: 1 << loom_view_access for each access that writes and is lent */

    /* With moves_keys: why other views are refused, and what to do instead. Optional: a sentence for all engines. */
    const char *view_refusal;

    /* OK, or UNSUPPORTED and a sentence: whether this table lends a view of this access. Optional: as the members above
     * say. */
    loom_status (*check_view)(const loom__table *table, uint32_t access);

    /* OK, or UNSUPPORTED and a sentence. loom_supports() has already refused the features that `options`, `view_layout`
     * and `view_writes` rule out. The kernels must refuse every kind of write that this function refuses. Optional:
     * asks the machine. */
    loom_status (*supports)(loom__machine *machine, loom_type type, loom_feature feature);

    /* Checks the widths of a config (INVALID_ARGUMENT) or a file (BAD_FILE): OK, or `status` and a sentence. For a
     * config with widths that another engine or type has, the status is UNSUPPORTED. Optional: keys and values have 4
     * or 8 bytes. The first engine of a type that has this member is the default for all other widths. */
    loom_status (*check_widths)(loom_type type, uint32_t key_bytes, uint32_t value_bytes, loom_status status);

    /* Chooses partitions, buckets and parameters for a complete config: a loom_map_config, or a loom_filter_config for
     * filters. INVALID_ARGUMENT and a sentence if no table matches the config. */
    loom_status (*choose)(loom__machine *machine, const void *config, loom__description *is);

    /* OK if `choose` could have made this description, otherwise BAD_FILE and a sentence. The caller has checked the
     * rules that hold for every table of the type. */
    loom_status (*check)(const loom__description *is);

    /* Lists the regions (loom__table_add_region) and sets slots_per_bucket. */
    void (*lay_out)(loom__table *table);

    /* Fills in table->view. The regions have memory, unless the caller only needs sizes. */
    void (*attach)(loom__table *table);

    /* Runs after the contents were read from a file and the totals were set. Optional. */
    loom_status (*restored)(loom__table *table, loom_stream stream);

    /* The number of keys after which upkeep may find work. Keys given to erasures count, and keys given to insertions
     * beyond the table's capacity. Optional: no upkeep. */
    uint64_t (*upkeep_after)(const loom__table *table);

    /* Fill in the fields that only this engine knows. Both optional: nothing to fill in. */
    void (*tell_config)(const loom__table *table, loom_map_config *config);
    void (*tell_stats)(const loom__table *table, loom_stats *stats);

    /* Multimaps: where the table counts its pairs, and the values for which a packed table needs room. Optional: a pair
     * for each key of the totals, and no room. */
    const uint64_t *(*pairs_at)(const loom__table *table);
    const uint64_t *(*values_at)(const loom__table *table);

    /* Tables with strings: how many bytes of the heap were given out, and how many of these a packed heap would need.
     * Both are 0 for a table without strings. Waits. Optional: the engine has no strings. */
    loom_status (*count_bytes)(loom__table *table, uint64_t *used, uint64_t *live, loom_stream stream);

    /* How many bytes of a region hold contents; a file has zeros in place of the others. Optional: all. */
    loom_status (*used_bytes)(loom__table *table, const loom__region *region, uint64_t *bytes, loom_stream stream);

    /* The engine's kernels on a machine. Optional: asks the machine. */
    const void *(*kernels)(const loom__machine *machine);

    const loom__filter_engine *filter; /* filters only */
} loom__engine;

/* What a filter's engine knows about its bits. */
struct loom__filter_engine {
    double (*designed_rate)(const loom__table *table); /* rate of false positives at the table's capacity */
    double (*estimate)(const loom__table *table, uint64_t bits_set); /* distinct keys that set this many bits */
    void (*tell_report)(const loom__table *table, const loom__filter_survey *survey, loom_filter_report *report);
    void (*tell_config)(const loom__table *table, loom_filter_config *config);
    /* OK if both filters set the same bits for the same keys, or INVALID_ARGUMENT and a sentence. The key widths are
     * equal. */
    loom_status (*check_alike)(const loom__table *a, const loom__table *b);
};

/* ---- the registry ---- */

/* The engine with this id that implements this type; NULL if there is none. LOOM_ENGINE_DEFAULT stands for the first
 * engine that implements the type. */
const loom__engine *loom__engine_of(loom_type type, uint32_t id);

/* The first engine that implements this type with widths other than 4 and 8; NULL if there is none. */
const loom__engine *loom__engine_of_widths(loom_type type);

/* The layout version of a table's regions. */
uint32_t loom__engine_layout_of(const loom__engine *engine, const loom__description *is);

/* The largest load factor that an engine's tables may be made for. */
double loom__engine_largest_load(const loom__engine *engine);

/* Fails with UNSUPPORTED: the engine moves keys and lends no view of the access that was asked for. */
loom_status loom__engine_refuses_views(const loom__engine *engine);

/* Whether any engine has this id. LOOM_ENGINE_DEFAULT counts as known. */
int loom__engine_is_known(uint32_t id);

/* Adds an engine from outside the library. Not thread-safe: call this before the first context is made. Returns 0 if
 * the id is taken or the registry is full. */
int loom__engine_register(const loom__engine *engine);

/* The library's own engines, in the order of the search; ends with NULL (engines/engines.c). */
extern const loom__engine *const loom__own_engines[];

#endif
