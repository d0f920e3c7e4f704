/* Multimaps whose lists are chains of buckets, as the core sees them: the numbers that say how lists grow. Everything
 * else is as in all multimaps (engines/multi/multi.c).
 *
 * The defaults. 2^22 pairs of 4 + 4 bytes came in 64 calls into a table with ample room: a list got one value at a
 * time. Two cores of a Neoverse V1; `loom bench multi --engine chain --first-bucket F --bucket-growth G --ops
 * append,find_grown --n 2^22 --load 0.8`. Density, without the free part of the heap, and M pairs/s of find_all:
 *
 *                          2 values per key   8            64
 *   first 1, growth 1      0.48, 173          0.51, 302    0.53,  481
 *   first 1, growth 1.1    0.48, 172          0.50, 300    0.62,  758
 *   first 1, growth 1.5    0.48, 173          0.46, 288    0.64, 1145
 *   first 2, growth 1.5    0.48, 164          0.47, 331    0.69, 1229
 *   first 4, growth 1.1    0.36, 168          0.59, 420    0.68, 1096
 *   first 4, growth 1.5    0.36, 170          0.55, 492    0.65, 1240    the default
 *   first 4, growth 2      0.36, 164          0.49, 397    0.47, 1230
 *   first 8, growth 1.5    0.24, 160          0.73, 699    0.85, 1352    8 values fill the first bucket
 *   open engine            0.48, 173          0.42, 630    0.30, 2018
 *
 * Appends ran at 35 to 39, 42 to 52 and 49 to 67 M/s, with the open engine at 37, 46 and 51. A growth below 1.5 makes
 * many buckets of a long list, and reads of them wait for one link after the other. A growth of 2 leaves half of the
 * memory unused. A first bucket of 8 wastes most of its memory where keys have two or three values. */
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
    .layout_version = MULTI_LAYOUT_VERSION,
    .layout_of = loom__multi_layout_of,
    .parameters = 4,
    .options = LOOM__OPTION_LISTS | LOOM__OPTION_BUCKETS,
    .moves_keys = 1, /* in the calls of the host; kernels append, which moves nothing */
    .view_layout = LOOM_CHAIN_VIEW_LAYOUT,
    .view_writes = 1 << LOOM_VIEW_INSERT,
    .view_refusal = "kernels may look keys up in this multimap (LOOM_VIEW_FIND) or append values (LOOM_VIEW_INSERT); "
                    "erase with the bulk calls",
    .most_values = CHAIN_MOST_ROOM,
    .supports = loom__multi_supports,
    .check_widths = loom__multi_check_widths,
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
