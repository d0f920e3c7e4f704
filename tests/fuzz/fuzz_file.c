/* libFuzzer target for the file loaders: any bytes may come as a file. What loads must be a table or a filter in every
 * respect.
 *
 * Each input is tried three times: as it is, which the checksums mostly refuse, and as a file of either format whose
 * framing and checksums were made right, so that the loaders reach the contents of headers and partitions. A fault
 * aborts, and libFuzzer or the replay reports it.
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
#include "../../src/core/file_format_1.h"
#include "../harness/file_surgery.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

enum {
    MOST_INPUT = 1 << 16,
    MEMORY_LIMIT = 1 << 26, /* so that a header that speaks of a giant table is refused, not believed */
    BATCH = 64,
    MOST_VALUES = 4096, /* of a repaired multimap, and of one of its keys */
    MOST_HEAP = 1 << 14 /* bytes of strings */
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

/* Elements number i of an array whose elements have any width. Different numbers below 64 stay different in one
 * byte. */
static void put_number(unsigned char *array, uint64_t width, uint64_t i, uint64_t number)
{
    memset(array + i * width, 0x5a, width);
    memcpy(array + i * width, &number, width < sizeof number ? width : sizeof number);
}

static unsigned char *make_keys(uint64_t key_bytes)
{
    unsigned char *keys = malloc(BATCH * key_bytes);
    REQUIRE(keys);
    for (uint64_t i = 0; i < BATCH; i++)
        put_number(keys, key_bytes, i, i * UINT64_C(0x9e3779b97f4a7c15));
    return keys;
}

/* Keys or values as calls take and return them: elements of one width, or strings. */
typedef struct column {
    uint32_t width; /* 0: there is no column */
    unsigned char *array;
    loom_strings_out strings; /* width LOOM_VARIABLE */
    loom_strings given;
} column;

/* Room for n elements; strings get room for their bytes later. */
static column make_column(uint32_t width, uint64_t n)
{
    column c = {.width = width};
    if (width == LOOM_VARIABLE)
        c.strings.offsets = malloc((n + 1) * sizeof(uint64_t));
    else
        c.array = malloc(n * width + 1);
    REQUIRE(width == LOOM_VARIABLE ? c.strings.offsets != NULL : c.array != NULL);
    return c;
}

static void give_bytes(column *c, uint64_t bytes)
{
    c->strings.bytes = malloc(bytes + 1);
    REQUIRE(c->strings.bytes);
    c->strings.byte_room = bytes;
}

/* BATCH elements with different numbers. String i has 2 to 31 bytes. */
static column make_batch(uint32_t width, uint64_t factor)
{
    column c = make_column(width, BATCH);
    if (width != LOOM_VARIABLE) {
        for (uint64_t i = 0; i < BATCH && width > 0; i++)
            put_number(c.array, width, i, i * factor);
        return c;
    }
    give_bytes(&c, BATCH * 32);
    c.strings.offsets[0] = 0;
    for (uint64_t i = 0; i < BATCH; i++) {
        unsigned char *at = (unsigned char *)c.strings.bytes + c.strings.offsets[i];
        const uint64_t length = 2 + i * factor % 30;
        memset(at, 0x5a, length);
        at[0] = (unsigned char)i;
        c.strings.offsets[i + 1] = c.strings.offsets[i] + length;
    }
    return c;
}

static const void *given(column *c)
{
    c->given = (loom_strings){c->strings.offsets, c->strings.bytes};
    return c->width == LOOM_VARIABLE ? (const void *)&c->given : c->width == 0 ? NULL : c->array;
}

static void *taken(column *c)
{
    return c->width == LOOM_VARIABLE ? (void *)&c->strings : c->width == 0 ? NULL : c->array;
}

static void free_column(column *c)
{
    free(c->array);
    free(c->strings.offsets);
    free(c->strings.bytes);
}

/* Looks up `count` keys, all of which are present, and requires the given values. */
static void find_strings(loom_map *map, column *keys, uint64_t count, const column *values)
{
    loom_result result;
    uint64_t needed = 0;
    column found = make_column(LOOM_VARIABLE, count);
    REQUIRE(loom_map_find_strings(map, given(keys), count, found.strings.offsets, NULL, 0, &needed, NULL, &result,
                                  NULL) == LOOM_OK);
    REQUIRE(needed == values->strings.needed && found.strings.offsets[count] == needed);
    give_bytes(&found, needed);
    REQUIRE(loom_map_find_strings(map, given(keys), count, found.strings.offsets, found.strings.bytes, needed, NULL,
                                  NULL, &result, NULL) == LOOM_OK);
    REQUIRE(result.ok == count);
    REQUIRE(memcmp(found.strings.offsets, values->strings.offsets, (count + 1) * sizeof(uint64_t)) == 0);
    REQUIRE(memcmp(found.strings.bytes, values->strings.bytes, needed) == 0);
    free_column(&found);
}

static void find_values(loom_map *map, column *keys, uint64_t count, const column *values)
{
    loom_result result;
    unsigned char *found = malloc(count * values->width + 1);
    REQUIRE(found);
    REQUIRE(loom_map_find(map, given(keys), count, values->width == 0 ? NULL : found, NULL, NULL, &result, NULL) ==
            LOOM_OK);
    REQUIRE(result.ok == count);
    REQUIRE(memcmp(values->array, found, count * values->width) == 0);
    free(found);
}

/* Every pair that is retrieved is found, once. Sets have no arrays of values. */
static void read_table(loom_map *map, const loom_stats *stats)
{
    uint64_t count = 0, room = stats->size + 1;
    column keys = make_column(stats->key_bytes, room), values = make_column(stats->value_bytes, room);
    REQUIRE((stats->type == LOOM_TYPE_SET) == (stats->value_bytes == 0));
    if (stats->key_bytes == LOOM_VARIABLE || stats->value_bytes == LOOM_VARIABLE) { /* how many bytes there are */
        REQUIRE(loom_map_retrieve_all(map, taken(&keys), taken(&values), room, &count, NULL, NULL) == LOOM_OK);
        REQUIRE(keys.strings.needed + values.strings.needed == stats->string_bytes);
        give_bytes(&keys, keys.strings.needed);
        give_bytes(&values, values.strings.needed);
    }
    REQUIRE(loom_map_retrieve_all(map, taken(&keys), taken(&values), room, &count, NULL, NULL) == LOOM_OK);
    REQUIRE(count == stats->size);
    if (stats->value_bytes == LOOM_VARIABLE)
        find_strings(map, &keys, count, &values);
    else
        find_values(map, &keys, count, &values);
    free_column(&keys);
    free_column(&values);
}

/* The pairs of a key come one after the other. find_all returns the same values. */
static void read_lists(loom_map *map, const loom_stats *stats)
{
    const uint64_t size = stats->size, bytes = stats->key_bytes;
    uint64_t count = 0, distinct = 0, needed = 0;
    const uint64_t value_bytes = stats->value_bytes;
    unsigned char *keys = malloc((size + 1) * bytes), *values = malloc((size + 1) * value_bytes);
    unsigned char *found = malloc((size + 1) * value_bytes);
    uint64_t *offsets = malloc((size + 1) * sizeof *offsets);
    REQUIRE(keys && values && found && offsets);
    REQUIRE(loom_map_retrieve_all(map, keys, values, size + 1, &count, NULL, NULL) == LOOM_OK);
    REQUIRE(count == size);
    for (uint64_t i = 0; i < count; i++)
        if (i == 0 || memcmp(keys + (distinct - 1) * bytes, keys + i * bytes, bytes) != 0)
            memmove(keys + distinct++ * bytes, keys + i * bytes, bytes);
    REQUIRE(distinct == stats->distinct);
    REQUIRE(loom_map_find_all(map, keys, distinct, 0, offsets, found, size, &needed, NULL, NULL) == LOOM_OK);
    REQUIRE(needed == count);
    REQUIRE(memcmp(values, found, count * value_bytes) == 0);
    free(keys);
    free(values);
    free(found);
    free(offsets);
}

static void write_lists(loom_map *map, const loom_stats *stats)
{
    uint64_t size = 0;
    column keys = make_column(stats->key_bytes, BATCH), values = make_batch(stats->value_bytes, 1);
    uint8_t status[BATCH];
    loom_result inserted, erased;
    for (uint64_t i = 0; i < BATCH; i++)
        put_number(keys.array, keys.width, i, i % 20 * UINT64_C(0x9e3779b97f4a7c15));
    for (int again = 0; again < 2; again++) { /* first in memory that the table may have, then in more */
        loom_stats before = LOOM_STATS_INIT;
        REQUIRE(loom_map_set_growth(map, again ? 2 : 0) == LOOM_OK);
        REQUIRE(loom_map_stats(map, &before, NULL) == LOOM_OK);
        REQUIRE(loom_map_insert(map, keys.array, values.array, BATCH, LOOM_KEEP, status, &inserted, NULL) == LOOM_OK);
        REQUIRE(inserted.ok + inserted.full == BATCH);
        REQUIRE(loom_map_verify(map, NULL) == LOOM_OK);
        REQUIRE(loom_map_size(map, &size, NULL) == LOOM_OK);
        REQUIRE(size == before.size + inserted.ok);
    }
    REQUIRE(loom_map_erase_pairs(map, keys.array, values.array, BATCH / 2, status, &erased, NULL) == LOOM_OK);
    REQUIRE(loom_map_verify(map, NULL) == LOOM_OK);
    size -= erased.ok;
    const loom_number number = stats->value_bytes == 8 ? LOOM_NUMBER_I64 : LOOM_NUMBER_I32;
    const int has_number = stats->value_bytes == 4 || stats->value_bytes == 8;
    const loom_status done = loom_map_erase_if(map, number, &(int64_t){BATCH / 2}, NULL, &erased, NULL);
    REQUIRE(done == (has_number ? LOOM_OK : LOOM_UNSUPPORTED));
    REQUIRE(!has_number || (erased.keys == size && erased.ok + erased.exists == size));
    REQUIRE(loom_map_verify(map, NULL) == LOOM_OK);
    REQUIRE(loom_map_erase(map, keys.array, BATCH, status, &erased, NULL) == LOOM_OK);
    REQUIRE(loom_map_find(map, keys.array, BATCH, values.array, NULL, NULL, &erased, NULL) == LOOM_OK);
    REQUIRE(erased.ok == 0);
    REQUIRE(loom_map_shrink(map, NULL) == LOOM_OK);
    REQUIRE(loom_map_verify(map, NULL) == LOOM_OK);
    REQUIRE(loom_map_build(map, keys.array, values.array, BATCH, LOOM_KEEP, NULL, &inserted, NULL) == LOOM_OK);
    REQUIRE(loom_map_clear(map, NULL, NULL) == LOOM_OK);
    REQUIRE(loom_map_verify(map, NULL) == LOOM_OK);
    free_column(&keys);
    free_column(&values);
}

static void write_table(loom_map *map, const loom_stats *stats)
{
    uint64_t size = 0;
    const uint32_t value_bytes = stats->value_bytes;
    column keys = make_batch(stats->key_bytes, UINT64_C(0x9e3779b97f4a7c15)), values = make_batch(value_bytes, 1);
    uint8_t status[BATCH];
    loom_result inserted, erased;
    REQUIRE(loom_map_insert(map, given(&keys), given(&values), BATCH, LOOM_OVERWRITE, status, &inserted, NULL) ==
            LOOM_OK);
    REQUIRE(inserted.ok + inserted.exists + inserted.full + inserted.too_long == BATCH);
    REQUIRE(loom_map_verify(map, NULL) == LOOM_OK);
    REQUIRE(loom_map_size(map, &size, NULL) == LOOM_OK);
    REQUIRE(size == stats->size + inserted.ok);
    REQUIRE(loom_map_insert(map, given(&keys), given(&values), BATCH, LOOM_KEEP | LOOM_IN_ORDER, NULL, &erased, NULL) ==
            LOOM_OK);
    REQUIRE(erased.too_long == inserted.too_long);
    if (stats->key_bytes != LOOM_VARIABLE && value_bytes != LOOM_VARIABLE)
        REQUIRE(erased.ok == 0 && erased.full == inserted.full);
    REQUIRE(loom_map_size(map, &size, NULL) == LOOM_OK);
    const loom_number number = value_bytes == 8 ? LOOM_NUMBER_I64 : LOOM_NUMBER_I32;
    if (value_bytes == 4 || value_bytes == 8) { /* about half of the pairs, if the values are arbitrary */
        REQUIRE(loom_map_erase_if(map, number, &(int64_t){0}, NULL, &erased, NULL) == LOOM_OK);
        REQUIRE(erased.keys == size && erased.ok + erased.exists == size);
        REQUIRE(loom_map_verify(map, NULL) == LOOM_OK);
    } else
        REQUIRE(loom_map_erase_if(map, number, &(int64_t){0}, NULL, &erased, NULL) == LOOM_UNSUPPORTED);
    REQUIRE(loom_map_erase(map, given(&keys), BATCH, status, &erased, NULL) == LOOM_OK);
    REQUIRE(erased.ok <= BATCH - inserted.too_long);
    REQUIRE(loom_map_verify(map, NULL) == LOOM_OK);
    REQUIRE(loom_map_contains(map, given(&keys), BATCH, NULL, status, &erased, NULL) == LOOM_OK);
    REQUIRE(erased.ok == 0);
    const loom_status shrunk = loom_map_shrink(map, NULL);
    REQUIRE(shrunk == LOOM_OK || shrunk == LOOM_FULL); /* FULL: a file may hold keys that collide */
    REQUIRE(loom_map_verify(map, NULL) == LOOM_OK);
    REQUIRE(loom_map_build(map, given(&keys), given(&values), BATCH, LOOM_KEEP, NULL, &inserted, NULL) == LOOM_OK);
    REQUIRE(loom_map_verify(map, NULL) == LOOM_OK);
    REQUIRE(loom_map_clear(map, NULL, NULL) == LOOM_OK);
    REQUIRE(loom_map_verify(map, NULL) == LOOM_OK);
    free_column(&keys);
    free_column(&values);
}

static void use_table(loom_map *map)
{
    loom_stats stats = LOOM_STATS_INIT;
    loom_map_config config = LOOM_MAP_CONFIG_INIT;
    REQUIRE(loom_map_verify(map, NULL) == LOOM_OK);
    REQUIRE(loom_map_stats(map, &stats, NULL) == LOOM_OK);
    REQUIRE(stats.distinct <= stats.slots);
    REQUIRE(loom_map_get_config(map, &config) == LOOM_OK);
    if (stats.type == LOOM_TYPE_MULTIMAP) {
        read_lists(map, &stats);
        write_lists(map, &stats);
        return;
    }
    REQUIRE(stats.size == stats.distinct);
    read_table(map, &stats);
    write_table(map, &stats);
}

/* Any bits form a filter: inserted keys are found, whatever the bits were. */
static void use_filter(loom_filter *filter)
{
    loom_result result;
    loom_filter_report report = LOOM_FILTER_REPORT_INIT;
    loom_filter_config config = LOOM_FILTER_CONFIG_INIT;
    loom_filter *clone = NULL;
    REQUIRE(loom_filter_stats(filter, &report, NULL) == LOOM_OK);
    unsigned char *keys = make_keys(report.key_bytes);
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
        REQUIRE(loom_filter_insert(filter, keys, BATCH, flags, NULL, &result, NULL) == LOOM_OK);
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
    free(keys);
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

/* Open tables with five pairs to a line, written down a second time from docs/format.md. */
static int is_narrow(uint32_t engine, uint32_t type, uint32_t key_bytes, uint32_t value_bytes)
{
    const int open = engine == LOOM_ENGINE_OPEN || engine == LOOM_ENGINE_CHAIN;
    if (type == LOOM_TYPE_MULTIMAP) /* handles */
        return open && key_bytes == 4;
    return open && value_bytes != 0 && key_bytes + value_bytes == 12;
}

/* A partition's bytes, likewise. */
static uint64_t partition_bytes_of(uint32_t engine, uint32_t type, uint32_t key_bytes, uint32_t value_bytes,
                                   uint64_t buckets)
{
    if (type == LOOM_TYPE_MULTIMAP) /* handles */
        value_bytes = 8;
    if (value_bytes == 0 || engine == LOOM_ENGINE_BLOOM || engine == LOOM_ENGINE_ROWS ||
        is_narrow(engine, type, key_bytes, value_bytes) || (key_bytes != 4 && key_bytes != 8))
        return buckets * 64;
    if (key_bytes == 4)
        return buckets * (value_bytes == 4 ? 64 : 192);
    return value_bytes == 8 ? buckets * 128 : (buckets * 96 + 63) / 64 * 64;
}

/* The bytes of a row, likewise. A string has a reference there, and rows with references have a multiple of 8 bytes. */
static uint64_t row_bytes_of(uint64_t key_bytes, uint64_t value_bytes)
{
    if (key_bytes == LOOM_VARIABLE || value_bytes == LOOM_VARIABLE) {
        key_bytes = key_bytes == LOOM_VARIABLE ? 16 : key_bytes;
        value_bytes = value_bytes == LOOM_VARIABLE ? 16 : value_bytes;
        return (row_bytes_of(key_bytes, value_bytes) + 7) / 8 * 8;
    }
    const uint64_t a = value_bytes == 0       ? 1
                       : value_bytes % 8 == 0 ? 8
                       : value_bytes % 4 == 0 ? 4
                       : value_bytes % 2 == 0 ? 2
                                              : 1;
    return (key_bytes + a - 1) / a * a + (value_bytes + a - 1) / a * a;
}

/* The description of a table that both formats contain. */
typedef struct shape {
    uint32_t type, engine, key_bytes, value_bytes, partitions, buckets;
    uint64_t parameter; /* filters: bits of a key; perfect tables: words of codes; multimaps: values; strings: heap */
    double max_load;
} shape;

/* Maps, sets and counters of the rows engine. */
static int is_of_rows(const shape *is)
{
    return is->engine == LOOM_ENGINE_ROWS && is->type != LOOM_TYPE_FILTER && is->type != LOOM_TYPE_MULTIMAP;
}

/* Those of the tickets engine. */
static int is_of_tickets(const shape *is)
{
    return is->engine == LOOM_ENGINE_TICKETS && is->type != LOOM_TYPE_FILTER && is->type != LOOM_TYPE_MULTIMAP;
}

/* The tickets of a partition, from docs/format.md. */
static uint64_t board_bytes_of(uint64_t slots, uint64_t ticket_bits)
{
    const uint64_t per_word = 64 / (ticket_bits + 1);
    return (slots + per_word - 1) / per_word * 8;
}

/* Those of both, and multimaps with other keys than of 4 and 8 bytes. */
static int has_rows(const shape *is)
{
    return is_of_rows(is) || is_of_tickets(is) ||
           (is->type == LOOM_TYPE_MULTIMAP && is->key_bytes != 4 && is->key_bytes != 8);
}

static int has_strings(const shape *is)
{
    return is_of_rows(is) && (is->key_bytes == LOOM_VARIABLE || is->value_bytes == LOOM_VARIABLE);
}

/* A width from 1 to `most`, or strings. */
static uint32_t repair_width(uint32_t width, uint32_t most, int strings)
{
    return (width >= 1 && width <= most) || (strings && width == LOOM_VARIABLE) ? width : 1 + width % 32;
}

static void repair_widths(shape *is)
{
    const uint32_t key_bytes = is->key_bytes, value_bytes = is->value_bytes;
    const int strings = is_of_rows(is), rows = strings || is_of_tickets(is), lists = is->type == LOOM_TYPE_MULTIMAP;
    is->key_bytes = key_bytes & 8 ? 8 : 4;
    is->value_bytes = value_bytes & 8 ? 8 : 4;
    if (rows || lists || (is->type == LOOM_TYPE_FILTER && key_bytes != LOOM_VARIABLE))
        is->key_bytes = repair_width(key_bytes, 256, strings);
    if ((rows && is->type == LOOM_TYPE_MAP) || lists)
        is->value_bytes = repair_width(value_bytes, 512, strings);
    if (is->type == LOOM_TYPE_SET || is->type == LOOM_TYPE_FILTER)
        is->value_bytes = 0;
}

/* Bytes of a row: the key, and the value or the handle of a list. */
static uint64_t row_bytes_in(const shape *is)
{
    return row_bytes_of(is->key_bytes, is->type == LOOM_TYPE_MULTIMAP ? 8 : is->value_bytes);
}

/* The shape nearest to the given one that a table can have, and that is small enough for an input. */
static void repair_shape(shape *is)
{
    static const uint32_t primes[] = {2, 3, 5, 7, 11, 13, 17, 19};
    repair_widths(is);
    if (is->type == LOOM_TYPE_FILTER) { /* of one partition; the next would be longer than inputs are */
        is->partitions = 1;
        is->buckets = 1 + is->buckets % 64;
        is->max_load = 0;
        is->parameter = 4 + 4 * (is->parameter / 4 % 4);
        return;
    }
    if (is->partitions < 2 || is->partitions > 6) /* sound files stay as they are */
        is->partitions = 2 + is->partitions % 5;
    if (is->engine == LOOM_ENGINE_PERFECT && is->type != LOOM_TYPE_MULTIMAP) {
        is->buckets = 9 + is->buckets / 8 % 3 * 8;
        is->parameter = 1 + is->parameter % 8;
        return;
    }
    if (is_of_tickets(is)) {
        is->buckets = is->buckets == 17 ? 17 : 19; /* slots */
        is->partitions = row_bytes_in(is) > 48 ? 2 : is->partitions;
        is->parameter = (uint64_t)1 << (is->parameter == 8 ? 3 : is->parameter / 2 % 4); /* 1, 2, 4 and 8 stay */
        return;
    }
    if (is->buckets > 19 || is->buckets < 2)
        is->buckets = primes[is->buckets % 8];
    if (has_rows(is) && row_bytes_in(is) > 48)
        is->partitions = is->buckets = 2;
    is->parameter = is->type == LOOM_TYPE_MULTIMAP ? is->parameter % (MOST_VALUES / (1 + is->value_bytes / 8))
                    : has_strings(is)              ? is->parameter % MOST_HEAP / 8 * 8
                                                   : 0;
}

/* The parameters of a multimap beyond the first. */
static void repair_lists(loom__file_table *table)
{
    table->parameters[1] %= MOST_VALUES;
    if (table->engine != LOOM_ENGINE_CHAIN) {
        table->parameters[2] = table->parameters[3] = 0;
        return;
    }
    if (table->parameters[2] < 1 || table->parameters[2] > 32768)
        table->parameters[2] = 1 + table->parameters[2] % 32768;
    table->parameters[3] %= 7 * 4096 + 1;
}

/* The longest key and the longest value of a table with strings. */
static void repair_strings(loom__file_table *table)
{
    static const uint64_t longest = (uint64_t)1 << 30;
    const uint64_t key = table->parameters[1], value = table->parameters[2];
    memset(table->parameters, 0, sizeof table->parameters);
    if (table->key_bytes == LOOM_VARIABLE)
        table->parameters[1] = key >= 1 && key <= longest ? key : 1 + key % longest;
    if (table->value_bytes == LOOM_VARIABLE)
        table->parameters[2] = value >= 1 && value <= longest ? value : 1 + value % longest;
}

/* Both return the length of the repaired file, or 0 if nothing sensible can be made of it. */
static size_t repair_1(unsigned char *file, size_t bytes)
{
    loom__file_header_1 header;
    if (bytes < sizeof header)
        return 0;
    memcpy(&header, file, sizeof header);
    shape is = {header.type,       header.engine,  header.key_bytes, header.value_bytes,
                header.partitions, header.buckets, header.parameter, header.max_load};
    repair_shape(&is);
    memcpy(header.magic, FILE_MAGIC, sizeof header.magic);
    header.byte_order = FILE_BYTE_ORDER;
    header.version = 1;
    header.header_bytes = sizeof header;
    header.key_bytes = is.key_bytes;
    header.value_bytes = is.value_bytes;
    header.partitions = is.partitions;
    header.buckets = is.buckets;
    header.partition_bytes = partition_bytes_of(is.engine, is.type, is.key_bytes, is.value_bytes, is.buckets);
    header.max_load = is.max_load;
    header.parameter = is.parameter;
    header.code_pieces = 0;
    header.reserved = 0;
    if (is.engine == LOOM_ENGINE_PERFECT && is.type != LOOM_TYPE_FILTER)
        header.code_pieces = (is.partitions * is.parameter * 8 + header.partition_bytes - 1) / header.partition_bytes;
    const uint64_t pieces = loom__file_1_pieces(&header), pieces_at = loom__file_1_pieces_at(pieces);
    const uint64_t length = pieces_at + pieces * header.partition_bytes;
    if (length > MOST_INPUT)
        return 0;
    if (length > bytes)
        memset(file + bytes, 0, length - bytes);
    memset(file + sizeof header, 0, pieces_at - sizeof header);
    for (uint64_t i = 0; i < pieces; i++) {
        uint64_t sum = loom__checksum(file + pieces_at + i * header.partition_bytes, header.partition_bytes, i);
        memcpy(file + sizeof header + i * sizeof sum, &sum, sizeof sum);
    }
    header.checksums_checksum = loom__checksum(file + sizeof header, pieces * sizeof(uint64_t), 0);
    header.header_checksum = loom__checksum(&header, offsetof(loom__file_header_1, header_checksum), 0);
    memcpy(file, &header, sizeof header);
    return length;
}

static void add_section(surgery_head *head, uint32_t id, uint64_t bytes, uint64_t unit)
{
    head->sections[head->file.sections++] = (loom__file_section){.id = id, .bytes = bytes, .unit = unit};
}

/* Bytes of a key or a value in its row: of a string, a reference. */
static uint64_t width_in_row(uint32_t bytes)
{
    return bytes == LOOM_VARIABLE ? 16 : bytes;
}

static size_t repair_2(unsigned char *file, size_t bytes)
{
    if (bytes < SURGERY_HEAD_BYTES)
        return 0;
    surgery_head head = {0};
    memcpy(&head, file, bytes < sizeof head ? bytes : sizeof head);
    shape is = {head.table.type,       head.table.engine,  head.table.key_bytes,     head.table.value_bytes,
                head.table.partitions, head.table.buckets, head.table.parameters[0], head.table.max_load};
    if (is.type == LOOM_TYPE_MULTIMAP && is.engine != LOOM_ENGINE_CHAIN)
        is.engine = head.table.engine = LOOM_ENGINE_OPEN;
    repair_shape(&is);
    const int lists = is.type == LOOM_TYPE_MULTIMAP;
    const int perfect = is.engine == LOOM_ENGINE_PERFECT && is.type != LOOM_TYPE_FILTER && !lists;
    const int strings = has_strings(&is);
    const int apart = is_of_rows(&is) && is.value_bytes > 0 && head.table.parameters[3] % 2 == 1;
    const uint64_t place = is_of_rows(&is) ? head.table.parameters[4] % 2 : 0;
    const int tickets = is_of_tickets(&is);
    const uint64_t partition_bytes =
        tickets ? board_bytes_of(is.buckets, is.parameter)
                : partition_bytes_of(is.engine, is.type, is.key_bytes, is.value_bytes, is.buckets);
    const uint64_t ticket_place = head.table.parameters[1] % 2;
    head.file = (loom__file_header){.byte_order = FILE_BYTE_ORDER, .version = FILE_VERSION, .tables = 1};
    memcpy(head.file.magic, FILE_MAGIC, sizeof head.file.magic);
    head.table.layout_version = is_narrow(is.engine, is.type, is.key_bytes, is.value_bytes) ? 2 : 1;
    head.table.key_bytes = is.key_bytes;
    head.table.value_bytes = is.value_bytes;
    head.table.partitions = is.partitions;
    head.table.buckets = is.buckets;
    head.table.max_load = is.max_load;
    if (lists)
        repair_lists(&head.table);
    else if (strings)
        repair_strings(&head.table);
    else
        memset(head.table.parameters, 0, sizeof head.table.parameters);
    memset(head.table.parameters + 4, 0, 2 * sizeof head.table.parameters[0]);
    head.table.parameters[0] = is.parameter;
    if (is_of_rows(&is)) {
        head.table.parameters[3] = (uint64_t)apart;
        head.table.parameters[4] = place;
    }
    if (tickets)
        head.table.parameters[1] = ticket_place;
    head.table.reserved_4 = 0;
    memset(head.table.reserved_8, 0, sizeof head.table.reserved_8);
    memset(head.sections, 0, sizeof head.sections);
    add_section(&head, 1, is.partitions * partition_bytes, partition_bytes);
    if (perfect)
        add_section(&head, 2, is.partitions * is.parameter * 8, is.parameter * 8);
    const uint64_t unit = is.buckets * (tickets ? 1 : 28) * (apart ? width_in_row(is.key_bytes) : row_bytes_in(&is));
    const uint64_t value_unit = is.buckets * 28 * width_in_row(is.value_bytes);
    if (has_rows(&is))
        add_section(&head, 4, is.partitions * unit, unit);
    if (apart)
        add_section(&head, 6, is.partitions * value_unit, value_unit);
    const uint64_t heap = is.parameter * is.value_bytes;
    if (strings)
        add_section(&head, 5, is.parameter > 64 ? is.parameter : 64, 1 << 16);
    if (lists)
        add_section(&head, 3, heap > 0 ? heap : 64, 1 << 16);
    head.file.header_bytes = loom__file_header_bytes(1, head.file.sections);
    const uint64_t length = surgery_place(&head);
    if (length > MOST_INPUT)
        return 0;
    if (length > bytes)
        memset(file + bytes, 0, length - bytes);
    memcpy(file, &head, head.file.header_bytes);
    surgery_sign(file, length);
    return length;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    static unsigned char copy[MOST_INPUT];
    if (bytes > MOST_INPUT)
        return 0;
    load_bytes(data, bytes);
    for (int format = 1; format <= FILE_VERSION; format++) {
        memcpy(copy, data, bytes);
        const size_t length = format == 1 ? repair_1(copy, bytes) : repair_2(copy, bytes);
        if (length > 0)
            load_bytes(copy, length);
    }
    return 0;
}
