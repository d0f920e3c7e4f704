/* Multimaps whose lists are chains of buckets, as the core sees them: the numbers that say how lists grow. Everything
 * else is as in all multimaps (engines/multi/multi.c). */
#include "engines/chain/chain.h"
#include "core/error.h"
#include "core/table.h"
#include "engines/chain/chain_layout.h"
#include "engines/multi/multi.h"

enum { DEFAULT_FIRST_BUCKET = 4 };
#define DEFAULT_BUCKET_GROWTH 1.5

static loom_status check_buckets(double first_bucket, double bucket_growth, loom_status status)
{
    RETURN_ERROR_IF(!(first_bucket >= 1 && first_bucket <= CHAIN_LARGEST_FIRST), status,
                    "first_bucket = %g: it is from 1 to %d values; 0 lets the library choose", first_bucket,
                    (int)CHAIN_LARGEST_FIRST);
    RETURN_ERROR_IF(!(bucket_growth >= 1 && bucket_growth <= CHAIN_LARGEST_GROWTH), status,
                    "bucket_growth = %g: it is from 1 to %d; 0 lets the library choose", bucket_growth,
                    (int)CHAIN_LARGEST_GROWTH);
    return LOOM_OK;
}

static double growth_of(uint64_t parameter)
{
    return 1 + (double)parameter / CHAIN_GROWTH_ONE;
}

static loom_status choose(loom__machine *machine, const void *any_config, loom__description *is)
{
    const loom_map_config *config = any_config;
    const uint64_t first_bucket = config->first_bucket != 0 ? config->first_bucket : DEFAULT_FIRST_BUCKET;
    const double bucket_growth = config->bucket_growth != 0 ? config->bucket_growth : DEFAULT_BUCKET_GROWTH;
    RETURN_IF_FAILED(check_buckets((double)first_bucket, bucket_growth, LOOM_INVALID_ARGUMENT));
    is->parameters[MULTI_FIRST_BUCKET] = first_bucket;
    is->parameters[MULTI_BUCKET_GROWTH] = (uint64_t)((bucket_growth - 1) * CHAIN_GROWTH_ONE + 0.5);
    return loom__multi_choose(machine, config, is);
}

static loom_status check(const loom__description *is)
{
    RETURN_IF_FAILED(check_buckets((double)is->parameters[MULTI_FIRST_BUCKET],
                                   growth_of(is->parameters[MULTI_BUCKET_GROWTH]), LOOM_BAD_FILE));
    return loom__multi_check(is);
}

static void tell_config(const loom__table *table, loom_map_config *config)
{
    loom__multi_tell_config(table, config);
    config->first_bucket = table->is.parameters[MULTI_FIRST_BUCKET];
    config->bucket_growth = growth_of(table->is.parameters[MULTI_BUCKET_GROWTH]);
}

const loom__engine loom__chain_engine = {
    .id = LOOM_ENGINE_CHAIN,
    .name = "chain",
    .types = 1 << LOOM_TYPE_MULTIMAP,
    .layout_version = CHAIN_LAYOUT_VERSION,
    .parameters = 4,
    .options = LOOM__OPTION_LISTS | LOOM__OPTION_BUCKETS,
    .moves_keys = 1,
    .most_values = CHAIN_MOST_ROOM,
    .supports = loom__multi_supports,
    .choose = choose,
    .check = check,
    .lay_out = loom__multi_lay_out,
    .attach = loom__multi_attach,
    .restored = loom__multi_restored,
    .upkeep_after = loom__multi_upkeep_after,
    .tell_config = tell_config,
    .tell_stats = loom__multi_tell_stats,
    .pairs_at = loom__multi_pairs_at,
    .values_at = loom__multi_values_at,
    .used_bytes = loom__multi_used_bytes,
};
