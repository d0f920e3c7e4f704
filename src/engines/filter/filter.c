/* The blocked Bloom filter as the core sees it. filter_ops.h has the algorithms, filter_layout.h the bytes, and
 * filter_shape.c the sizes and rates. The machines do the bulk work. */
#include "engines/filter/filter.h"
#include "core/error.h"
#include "core/table.h"
#include "engines/filter/filter_layout.h"

#include <math.h>

_Static_assert(sizeof(loom__filter_view) <= sizeof(((loom_filter_view *)0)->filter), "a public view holds one of ours");

enum { PROBES = 0 /* the parameter: bits that a key sets */ };

static uint32_t blocks_of(const loom__description *is)
{
    return is->partitions * is->buckets;
}

static uint32_t probes_of(const loom__description *is)
{
    return (uint32_t)is->parameters[PROBES];
}

static loom_status supports(loom__machine *machine, loom_type type, loom_feature feature)
{
    (void)type;
    switch (feature) {
    case LOOM_FEATURE_STRINGS:
        return loom__fail(LOOM_UNSUPPORTED, "keys of filters have a fixed width; insert hashes of the strings");
    case LOOM_FEATURE_CONCURRENT_READS:
    case LOOM_FEATURE_MERGE:
        return LOOM_OK; /* on every machine */
    case LOOM_FEATURE_INSERT:
    case LOOM_FEATURE_INSERT_IN_ORDER:
    case LOOM_FEATURE_FIND:
    case LOOM_FEATURE_SAVE:
    case LOOM_FEATURE_CLONE:
    case LOOM_FEATURE_ASYNCHRONOUS:
    case LOOM_FEATURE_VIEWS:
    case LOOM_FEATURE_WRITING_VIEWS:
        break;
    case LOOM_FEATURE_ERASE:
    case LOOM_FEATURE_ERASE_IF:
        return loom__fail(LOOM_UNSUPPORTED,
                          "keys cannot be taken out of a filter; clear it and insert what is left, or use a set");
    case LOOM_FEATURE_GROW:
        return loom__fail(LOOM_UNSUPPORTED, "a filter does not know its keys, so it cannot grow; make a larger one");
    case LOOM_FEATURE_BUILD:
    case LOOM_FEATURE_RETRIEVE_ALL:
    case LOOM_FEATURE_FIND_OR_INSERT:
    case LOOM_FEATURE_UPDATE:
    case LOOM_FEATURE_ACCUMULATE:
    case LOOM_FEATURE_LISTS:
    case LOOM_FEATURE_APPLY:
    case LOOM_FEATURE_DURABLE:
        return loom__fail(LOOM_UNSUPPORTED,
                          "a filter has neither values nor a list of its keys; it has insert, contains "
                          "and merge; for more use a set or a map");
    }
    return machine->ops->supports(machine, feature);
}

/* One field gives the size, and its value is in range. A NaN is not 0, so it counts as given. */
static loom_status check_size(const loom_filter_config *config)
{
    const double rate = config->false_positive_rate, bits = config->bits_per_key;
    const unsigned long long bytes = config->bytes;
    RETURN_ERROR_IF(rate != 0 && bits != 0, LOOM_INVALID_ARGUMENT,
                    "false_positive_rate = %g and bits_per_key = %g: each gives the size of the filter; set one to 0",
                    rate, bits);
    RETURN_ERROR_IF(rate != 0 && bytes != 0, LOOM_INVALID_ARGUMENT,
                    "false_positive_rate = %g and bytes = %llu: each gives the size of the filter; set one to 0", rate,
                    bytes);
    RETURN_ERROR_IF(bits != 0 && bytes != 0, LOOM_INVALID_ARGUMENT,
                    "bits_per_key = %g and bytes = %llu: each gives the size of the filter; set one to 0", bits, bytes);
    RETURN_ERROR_IF(
        bytes == 0 && config->capacity == 0, LOOM_INVALID_ARGUMENT,
        "capacity and bytes are both 0: a filter has a size; say how many keys it is to hold, or its bytes");
    RETURN_ERROR_IF(rate != 0 && !(rate >= FILTER_LEAST_RATE && rate <= FILTER_LARGEST_RATE), LOOM_INVALID_ARGUMENT,
                    "false_positive_rate = %g: it must be at least %g and at most %g; 0: %g", rate, FILTER_LEAST_RATE,
                    FILTER_LARGEST_RATE, FILTER_DEFAULT_RATE);
    RETURN_ERROR_IF(bits != 0 && !(bits >= FILTER_LEAST_BITS_PER_KEY && bits <= FILTER_MOST_BITS_PER_KEY),
                    LOOM_INVALID_ARGUMENT, "bits_per_key = %g: it must be at least %d and at most %d", bits,
                    FILTER_LEAST_BITS_PER_KEY, FILTER_MOST_BITS_PER_KEY);
    return LOOM_OK;
}

static loom_status check_config(const loom_filter_config *config)
{
    RETURN_ERROR_IF(config->key_bytes < 1 || config->key_bytes > FILTER_MOST_KEY_BYTES, LOOM_INVALID_ARGUMENT,
                    "key_bytes = %u: keys have 1 to %d bytes", config->key_bytes, (int)FILTER_MOST_KEY_BYTES);
    RETURN_ERROR_IF(config->probes % FILTER_QUARTERS != 0 || config->probes > 16, LOOM_INVALID_ARGUMENT,
                    "probes = %u: a key sets 4, 8, 12 or 16 bits; 0: chosen by the library", config->probes);
    return check_size(config);
}

static loom_status choose(loom__machine *machine, const void *config, loom__description *is)
{
    uint32_t blocks, probes;
    (void)machine;
    RETURN_IF_FAILED(check_config(config));
    RETURN_IF_FAILED(loom__filter_choose_shape(config, &blocks, &probes));
    is->partitions = filter_partitions(blocks);
    is->buckets = filter_partition_blocks(blocks);
    is->parameters[PROBES] = probes;
    return LOOM_OK;
}

/* Any pattern of bits is a valid filter. Only the numbers that describe it can be wrong. */
static loom_status check(const loom__description *is)
{
    const uint64_t probes = is->parameters[PROBES];
    RETURN_ERROR_IF(is->key_bytes < 1 || is->key_bytes > FILTER_MOST_KEY_BYTES || is->value_bytes != 0 ||
                        is->max_load != 0 || is->partitions < 1 || is->partitions > FILTER_MOST_PARTITIONS ||
                        is->buckets < 1 || is->buckets > FILTER_PARTITION_BLOCKS ||
                        (is->partitions > 1 && is->buckets < FILTER_PARTITION_BLOCKS) || probes < 4 || probes > 16 ||
                        probes % FILTER_QUARTERS != 0,
                    LOOM_BAD_FILE, "the header holds values that no filter has");
    return LOOM_OK;
}

static void lay_out(loom__table *table)
{
    loom__table_add_region(table, LOOM__SECTION_PARTITIONS, filter_bytes(blocks_of(&table->is)),
                           filter_bytes(table->is.buckets));
}

static void attach(loom__table *table)
{
    *(loom__filter_view *)(void *)table->view = (loom__filter_view){
        .base = table->regions[0].memory,
        .blocks = blocks_of(&table->is),
        .each = probes_of(&table->is) / FILTER_QUARTERS,
        .key_bytes = table->is.key_bytes,
        .seed = loom__seed_expand(table->is.seed),
    };
}

/* ---- bits ---- */

static double designed_rate(const loom__table *table)
{
    return loom__filter_rate((double)table->is.capacity, (double)blocks_of(&table->is), probes_of(&table->is));
}

static double estimate(const loom__table *table, uint64_t bits_set)
{
    return loom__filter_estimate(bits_set, blocks_of(&table->is), probes_of(&table->is));
}

static void tell_report(const loom__table *table, const loom__filter_survey *survey, loom_filter_report *report)
{
    const double blocks = (double)blocks_of(&table->is);
    report->probes = probes_of(&table->is);
    report->blocks = blocks_of(&table->is);
    report->bits_set = survey->bits_set;
    report->fill = (double)survey->bits_set / (blocks * FILTER_BLOCK_BITS);
    report->estimated_keys = estimate(table, survey->bits_set);
    report->false_positive_rate =
        fmin(1, survey->false_positive_rate + report->estimated_keys / blocks * FILTER_SAME_BITS);
    report->designed_rate = designed_rate(table);
}

/* Only `bytes` gives the size: a config with two sizes is refused. */
static void tell_config(const loom__table *table, loom_filter_config *config)
{
    config->probes = probes_of(&table->is);
    config->bytes = filter_bytes(blocks_of(&table->is));
}

static loom_status check_alike(const loom__table *a, const loom__table *b)
{
    RETURN_ERROR_IF(blocks_of(&a->is) != blocks_of(&b->is) || probes_of(&a->is) != probes_of(&b->is),
                    LOOM_INVALID_ARGUMENT,
                    "the filters have %u and %u blocks, and keys that set %u and %u bits; make the second with "
                    "loom_filter_create_like",
                    blocks_of(&a->is), blocks_of(&b->is), probes_of(&a->is), probes_of(&b->is));
    return LOOM_OK;
}

static const loom__filter_engine filter_part = {
    .designed_rate = designed_rate,
    .estimate = estimate,
    .tell_report = tell_report,
    .tell_config = tell_config,
    .check_alike = check_alike,
};

const loom__engine loom__bloom_engine = {
    .id = LOOM_ENGINE_BLOOM,
    .name = "bloom",
    .types = 1 << LOOM_TYPE_FILTER,
    .layout_version = FILTER_LAYOUT_VERSION,
    .parameters = 1,
    .view_layout = LOOM_FILTER_VIEW_LAYOUT,
    .supports = supports,
    .choose = choose,
    .check = check,
    .lay_out = lay_out,
    .attach = attach,
    .filter = &filter_part,
};
