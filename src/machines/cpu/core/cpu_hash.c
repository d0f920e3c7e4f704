/* Hashes of keys. Threads share the keys in pieces. */
#include "machines/cpu/core/cpu_hash.h"

#include "core/hash_bytes.h"

enum { PIECE = 1 << 16 };

typedef struct hash_work {
    const void *keys;
    uint64_t *hashes;
    uint64_t n;
    uint32_t key_bytes;
    loom__seed seed;
} hash_work;

/* With a literal width the compiler specialises the loop. */
LOOM_LANE void hash_some(const hash_work *given, uint64_t piece, uint32_t key_bytes)
{
    const hash_work work = *given; /* in registers: stores to the hashes cannot alias it */
    const uint64_t begin = piece * PIECE, end = work.n - begin < PIECE ? work.n : begin + PIECE;
    for (uint64_t i = begin; i < end; i++) {
        const uint64_t key = key_bytes == 4 ? ((const uint32_t *)work.keys)[i] : ((const uint64_t *)work.keys)[i];
        work.hashes[i] = loom__hash_key(key, key_bytes, work.seed);
    }
}

static void hash_piece_4(void *argument, uint64_t piece)
{
    hash_some(argument, piece, 4);
}

static void hash_piece_8(void *argument, uint64_t piece)
{
    hash_some(argument, piece, 8);
}

static void hash_piece_of_any_width(void *argument, uint64_t piece)
{
    const hash_work work = *(const hash_work *)argument;
    const uint64_t begin = piece * PIECE, end = work.n - begin < PIECE ? work.n : begin + PIECE;
    for (uint64_t i = begin; i < end; i++)
        work.hashes[i] =
            loom__hash_bytes((const unsigned char *)work.keys + i * work.key_bytes, work.key_bytes, work.seed);
}

loom_status loom__cpu_hash_keys(loom__machine *machine, const void *keys, uint32_t key_bytes, uint64_t n, uint64_t seed,
                                uint64_t *hashes, loom_stream stream)
{
    hash_work work = {keys, hashes, n, key_bytes, loom__seed_expand(seed)};
    (void)stream;
    machine->ops->host_parallel(machine, n / PIECE + (n % PIECE != 0),
                                key_bytes == 4   ? hash_piece_4
                                : key_bytes == 8 ? hash_piece_8
                                                 : hash_piece_of_any_width,
                                &work);
    return LOOM_OK;
}
