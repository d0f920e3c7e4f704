/* Hashes of a few keys, frozen: files depend on the hash, and so do programs that call loom_hash. */
#ifndef LOOM_TESTS_HASH_VECTORS_H
#define LOOM_TESTS_HASH_VECTORS_H

#include <stdint.h>

#define VECTOR_KEYS  7
#define VECTOR_SEEDS 4

static const uint64_t vector_keys[VECTOR_KEYS] = {0,
                                                  1,
                                                  2,
                                                  UINT64_C(0xffffffff),
                                                  UINT64_C(0x8000000000000000),
                                                  UINT64_C(0x0123456789abcdef),
                                                  UINT64_C(0xffffffffffffffff)};
static const uint64_t vector_seeds[VECTOR_SEEDS] = {0, 1, UINT64_C(0x9e3779b97f4a7c15), UINT64_MAX};

/* [0]: hashes of 4-byte keys, the lower halves of vector_keys. [1]: hashes of 8-byte keys. */
static const uint64_t vector_hashes[2][VECTOR_SEEDS][VECTOR_KEYS] = {
    {
        {UINT64_C(0xf2d0b71f2ab7e49e), UINT64_C(0xbdc476f28a2cf28f), UINT64_C(0x75b8774979688b63),
         UINT64_C(0x127185c799d042d5), UINT64_C(0xf2d0b71f2ab7e49e), UINT64_C(0x48c32cd3eeb7014a),
         UINT64_C(0x127185c799d042d5)},
        {UINT64_C(0x881f44b641d3acd5), UINT64_C(0xf2608977f88acb5e), UINT64_C(0xd8f8633389d723aa),
         UINT64_C(0x5e4bd98749aa676b), UINT64_C(0x881f44b641d3acd5), UINT64_C(0x072a06aac3a2cb7c),
         UINT64_C(0x5e4bd98749aa676b)},
        {UINT64_C(0x1326861d7c64f642), UINT64_C(0x15293fd9ab3091ec), UINT64_C(0xf473f11a1cbd55b8),
         UINT64_C(0xd5cf997193c11912), UINT64_C(0x1326861d7c64f642), UINT64_C(0x8eb294f042d6e190),
         UINT64_C(0xd5cf997193c11912)},
        {UINT64_C(0x2541edd9ac9aed46), UINT64_C(0x871c15b0c1cdddf5), UINT64_C(0x550102c56e946cff),
         UINT64_C(0xbd34e02dbb0b8f6c), UINT64_C(0x2541edd9ac9aed46), UINT64_C(0x644adb15b481291d),
         UINT64_C(0xbd34e02dbb0b8f6c)},
    },
    {
        {UINT64_C(0x3447e783f266a4a9), UINT64_C(0x114e4f0637ab9753), UINT64_C(0xdd19c146cecb74f7),
         UINT64_C(0x63e957e25eb723d5), UINT64_C(0x35ac7058cfb61f6b), UINT64_C(0x34dbe45c35ba65ab),
         UINT64_C(0x8e70ea833a5c5a6a)},
        {UINT64_C(0xb526c6f3bdfce4c4), UINT64_C(0x7f4424e773de8d8d), UINT64_C(0x9f9015f943b60797),
         UINT64_C(0xcc509f0df07baf84), UINT64_C(0x53c208267ed69db2), UINT64_C(0xdad9bd65cf6c4700),
         UINT64_C(0xa36ac22d88299935)},
        {UINT64_C(0xd1cb6f71468b9507), UINT64_C(0xd08ba4fbf3c2101f), UINT64_C(0xc5196bbfb5a47fd7),
         UINT64_C(0x6cf8ea621e3ba804), UINT64_C(0x7e1ab80c185310f2), UINT64_C(0xe6f8fb721a003375),
         UINT64_C(0x748f8b900079bc3e)},
        {UINT64_C(0x9294d78fe0473d6d), UINT64_C(0xeb02e6fccd0dce6b), UINT64_C(0xed0a3ad720472cf2),
         UINT64_C(0xdb9ce949f2a0782d), UINT64_C(0x8a7aa7a4867834be), UINT64_C(0x949346c7518ace9c),
         UINT64_C(0x3e1506ee16805a44)},
    },
};

#endif
