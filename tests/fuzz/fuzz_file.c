/* libFuzzer target for the file loaders: any bytes may come as a file. What loads must be a table or a filter in every respect.
 *
 * Each input is tried twice: as it is, which the checksums mostly refuse, and with its framing and checksums made right,
 * so that the contents of headers and partitions are reached. A fault aborts, which libFuzzer and the replay report.
 *
 *   with clang        -fsanitize=fuzzer, as loom_fuzz_file
 *   with any compiler replay.c runs it over the stored corpus
 */
#define _GNU_SOURCE 1
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "loom/loom.h"

#include "../../src/core/checksum.h"
#include "../../src/core/file_layout.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

enum {
    MOST_INPUT = 1 << 16,
    MEMORY_LIMIT = 1 << 26, /* so that a header that speaks of a giant table is refused, not believed */
    BATCH = 64
};

#define REQUIRE(condition)                                                                                       \
    do {                                                                                                         \
        if (!(condition)) {                                                                                      \
            fprintf(stderr, "%s:%d: %s does not hold; %s\n", __FILE__, __LINE__, #condition, loom_last_error()); \
            abort();                                                                                             \
        }                                                                                                        \
    } while (0)

/* ---- Memory, counted and limited ---- */

static uint64_t bytes_out;

static void *allocate(void *user, size_t bytes, size_t alignment, loom_memory_kind kind, loom_stream stream)
{
    void *memory = NULL;
    (void)user, (void)kind, (void)stream;
    if (bytes > MEMORY_LIMIT || bytes_out + bytes > MEMORY_LIMIT)
        return NULL;
    if (posix_memalign(&memory, alignment < sizeof(void *) ? sizeof(void *) : alignment, bytes) != 0)
        return NULL;
    bytes_out += bytes;
    return memory;
}

static void release(void *user, void *memory, size_t bytes, loom_memory_kind kind, loom_stream stream)
{
    (void)user, (void)kind, (void)stream;
    bytes_out -= bytes;
    free(memory);
}

static loom_context *the_context(void)
{
    static loom_context *context;
    if (!context) {
        loom_context_config config = LOOM_CONTEXT_CONFIG_INIT;
        config.machine = LOOM_MACHINE_CPU;
        config.threads = 1;
        config.fixed_seed = 1;
        config.allocator.allocate = allocate;
        config.allocator.release = release;
        REQUIRE(loom_context_create(&config, &context) == LOOM_OK);
    }
    return context;
}

/* ---- What loaded ---- */

/* Every pair that is retrieved is found, once. Sets have no arrays of values. */
static void read_table(loom_map *map, const loom_stats *stats)
{
    uint64_t count = 0;
    loom_result result;
    int set = stats->type == LOOM_TYPE_SET;
    unsigned char *keys = malloc(stats->size * 8 + 8), *values = malloc(stats->size * 8 + 8),
                  *found = malloc(stats->size * 8 + 8);
    REQUIRE(keys && values && found);
    REQUIRE(set == (stats->value_bytes == 0));
    REQUIRE(loom_map_retrieve_all(map, keys, set ? NULL : values, stats->size + 1, &count, NULL, NULL) == LOOM_OK);
    REQUIRE(count == stats->size);
    REQUIRE(loom_map_find(map, keys, count, set ? NULL : found, NULL, &result, NULL) == LOOM_OK);
    REQUIRE(result.ok == count);
    REQUIRE(memcmp(values, found, count * stats->value_bytes) == 0);
    free(keys);
    free(values);
    free(found);
}

static void write_table(loom_map *map, const loom_stats *stats)
{
    uint64_t keys[BATCH], given[BATCH], size = 0;
    uint64_t *values = stats->type == LOOM_TYPE_SET ? NULL : given;
    uint8_t status[BATCH];
    loom_result inserted, erased;
    for (uint64_t i = 0; i < BATCH; i++) {
        keys[i] = i * UINT64_C(0x9e3779b97f4a7c15);
        given[i] = i;
    }
    REQUIRE(loom_map_insert(map, keys, values, BATCH, LOOM_OVERWRITE, status, &inserted, NULL) == LOOM_OK);
    REQUIRE(inserted.ok + inserted.exists + inserted.full == BATCH);
    REQUIRE(loom_map_verify(map, NULL) == LOOM_OK);
    REQUIRE(loom_map_size(map, &size, NULL) == LOOM_OK);
    REQUIRE(size == stats->size + inserted.ok);
    REQUIRE(loom_map_insert(map, keys, values, BATCH, LOOM_KEEP | LOOM_IN_ORDER, NULL, &erased, NULL) == LOOM_OK);
    REQUIRE(erased.ok == 0 && erased.full == inserted.full);
    REQUIRE(loom_map_erase(map, keys, BATCH, status, &erased, NULL) == LOOM_OK);
    REQUIRE(erased.ok <= inserted.ok + inserted.exists);
    REQUIRE(loom_map_verify(map, NULL) == LOOM_OK);
    REQUIRE(loom_map_find(map, keys, BATCH, values, NULL, &erased, NULL) == LOOM_OK);
    REQUIRE(erased.ok == 0);
    REQUIRE(loom_map_build(map, keys, values, BATCH, LOOM_KEEP, NULL, &inserted, NULL) == LOOM_OK);
    REQUIRE(loom_map_clear(map, NULL, NULL) == LOOM_OK);
    REQUIRE(loom_map_verify(map, NULL) == LOOM_OK);
}

static void use_table(loom_map *map)
{
    loom_stats stats = LOOM_STATS_INIT;
    loom_map_config config = LOOM_MAP_CONFIG_INIT;
    REQUIRE(loom_map_verify(map, NULL) == LOOM_OK);
    REQUIRE(loom_map_stats(map, &stats, NULL) == LOOM_OK);
    REQUIRE(stats.size <= stats.slots);
    REQUIRE(loom_map_get_config(map, &config) == LOOM_OK);
    read_table(map, &stats);
    write_table(map, &stats);
}

/* Any bits are a filter's: what is inserted is found, whatever they were. */
static void use_filter(loom_filter *filter)
{
    uint64_t keys[BATCH];
    loom_result result;
    loom_filter_report report = LOOM_FILTER_REPORT_INIT;
    loom_filter_config config = LOOM_FILTER_CONFIG_INIT;
    loom_filter *clone = NULL;
    for (uint64_t i = 0; i < BATCH; i++)
        keys[i] = i * UINT64_C(0x9e3779b97f4a7c15);
    REQUIRE(loom_filter_stats(filter, &report, NULL) == LOOM_OK);
    REQUIRE(report.bits_set <= report.blocks * 512);
    REQUIRE(report.false_positive_rate >= 0 && report.false_positive_rate <= 1.000001);
    REQUIRE(report.designed_rate >= 0 && report.designed_rate <= 1);
    REQUIRE(report.estimated_keys >= 0);
    REQUIRE(loom_filter_get_config(filter, &config) == LOOM_OK);
    REQUIRE(config.bytes == report.blocks * 64);
    REQUIRE(loom_filter_contains(filter, keys, BATCH, NULL, &result, NULL) == LOOM_OK);
    REQUIRE(result.ok + result.not_found == BATCH);
    REQUIRE(loom_filter_clone(filter, &clone, NULL) == LOOM_OK);
    for (uint32_t flags = 0; flags <= LOOM_BY_PARTITION; flags += LOOM_BY_PARTITION) {
        REQUIRE(loom_filter_insert(filter, keys, BATCH, flags, &result, NULL) == LOOM_OK);
        REQUIRE(result.status == LOOM_OK || result.status == LOOM_OVERFILLED);
        REQUIRE(loom_filter_contains(filter, keys, BATCH, NULL, &result, NULL) == LOOM_OK);
        REQUIRE(result.ok == BATCH);
    }
    loom_status merged = loom_filter_merge(clone, filter, NULL);
    REQUIRE(merged == LOOM_OK || merged == LOOM_OVERFILLED);
    REQUIRE(loom_filter_contains(clone, keys, BATCH, NULL, &result, NULL) == LOOM_OK);
    REQUIRE(result.ok == BATCH);
    loom_filter_destroy(clone);
    REQUIRE(loom_filter_clear(filter, NULL, NULL) == LOOM_OK);
    REQUIRE(loom_filter_contains(filter, keys, BATCH, NULL, &result, NULL) == LOOM_OK);
    REQUIRE(result.ok == 0);
}

static void require_refusal(loom_status status)
{
    REQUIRE(status == LOOM_BAD_FILE || status == LOOM_FOREIGN_VERSION || status == LOOM_UNSUPPORTED ||
            status == LOOM_OUT_OF_MEMORY);
    REQUIRE(loom_last_error()[0] != 0);
}

static void load_bytes(const uint8_t *data, size_t bytes)
{
    char path[64];
    loom_context *context = the_context();
    uint64_t before = bytes_out;
    loom_map *map = NULL;
    loom_filter *filter = NULL;
    int file = memfd_create("fuzz", 0);
    REQUIRE(file >= 0);
    for (size_t at = 0; at < bytes;) {
        ssize_t wrote = pwrite(file, data + at, bytes - at, (off_t)at);
        REQUIRE(wrote > 0);
        at += (size_t)wrote;
    }
    snprintf(path, sizeof path, "/proc/self/fd/%d", file);
    loom_status status = loom_map_load(context, path, &map, NULL);
    if (status == LOOM_OK) {
        use_table(map);
        loom_map_destroy(map);
    } else {
        REQUIRE(map == NULL);
        require_refusal(status);
    }
    loom_status as_filter = loom_filter_load(context, path, &filter, NULL);
    close(file);
    REQUIRE(status != LOOM_OK || as_filter == LOOM_UNSUPPORTED); /* no file is both */
    if (as_filter == LOOM_OK) {
        use_filter(filter);
        loom_filter_destroy(filter);
    } else {
        REQUIRE(filter == NULL);
        require_refusal(as_filter);
    }
    REQUIRE(bytes_out == before);
}

/* ---- Framing and checksums made right ---- */

/* The partition's bytes, written down a second time from docs/format.md. */
static uint64_t partition_bytes_of(uint32_t key_bytes, uint32_t value_bytes, uint64_t buckets)
{
    if (value_bytes == 0)
        return buckets * 64;
    if (key_bytes == 4)
        return buckets * (value_bytes == 4 ? 64 : 192);
    return value_bytes == 8 ? buckets * 128 : (buckets * 96 + 63) / 64 * 64;
}

/* A filter of one partition; the next would be longer than inputs are. */
static void repair_filter(loom__file_header *header)
{
    header->value_bytes = 0;
    header->partitions = 1;
    header->buckets = 1 + header->buckets % 64;
    header->partition_bytes = header->buckets * UINT64_C(64);
    header->max_load = 0;
    header->reserved[0] = 4 + 4 * (header->reserved[0] / 4 % 4);
    header->reserved[1] = header->reserved[2] = 0;
}

static void repair_map(loom__file_header *header)
{
    static const uint32_t primes[] = {2, 3, 5, 7, 11, 13, 17, 19};
    header->value_bytes = header->type == LOOM_TYPE_SET ? 0 : header->value_bytes & 8 ? 8 : 4;
    header->partitions = 2 + header->partitions % 5;
    if (header->buckets > 19 || header->buckets < 2)
        header->buckets = primes[header->buckets % 8];
    header->partition_bytes = partition_bytes_of(header->key_bytes, header->value_bytes, header->buckets);
    memset(header->reserved, 0, sizeof header->reserved);
}

/* Returns the length of the repaired file, or 0 if nothing sensible can be made of it. */
static size_t repair(unsigned char *file, size_t bytes)
{
    loom__file_header header;
    if (bytes < sizeof header)
        return 0;
    memcpy(&header, file, sizeof header);
    memcpy(header.magic, FILE_MAGIC, sizeof header.magic);
    header.byte_order = FILE_BYTE_ORDER;
    header.version = FILE_VERSION;
    header.header_bytes = sizeof header;
    header.key_bytes = header.key_bytes & 8 ? 8 : 4;
    if (header.type == LOOM_TYPE_FILTER)
        repair_filter(&header);
    else
        repair_map(&header);
    uint64_t partitions_at = loom__file_partitions_at(header.partitions);
    uint64_t length = partitions_at + header.partitions * header.partition_bytes;
    if (length > MOST_INPUT)
        return 0;
    if (length > bytes)
        memset(file + bytes, 0, length - bytes);
    memset(file + sizeof header, 0, partitions_at - sizeof header);
    for (uint64_t i = 0; i < header.partitions; i++) {
        uint64_t sum = loom__checksum(file + partitions_at + i * header.partition_bytes, header.partition_bytes, i);
        memcpy(file + sizeof header + i * sizeof sum, &sum, sizeof sum);
    }
    header.checksums_checksum = loom__checksum(file + sizeof header, header.partitions * sizeof(uint64_t), 0);
    memcpy(file, &header, sizeof header);
    header.header_checksum = loom__checksum(file, offsetof(loom__file_header, header_checksum), 0);
    memcpy(file, &header, sizeof header);
    return length;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    static unsigned char copy[MOST_INPUT];
    if (bytes > MOST_INPUT)
        return 0;
    load_bytes(data, bytes);
    memcpy(copy, data, bytes);
    size_t length = repair(copy, bytes);
    if (length)
        load_bytes(copy, length);
    return 0;
}
