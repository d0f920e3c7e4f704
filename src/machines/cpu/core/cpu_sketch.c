/* Sketches the keys of a batch. Threads share the keys in pieces. Each piece has a sketch of its own, which lies in the
 * cache, and merges it into the whole at its end. */
#include "machines/cpu/core/cpu_sketch.h"
#include "core/hash_bytes.h"
#include "core/strings.h"

enum { PIECE = 1 << 18 };

typedef struct sketching {
    const unsigned char *keys;
    uint32_t key_bytes;
    uint64_t n, seed;
    loom__key_sketch *whole;
} sketching;

/* With a literal width a key is read by one load. */
LOOM_LANE void sketch_some(const sketching *all, uint64_t begin, uint64_t end, uint32_t key_bytes,
                           loom__key_sketch *sketch)
{
    const uint64_t seed = all->seed;
    for (uint64_t i = begin; i < end; i++) {
        const uint64_t hash = loom__sketch_hash(loom__sketch_number(all->keys + i * key_bytes, key_bytes), seed);
        uint8_t *rank = &sketch->ranks[loom__sketch_register(hash)];
        const uint8_t mine = (uint8_t)loom__sketch_rank(hash);
        *rank = mine > *rank ? mine : *rank;
    }
}

/* Strings: equal strings have equal numbers. */
static void sketch_strings(const sketching *all, uint64_t begin, uint64_t end, loom__key_sketch *sketch)
{
    const loom__string *strings = (const loom__string *)(const void *)all->keys;
    const loom__seed seed = loom__seed_expand(all->seed);
    for (uint64_t i = begin; i < end; i++) {
        const uint64_t number = loom__hash_bytes((const void *)(uintptr_t)strings[i].at, strings[i].length, seed);
        const uint64_t hash = loom__sketch_hash(number, all->seed);
        uint8_t *rank = &sketch->ranks[loom__sketch_register(hash)];
        const uint8_t mine = (uint8_t)loom__sketch_rank(hash);
        *rank = mine > *rank ? mine : *rank;
    }
}

/* Other threads merge theirs at the same time. Each failed CAS means that another thread made the rank larger. */
static void merge(loom__key_sketch *whole, const loom__key_sketch *part)
{
    for (uint32_t i = 0; i < LOOM__SKETCH_REGISTERS; i++) {
        uint8_t seen = __atomic_load_n(&whole->ranks[i], __ATOMIC_RELAXED);
        while (part->ranks[i] > seen && !__atomic_compare_exchange_n(&whole->ranks[i], &seen, part->ranks[i], 0,
                                                                     __ATOMIC_RELAXED, __ATOMIC_RELAXED))
            continue;
    }
}

static void sketch_piece(void *argument, uint64_t piece)
{
    const sketching *all = argument;
    const uint64_t begin = piece * PIECE, end = all->n - begin < PIECE ? all->n : begin + PIECE;
    loom__key_sketch part = {{0}};
    if (all->key_bytes == LOOM_VARIABLE)
        sketch_strings(all, begin, end, &part);
    else if (all->key_bytes == 4)
        sketch_some(all, begin, end, 4, &part);
    else if (all->key_bytes == 8)
        sketch_some(all, begin, end, 8, &part);
    else
        sketch_some(all, begin, end, all->key_bytes, &part);
    merge(all->whole, &part);
}

loom_status loom__cpu_sketch_keys(loom__machine *machine, const void *keys, uint32_t key_bytes, uint64_t n,
                                  uint64_t seed, loom__key_sketch *sketch, loom_stream stream)
{
    sketching all = {.keys = keys, .key_bytes = key_bytes, .n = n, .seed = seed, .whole = sketch};
    (void)stream;
    *sketch = (loom__key_sketch){{0}};
    machine->ops->host_parallel(machine, (n + PIECE - 1) / PIECE, sketch_piece, &all);
    return LOOM_OK;
}
