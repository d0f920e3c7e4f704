/* `loom info FILE` and `loom check FILE`: what a saved table is, and whether it is whole. */
#include "bench_parse.h"
#include "tool.h"

#include <inttypes.h>
#include <loom/loom.h>
#include <stdio.h>

/* Loads the one file that the arguments name; the exit code. On TOOL_OK both are the caller's to destroy. */
static int load_file(const char *command, int argc, char **argv, loom_context **context, loom_map **map)
{
    if (argc != 1 || argv[0][0] == '-')
        return tool_wrong_use("%s takes the name of one file.", command);
    if (loom_context_create(NULL, context) != LOOM_OK)
        return tool_failed("%s", loom_last_error());
    if (loom_map_load(*context, argv[0], map, NULL) != LOOM_OK) {
        loom_context_destroy(*context);
        return tool_failed("%s", loom_last_error());
    }
    return TOOL_OK;
}

static int print_stats(const char *path, loom_map *map)
{
    loom_stats stats = LOOM_STATS_INIT;
    if (loom_map_stats(map, &stats, NULL) != LOOM_OK)
        return tool_failed("%s", loom_last_error());
    const char *type = stats.type == LOOM_TYPE_SET ? "set" : stats.type == LOOM_TYPE_COUNTER ? "counter" : "map";
    printf("%s: a %s, engine %s\n", path, type, bench_engine_name(stats.engine));
    printf("  key bytes              %u\n", (unsigned)stats.key_bytes);
    printf("  value bytes            %u\n", (unsigned)stats.value_bytes);
    printf("  keys                   %" PRIu64 "\n", stats.size);
    printf("  capacity               %" PRIu64 "\n", stats.capacity);
    printf("  slots                  %" PRIu64 "\n", stats.slots);
    printf("  load                   %.4f\n", stats.load);
    printf("  partitions             %" PRIu64 " of %" PRIu64 " buckets of %u slots\n", stats.partitions,
           stats.buckets_per_partition, (unsigned)stats.slots_per_bucket);
    printf("  fullest partition      %" PRIu64 " keys\n", stats.fullest_partition);
    printf("  displaced keys         %" PRIu64 "\n", stats.displaced);
    printf("  longest chain          %" PRIu64 " buckets\n", stats.longest_chain);
    printf("  accesses per hit       %.4f\n", stats.accesses_per_hit);
    printf("  accesses per miss      %.4f\n", stats.accesses_per_miss);
    printf("  memory bytes           %" PRIu64 "\n", stats.memory_bytes);
    printf("  seed                   0x%016" PRIx64 "\n", stats.seed);
    return TOOL_OK;
}

static int run_info(int argc, char **argv)
{
    loom_context *context;
    loom_map *map;
    int code = load_file("info", argc, argv, &context, &map);
    if (code != TOOL_OK)
        return code;
    code = print_stats(argv[0], map);
    loom_map_destroy(map);
    loom_context_destroy(context);
    return code;
}

static int run_check(int argc, char **argv)
{
    loom_context *context;
    loom_map *map;
    uint64_t size = 0;
    int code = load_file("check", argc, argv, &context, &map);
    if (code != TOOL_OK)
        return code;
    if (loom_map_verify(map, NULL) != LOOM_OK || loom_map_size(map, &size, NULL) != LOOM_OK)
        code = tool_failed("%s: %s", argv[0], loom_last_error());
    else
        printf("%s: whole, %" PRIu64 " keys, every one where it belongs\n", argv[0], size);
    loom_map_destroy(map);
    loom_context_destroy(context);
    return code;
}

const tool_command tool_info = {"info", "FILE", "what a saved table is: widths, keys, load, costs of lookups", "",
                                run_info};
const tool_command tool_check = {"check", "FILE", "load a saved table and check every invariant of its layout", "",
                                 run_check};
