/* `loom info FILE` and `loom check FILE`: what a saved table or filter is, or a durable map in a directory, and whether
 * it is intact. */
#include "bench_parse.h"
#include "tool.h"

#include <inttypes.h>
#include <loom/loom.h>
#include <stdio.h>
#include <sys/stat.h>

/* What a file held: `map` is a map, a set or a counter, `filter` a filter; the other is NULL. */
typedef struct contents {
    loom_context *context;
    loom_map *map;
    loom_filter *filter;
} contents;

static void destroy(contents *held)
{
    loom_map_destroy(held->map);
    loom_filter_destroy(held->filter);
    loom_context_destroy(held->context);
}

/* The library returns UNSUPPORTED for files that another call loads, and for files of a later version. If neither call
 * accepts the file, both sentences are shown; one of them says why. */
static int load_either(const char *path, contents *held)
{
    char as_map[512];
    loom_status status = loom_map_load(held->context, path, &held->map, NULL);
    if (status == LOOM_OK)
        return TOOL_OK;
    snprintf(as_map, sizeof as_map, "%s", loom_last_error());
    if (status != LOOM_UNSUPPORTED)
        return tool_failed("%s", as_map);
    status = loom_filter_load(held->context, path, &held->filter, NULL);
    if (status == LOOM_UNSUPPORTED)
        return tool_failed("%s; as a filter: %s", as_map, loom_last_error());
    return status == LOOM_OK ? TOOL_OK : tool_failed("%s", loom_last_error());
}

/* Loads the one file that the arguments name and returns the exit code. On TOOL_OK the caller destroys the contents. */
static int load_file(const char *command, int argc, char **argv, contents *held)
{
    *held = (contents){NULL, NULL, NULL};
    if (argc != 1 || argv[0][0] == '-')
        return tool_wrong_use("%s takes the name of one file.", command);
    if (loom_context_create(NULL, &held->context) != LOOM_OK)
        return tool_failed("%s", loom_last_error());
    const int code = load_either(argv[0], held);
    if (code != TOOL_OK)
        destroy(held);
    return code;
}

/* A width, or the longest string that the table takes. */
static void print_width(const char *name, uint32_t width, uint64_t longest)
{
    if (width == LOOM_VARIABLE)
        printf("  %-22s byte strings of up to %" PRIu64 "\n", name, longest);
    else
        printf("  %-22s %u\n", name, (unsigned)width);
}

static void print_strings(const loom_stats *stats)
{
    const uint64_t pieces = stats->string_room - stats->string_free - stats->string_unused;
    printf("  bytes of strings       %" PRIu64 ", which take %" PRIu64 "\n", stats->string_bytes, pieces);
    printf("  room for strings       %" PRIu64 " bytes, %" PRIu64 " free, %" PRIu64 " unused\n", stats->string_room,
           stats->string_free, stats->string_unused);
}

static int print_stats(const char *path, loom_map *map)
{
    loom_stats stats = LOOM_STATS_INIT;
    loom_map_config config = LOOM_MAP_CONFIG_INIT;
    if (loom_map_stats(map, &stats, NULL) != LOOM_OK || loom_map_get_config(map, &config) != LOOM_OK)
        return tool_failed("%s", loom_last_error());
    const char *type = stats.type == LOOM_TYPE_SET        ? "set"
                       : stats.type == LOOM_TYPE_COUNTER  ? "counter"
                       : stats.type == LOOM_TYPE_MULTIMAP ? "multimap"
                                                          : "map";
    printf("%s: a %s, engine %s\n", path, type, bench_engine_name(stats.engine, LOOM_ROWS_ON_DEVICE));
    print_width("key bytes", stats.key_bytes, config.most_key_bytes);
    print_width("value bytes", stats.value_bytes, config.most_value_bytes);
    if (config.layout != LOOM_LAYOUT_DEFAULT && stats.value_bytes != 0)
        printf("  keys and values        %s\n", config.layout == LOOM_LAYOUT_APART ? "apart" : "together");
    if (config.row_place == LOOM_ROWS_IN_HOST_MEMORY)
        printf("  rows                   in host memory\n");
    printf("  keys                   %" PRIu64 "\n", stats.distinct);
    if (stats.key_bytes == LOOM_VARIABLE || stats.value_bytes == LOOM_VARIABLE)
        print_strings(&stats);
    if (stats.type == LOOM_TYPE_MULTIMAP) {
        printf("  pairs                  %" PRIu64 "\n", stats.size);
        printf("  most values of a key   %" PRIu64 "\n", stats.longest_list);
        printf("  room for values        %" PRIu64 ", %" PRIu64 " free, %" PRIu64 " unused\n", stats.values_room,
               stats.values_free, stats.values_unused);
    }
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
    if (stats.host_bytes > 0)
        printf("  bytes of host memory   %" PRIu64 "\n", stats.host_bytes);
    printf("  density                %.4f\n", stats.density);
    printf("  seed                   0x%016" PRIx64 "\n", stats.seed);
    return TOOL_OK;
}

static int print_report(const char *path, loom_filter *filter)
{
    loom_filter_report report = LOOM_FILTER_REPORT_INIT;
    if (loom_filter_stats(filter, &report, NULL) != LOOM_OK)
        return tool_failed("%s", loom_last_error());
    printf("%s: a filter, engine bloom\n", path); /* filters have no other engine */
    printf("  key bytes              %u\n", (unsigned)report.key_bytes);
    printf("  bits a key sets        %u\n", (unsigned)report.probes);
    if (report.capacity != 0)
        printf("  capacity               %" PRIu64 "\n", report.capacity);
    else
        printf("  capacity               unknown\n");
    printf("  different keys, about  %.0f\n", report.estimated_keys);
    printf("  blocks                 %" PRIu64 " of 64 bytes\n", report.blocks);
    printf("  bits set               %" PRIu64 "\n", report.bits_set);
    printf("  fill                   %.4f\n", report.fill);
    printf("  false positives        %.3g\n", report.false_positive_rate);
    if (report.capacity != 0)
        printf("  with capacity keys     %.3g\n", report.designed_rate);
    printf("  memory bytes           %" PRIu64 "\n", report.memory_bytes);
    printf("  seed                   0x%016" PRIx64 "\n", report.seed);
    return TOOL_OK;
}

/* ---- durable maps ---- */

static int names_directory(int argc, char **argv)
{
    struct stat found;
    return argc == 1 && stat(argv[0], &found) == 0 && S_ISDIR(found.st_mode);
}

static void print_durable(const char *path, const loom_durable_report *report)
{
    printf("%s: a durable %s\n", path,
           report->type == LOOM_TYPE_SET       ? "set"
           : report->type == LOOM_TYPE_COUNTER ? "counter"
                                               : "map");
    printf("  key bytes              %u\n", (unsigned)report->key_bytes);
    printf("  value bytes            %u\n", (unsigned)report->value_bytes);
    printf("  newest commit          %" PRIu64 "\n", report->epoch);
    printf("  snapshot of commit     %" PRIu64 ", %" PRIu64 " pairs, %" PRIu64 " bytes\n", report->snapshot,
           report->snapshot_pairs, report->snapshot_bytes);
    printf("  journal                %" PRIu64 " bytes, %" PRIu64 " used by %" PRIu64 " records\n",
           report->journal_bytes, report->journal_used, report->records);
    if (report->torn_bytes > 0)
        printf("  torn record            %" PRIu64 " bytes, which recovery drops\n", report->torn_bytes);
}

/* Describes the map only if it is sound. */
static int check_durable(const char *path, int describes)
{
    loom_durable_report report = LOOM_DURABLE_REPORT_INIT;
    if (loom_durable_check(path, &report) != LOOM_OK)
        return tool_failed("%s", loom_last_error());
    if (describes)
        print_durable(path, &report);
    else
        printf("%s: whole, a durable map after commit %" PRIu64 "\n", path, report.epoch);
    return TOOL_OK;
}

/* ---- commands ---- */

static int run_info(int argc, char **argv)
{
    contents held;
    if (names_directory(argc, argv))
        return check_durable(argv[0], 1);
    int code = load_file("info", argc, argv, &held);
    if (code != TOOL_OK)
        return code;
    code = held.map != NULL ? print_stats(argv[0], held.map) : print_report(argv[0], held.filter);
    destroy(&held);
    return code;
}

static int check_map(const char *path, loom_map *map)
{
    uint64_t size = 0;
    if (loom_map_verify(map, NULL) != LOOM_OK || loom_map_distinct(map, &size, NULL) != LOOM_OK)
        return tool_failed("%s: %s", path, loom_last_error());
    printf("%s: whole, %" PRIu64 " keys, every one where it belongs\n", path, size);
    return TOOL_OK;
}

/* Loading has compared the checksums, and any bits make a filter: nothing is left to check. */
static int check_filter(const char *path, loom_filter *filter)
{
    loom_filter_report report = LOOM_FILTER_REPORT_INIT;
    if (loom_filter_stats(filter, &report, NULL) != LOOM_OK)
        return tool_failed("%s: %s", path, loom_last_error());
    printf("%s: whole, a filter of about %.0f keys\n", path, report.estimated_keys);
    return TOOL_OK;
}

static int run_check(int argc, char **argv)
{
    contents held;
    if (names_directory(argc, argv))
        return check_durable(argv[0], 0);
    int code = load_file("check", argc, argv, &held);
    if (code != TOOL_OK)
        return code;
    code = held.map != NULL ? check_map(argv[0], held.map) : check_filter(argv[0], held.filter);
    destroy(&held);
    return code;
}

const tool_command tool_info = {
    "info", "FILE",   "what a saved table, filter or durable map is: widths, keys, load, costs of lookups",
    "",     run_info, NULL};
const tool_command tool_check = {
    "check", "FILE",    "read a saved table, filter or durable map and check all that can be checked",
    "",      run_check, NULL};
