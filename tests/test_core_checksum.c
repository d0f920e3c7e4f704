/* XXH64 against published vectors: from its authors' specification and test program, and from common libraries. */
#include "harness/harness.h"

#include <stdlib.h>
#include <string.h>

#include "core/checksum.h"

TEST(test_core_checksum_published_vectors)
{
    static const struct {
        const char *text;
        uint64_t seed;
        uint64_t sum;
    } vectors[] = {
        {"", 0, UINT64_C(0xef46db3751d8e999)},
        {"a", 0, UINT64_C(0xd24ec4f1a98c6e5b)},
        {"abc", 0, UINT64_C(0x44bc2cf5ad770999)},
        {"The quick brown fox jumps over the lazy dog", 0, UINT64_C(0x0b242d361fda71bc)},
    };
    for (size_t i = 0; i < sizeof vectors / sizeof vectors[0]; i++) {
        test_note("vector \"%s\"", vectors[i].text);
        CHECK_EQ(loom__checksum(vectors[i].text, strlen(vectors[i].text), vectors[i].seed), vectors[i].sum);
    }
}

/* The buffer and some of the sums of xxHash's own sanity check. The lengths reach every path of the function, with the
 * seed 0 and with a prime as seed. */
TEST(test_core_checksum_sanity_buffer)
{
    static const uint64_t prime32 = 2654435761u, prime64 = UINT64_C(11400714785074694797);
    static const struct {
        size_t bytes;
        int seeded;
        uint64_t sum;
    } vectors[] = {
        {0, 0, UINT64_C(0xef46db3751d8e999)},   {0, 1, UINT64_C(0xac75fda2929b17ef)},
        {1, 0, UINT64_C(0xe934a84adb052768)},   {1, 1, UINT64_C(0x5014607643a9b4c3)},
        {4, 0, UINT64_C(0x9136a0dca57457ee)},   {14, 0, UINT64_C(0x8282dcc4994e35c8)},
        {14, 1, UINT64_C(0xc3bd6bf63deb6df0)},  {222, 0, UINT64_C(0xb641ae8cb691c174)},
        {222, 1, UINT64_C(0x20cb8ab7ae10c14a)}, {4, 1, UINT64_C(0xcaab286bd8e9fdb5)},
        {8, 0, UINT64_C(0xcdbcf538e71d1348)},   {8, 1, UINT64_C(0xfe0c047a5353cdac)},
        {32, 0, UINT64_C(0x18b216492bb44b70)},  {32, 1, UINT64_C(0xb3f33bdf93ade409)},
        {33, 0, UINT64_C(0x55c8dc3e578f5b59)},  {33, 1, UINT64_C(0xe92c292f64bc3071)},
        {64, 0, UINT64_C(0xef558f8acac2b5cd)},  {128, 0, UINT64_C(0x90ca021457d96dc5)},
        {129, 0, UINT64_C(0x41c280132d697aba)},
    };
    unsigned char buffer[222];
    uint64_t generator = prime32;
    for (size_t i = 0; i < sizeof buffer; i++) {
        buffer[i] = (unsigned char)(generator >> 56);
        generator *= prime64;
    }
    for (size_t i = 0; i < sizeof vectors / sizeof vectors[0]; i++) {
        test_note("%zu bytes, %s seed", vectors[i].bytes, vectors[i].seeded ? "prime" : "no");
        CHECK_EQ(loom__checksum(buffer, vectors[i].bytes, vectors[i].seeded ? prime32 : 0), vectors[i].sum);
    }
}

TEST(test_core_checksum_any_alignment)
{
    unsigned char *room = test_allocate(300);
    for (size_t bytes = 0; bytes < 200; bytes++) {
        unsigned char text[200];
        for (size_t i = 0; i < bytes; i++)
            text[i] = (unsigned char)random_u64(&t->random);
        uint64_t sum = loom__checksum(text, bytes, 7);
        for (size_t offset = 0; offset < 9; offset++) {
            memcpy(room + offset, text, bytes);
            CHECK_EQ(loom__checksum(room + offset, bytes, 7), sum);
        }
    }
    free(room);
}

TEST(test_core_checksum_every_bit_counts)
{
    unsigned char text[100];
    for (size_t i = 0; i < sizeof text; i++)
        text[i] = (unsigned char)random_u64(&t->random);
    uint64_t sum = loom__checksum(text, sizeof text, 0);
    for (size_t bit = 0; bit < 8 * sizeof text; bit++) {
        text[bit / 8] = (unsigned char)(text[bit / 8] ^ (1u << bit % 8));
        CHECK_NE(loom__checksum(text, sizeof text, 0), sum);
        text[bit / 8] = (unsigned char)(text[bit / 8] ^ (1u << bit % 8));
    }
    CHECK_EQ(loom__checksum(text, sizeof text, 0), sum);
    CHECK_NE(loom__checksum(text, sizeof text, 1), sum);
    CHECK_NE(loom__checksum(text, sizeof text - 1, 0), sum);
}
