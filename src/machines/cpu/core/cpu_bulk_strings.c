/* A string is hashed once. Its length is random, and with it the branches of the hash and of every copy: a processor
 * foresees them badly. So records carry their hash.
 *
 * The strings of a partition lie anywhere in the caller's array. Fetching them in the order of the partitions misses
 * the caches and, with pages of 4 KiB, the TLB at nearly every string: half of a build's time, even with prefetches. So
 * the split also copies the strings, which it reads in order, and the copies of a partition lie together. This costs a
 * second copy of each string, and is left out if there is no memory for it.
 *
 * Builds of 2^20 keys of 16 to 64 bytes on a Neoverse V1, in M keys/s:
 *                                        one thread   two
 *   three hashes, strings left in place       8.4    14.1
 *   one hash, strings left in place          10.4    16.9
 *   one hash, copies                         12.5    22.5 */
#include "machines/cpu/core/cpu_bulk_strings.h"
#include "core/hash_bytes.h"
#include "core/strings.h"

#include <string.h>

enum { COPY_ALIGNMENT = 8 };

typedef struct string_work {
    loom__split split;
    loom__cpu_strings strings;
    uint32_t value_bytes;
    loom__seed seed;
} string_work;

/* Bytes of a string's copy. Strings that are too long have none. */
static uint64_t copy_bytes(uint64_t length, uint64_t most)
{
    return length <= most ? (length + COPY_ALIGNMENT - 1) / COPY_ALIGNMENT * COPY_ALIGNMENT : 0;
}

static int has_string_values(const string_work *work)
{
    return (work->strings.variable & LOOM__VARIABLE_VALUES) != 0 && work->value_bytes > 0;
}

static uint64_t copies_of_row(const string_work *work, uint64_t i)
{
    const loom__string *keys = work->split.keys, *values = work->split.values;
    return copy_bytes(keys[i].length, work->strings.most_key_bytes) +
           (has_string_values(work) ? copy_bytes(values[i].length, work->strings.most_value_bytes) : 0);
}

/* ---- memory ---- */

uint64_t loom__cpu_lay_out_copies(const loom__split *split, loom__cpu_strings *strings, unsigned char *memory)
{
    uint64_t bytes = 0;
    if (strings->bytes == 0)
        return 0;
    const uint64_t fill = loom__split_place(&bytes, (uint64_t)split->chunks * split->bins * sizeof *strings->fill);
    const uint64_t copies = loom__split_place(&bytes, strings->bytes);
    if (memory != NULL) {
        strings->fill = (uint64_t *)(void *)(memory + fill);
        strings->copies = memory + copies;
    }
    return bytes;
}

/* ---- steps ---- */

/* The fill of a chunk's copies; NULL: there are no copies. */
static uint64_t *fill_of_copies(const string_work *work, uint64_t chunk)
{
    return work->strings.copies != NULL ? work->strings.fill + chunk * work->split.bins : NULL;
}

static void count_chunk(void *argument, uint64_t chunk)
{
    const string_work work = *(const string_work *)argument;
    const loom__split *split = &work.split;
    const loom__string *keys = split->keys;
    const uint64_t end = loom__split_chunk_begin(split, chunk + 1);
    uint64_t *fill = split->fill + chunk * split->bins, *bytes = fill_of_copies(&work, chunk);
    memset(fill, 0, split->bins * sizeof *fill);
    if (work.strings.copies != NULL)
        memset(bytes, 0, split->bins * sizeof *bytes);
    for (uint64_t i = loom__split_chunk_begin(split, chunk); i < end; i++) {
        const uint64_t hash = loom__hash_bytes((const void *)(uintptr_t)keys[i].at, keys[i].length, work.seed);
        const uint32_t bin = loom__hash_partition(hash, split->bins);
        split->hashes[i] = hash;
        fill[bin]++;
        if (work.strings.copies != NULL)
            bytes[bin] += copies_of_row(&work, i);
    }
}

/* As loom__split_sum_up. */
static void sum_up_copies(const string_work *work)
{
    uint64_t at = 0;
    for (uint64_t bin = 0; bin < work->split.bins; bin++)
        for (uint64_t chunk = 0; chunk < work->split.chunks; chunk++) {
            uint64_t *fill = &work->strings.fill[chunk * work->split.bins + bin], bytes = *fill;
            *fill = at;
            at += bytes;
        }
}

/* Copies a string, if it has a copy, and returns a reference to what the record uses. */
static loom__string copied(const loom__cpu_strings *strings, loom__string string, uint64_t most, uint64_t *at)
{
    const uint64_t bytes = copy_bytes(string.length, most);
    if (bytes == 0)
        return string;
    unsigned char *copy = strings->copies + *at;
    memcpy(copy, (const void *)(uintptr_t)string.at, string.length);
    *at += bytes;
    string.at = (uint64_t)(uintptr_t)copy;
    return string;
}

static void scatter_chunk(void *argument, uint64_t chunk)
{
    const string_work work = *(const string_work *)argument;
    const loom__split *split = &work.split;
    const loom__string *keys = split->keys, *strings = split->values;
    const unsigned char *values = split->values;
    const uint32_t value_bytes = work.value_bytes,
                   record_bytes = loom__split_record_bytes(sizeof *keys, value_bytes, 1);
    const uint64_t end = loom__split_chunk_begin(split, chunk + 1);
    uint64_t *fill = split->fill + chunk * split->bins, *bytes = fill_of_copies(&work, chunk);
    for (uint64_t i = loom__split_chunk_begin(split, chunk); i < end; i++) {
        const uint64_t hash = split->hashes[i];
        const uint32_t bin = loom__hash_partition(hash, split->bins);
        const uint64_t at = fill[bin]++;
        unsigned char *record = split->records + at * record_bytes, *value = record + sizeof *keys;
        loom__string key = keys[i];
        if (value_bytes == 8)
            memcpy(value, values + i * 8, 8);
        else if (value_bytes > 0)
            memcpy(value, values + i * value_bytes, value_bytes);
        if (work.strings.copies != NULL) {
            key = copied(&work.strings, key, work.strings.most_key_bytes, &bytes[bin]);
            if (has_string_values(&work)) {
                const loom__string string =
                    copied(&work.strings, strings[i], work.strings.most_value_bytes, &bytes[bin]);
                memcpy(value, &string, sizeof string);
            }
        }
        memcpy(record, &key, sizeof key);
        memcpy(value + value_bytes, &hash, sizeof hash);
        if (split->index != NULL)
            split->index[at] = i;
    }
}

void loom__cpu_split_strings(loom__pool *pool, const loom__split *split, const loom__cpu_strings *strings,
                             uint32_t value_bytes, loom__seed seed)
{
    string_work work = {*split, *strings, value_bytes, seed};
    loom__pool_run(pool, split->chunks, count_chunk, &work);
    loom__split_sum_up(split);
    if (strings->copies != NULL)
        sum_up_copies(&work);
    loom__pool_run(pool, split->chunks, scatter_chunk, &work);
}
