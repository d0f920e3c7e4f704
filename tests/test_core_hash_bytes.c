/* The hash of byte strings: XXH3's published results, pinned results, and which bytes it reads. How it mixes structured
 * keys is in test_core_hash_bytes_spread.c. */
#include "harness/harness.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "core/hash_bytes.h"

static void fill_random(test_run *t, unsigned char *bytes, size_t n)
{
    for (size_t i = 0; i < n; i++)
        bytes[i] = (unsigned char)random_u64(&t->random);
}

/* ---- Pinned values -------------------------------------------------------------------------------------- */

/* The buffer of xxHash's own sanity check, with the seed 0 and with a prime as seed. */
TEST(test_core_hash_bytes_published_vectors)
{
    static const struct {
        uint32_t length;
        uint64_t unseeded, seeded;
    } vectors[] = {
        /* In xxHash's self-test, cli/xsum_sanity_check.c of 0.8.1. */
        {0, UINT64_C(0x2d06800538d394c2), UINT64_C(0xa8a6b918b2f0364a)},
        {1, UINT64_C(0xc44bdff4074eecdb), UINT64_C(0x032be332dd766ef8)},
        {6, UINT64_C(0x27b56a84cd2d7325), UINT64_C(0x84589c116ab59ab9)},
        {12, UINT64_C(0xa713daf0dfbb77e7), UINT64_C(0xe7303e1b2336de0e)},
        {24, UINT64_C(0xa3fe70bf9d3510eb), UINT64_C(0x850e80fc35bdd690)},
        {48, UINT64_C(0x397da259ecba1f11), UINT64_C(0xadc2cbaa44acc616)},
        {80, UINT64_C(0xbcdefbbb2c47c90a), UINT64_C(0xc6dd0cb699532e73)},
        {195, UINT64_C(0xcd94217ee362ec3a), UINT64_C(0xba68003d370cb3d9)},
        {403, UINT64_C(0xcdeb804d65c6dea4), UINT64_C(0x6259f6ecfd6443fd)},
        {512, UINT64_C(0x617e49599013cb6b), UINT64_C(0x3ce457de14c27708)},
        {2048, UINT64_C(0xdd59e2c3a5f038e0), UINT64_C(0x66f81670669ababc)},
        {2240, UINT64_C(0x6e73a90539cf2948), UINT64_C(0x757ba8487d1b5247)},
        {2367, UINT64_C(0xcb37aeb9e5d361ed), UINT64_C(0xd2db3415b942b42a)},
        /* Both ends of every formula, as the library xxHash 0.8.4 computes them. */
        {2, UINT64_C(0x7a9978044cb8a8bb), UINT64_C(0x764b35c90519ad88)},
        {3, UINT64_C(0x54247382a8d6b94d), UINT64_C(0x634b8990b4976373)},
        {4, UINT64_C(0xe5dc74bc51848a51), UINT64_C(0xaa2e7eccb0c8f747)},
        {5, UINT64_C(0xe4243f00720306bb), UINT64_C(0x5a67c87e50ed80ed)},
        {7, UINT64_C(0x9941e0007f555e50), UINT64_C(0x75bdab43463f0151)},
        {8, UINT64_C(0x24ccc9acaa9f65e4), UINT64_C(0x8f973410999b8f6b)},
        {9, UINT64_C(0x14d5001c15dd3f2b), UINT64_C(0xb3ae7333d9013f60)},
        {15, UINT64_C(0x45556d4d6e1798bc), UINT64_C(0x710dd5318f6f16d5)},
        {16, UINT64_C(0x981b17d36c7498c9), UINT64_C(0x663f29333b4db6b1)},
        {17, UINT64_C(0x796f5acd3a60f862), UINT64_C(0xf3ec5067f4306db3)},
        {31, UINT64_C(0x5d516692ca764c50), UINT64_C(0x9b37274259c549c6)},
        {32, UINT64_C(0x9feaddbdbf57eed3), UINT64_C(0x2199fab1534893d9)},
        {33, UINT64_C(0xabfb2d081b400a10), UINT64_C(0xad56348da574bb6d)},
        {63, UINT64_C(0x83d74a75f2c2577a), UINT64_C(0xc3ab9c8b53960dc7)},
        {64, UINT64_C(0x9cb48487720ec49d), UINT64_C(0x4fe8895db9b8c077)},
        {65, UINT64_C(0xfd81aac4bebc3883), UINT64_C(0xad80aeec1fc9e0a7)},
        {96, UINT64_C(0x935a769a7f94776f), UINT64_C(0x70cf51937e500540)},
        {97, UINT64_C(0xca4ca268fd3c3a6c), UINT64_C(0xee461d3add7ee6c9)},
        {127, UINT64_C(0x2408ed71323d6096), UINT64_C(0x41d2f0c3f483208f)},
        {128, UINT64_C(0xfcff24126754d861), UINT64_C(0x73fde75280646649)},
        {129, UINT64_C(0x98f1b0a679a2ca29), UINT64_C(0x21fffdbca099c844)},
        {143, UINT64_C(0x7a7813693f1f4edb), UINT64_C(0x43b3274ae68d5742)},
        {144, UINT64_C(0xc440d47e5f03fe58), UINT64_C(0x858d16b71f4dd859)},
        {160, UINT64_C(0x9d03a319ed4cbd2b), UINT64_C(0x3825c75ffe70fde0)},
        {223, UINT64_C(0x6e495316b983036e), UINT64_C(0x9f9cefaccfee917d)},
        {224, UINT64_C(0x3f3250c7e92c871a), UINT64_C(0x17023a9a6f1156db)},
        {239, UINT64_C(0x16ce2b9d3b28805d), UINT64_C(0xf59f5c23fcebd3b7)},
        {240, UINT64_C(0x81c3c2b67f568ccf), UINT64_C(0xcc0f58c27ef3d8ee)},
        {241, UINT64_C(0xc5a639ecd2030e5e), UINT64_C(0xdda9b0a161d4829a)},
        {255, UINT64_C(0xe98f979f4ed8a197), UINT64_C(0x2aca7901d9538c75)},
        {256, UINT64_C(0x55de574ad89d0ac5), UINT64_C(0x4d30234b7a3aa61c)},
        {257, UINT64_C(0xb17fd5a8ae75bb0b), UINT64_C(0x802a6fbf3cacd97c)},
        {1023, UINT64_C(0x87a8f7b2f2e22496), UINT64_C(0x0f0f02de8590e1b5)},
        {1024, UINT64_C(0xdd85c9b5c1109c5c), UINT64_C(0xef368a8a2ebabaef)},
        {1025, UINT64_C(0xd870c0fa13211c6a), UINT64_C(0x96792bcf9af88519)},
        {1088, UINT64_C(0xcc1450ea6b52a8f4), UINT64_C(0x542632d046f3dde4)},
        {1089, UINT64_C(0xef727b2effc4cc8c), UINT64_C(0xff8423d886707134)},
        {4096, UINT64_C(0xe91206429d1f48f9), UINT64_C(0x2a3bbb20a5439dcd)},
        {65535, UINT64_C(0x40df5e3e5608bbe9), UINT64_C(0x61af2992ea4cf1de)},
        {65536, UINT64_C(0x918f7f0f912ca480), UINT64_C(0xbcb1719de7bee55b)},
    };
    static const uint64_t prime32 = 2654435761u, prime64 = UINT64_C(11400714785074694797);
    unsigned char *buffer = test_allocate(65536);
    uint64_t generator = prime32;
    for (size_t i = 0; i < 65536; i++) {
        buffer[i] = (unsigned char)(generator >> 56);
        generator *= prime64;
    }
    for (size_t i = 0; i < sizeof vectors / sizeof vectors[0]; i++) {
        test_note("%u bytes", vectors[i].length);
        CHECK_EQ(loom__xxh3(buffer, vectors[i].length, 0, 1), vectors[i].unseeded);
        CHECK_EQ(loom__xxh3(buffer, vectors[i].length, prime64, 1), vectors[i].seeded);
    }
    CHECK_EQ(loom__xxh3(NULL, 0, 0, 1), vectors[0].unseeded);
    free(buffer);
}

/* The vectors of docs/format.md: hashes under a table's seed. A change of these values changes the file format. */
TEST(test_core_hash_bytes_pinned_values)
{
    static const struct {
        uint32_t length;
        uint64_t seed_0, seed_42;
    } vectors[] = {
        {0, UINT64_C(0x1f11ac0cc47687e2), UINT64_C(0xd4709f917413ff9e)},
        {1, UINT64_C(0xae49e438f4ffeedf), UINT64_C(0x2578fd6e7d8fd5e1)},
        {2, UINT64_C(0x645a156b259aaaef), UINT64_C(0xe5b390a8abd89997)},
        {3, UINT64_C(0xf7e8169a7a2b81b9), UINT64_C(0x9cc74b424c73039c)},
        {4, UINT64_C(0x03482c7a6274345a), UINT64_C(0x0cbcecc06732d8cb)},
        {8, UINT64_C(0xc6e8fa01721be10d), UINT64_C(0xd0967ded10fb4f70)},
        {9, UINT64_C(0x772358e1401bff90), UINT64_C(0x068688d108ecbc33)},
        {16, UINT64_C(0x1c0932416aee741d), UINT64_C(0x1d65101f3347c767)},
        {17, UINT64_C(0x94f849ca658d2bf5), UINT64_C(0x3e5e690d456962f1)},
        {32, UINT64_C(0x9c07dcf96f43d153), UINT64_C(0x0e92ba3caef9f806)},
        {64, UINT64_C(0xe7298ce5e6f336d6), UINT64_C(0xb6797344448a2800)},
        {128, UINT64_C(0x1d2b22d5222030b9), UINT64_C(0x62c63b1758ff178d)},
        {129, UINT64_C(0x1265e2ec0ebaefe0), UINT64_C(0x2c807c079040b9d6)},
        {240, UINT64_C(0x83be34f1b781336c), UINT64_C(0x477dad65beaadfe3)},
        {241, UINT64_C(0x06da8cc9c0d64bbe), UINT64_C(0x7262a035ebd87bbe)},
        {256, UINT64_C(0x870ebb0ad3607bc0), UINT64_C(0x09b7baf24de691dc)},
        {1024, UINT64_C(0xdc3bb4fe535b17ef), UINT64_C(0x91ca03e84bece276)},
    };
    unsigned char key[1024];
    for (uint32_t i = 0; i < sizeof key; i++)
        key[i] = (unsigned char)((7 * i + 1) % 251);
    for (size_t i = 0; i < sizeof vectors / sizeof vectors[0]; i++) {
        test_note("%u bytes", vectors[i].length);
        CHECK_EQ(loom__hash_bytes(key, vectors[i].length, loom__seed_expand(0)), vectors[i].seed_0);
        CHECK_EQ(loom__hash_bytes(key, vectors[i].length, loom__seed_expand(42)), vectors[i].seed_42);
    }
}

/* A literal length makes the compiler choose the formula. It must be the one that is chosen at run time. */
TEST(test_core_hash_bytes_literal_lengths_agree)
{
    unsigned char key[256];
    fill_random(t, key, sizeof key);
    loom__seed seed = loom__seed_expand(random_u64(&t->random));
#define CHECK_LITERAL(literal)                                                                          \
    do {                                                                                                \
        volatile uint64_t length = literal;                                                             \
        CHECK_EQ(loom__hash_bytes(key, literal, seed), loom__hash_bytes(key, length, seed));            \
        CHECK_EQ(loom__hash_bytes_aligned(key, literal, 1, seed), loom__hash_bytes(key, length, seed)); \
    } while (0)
    CHECK_LITERAL(0);
    CHECK_LITERAL(1);
    CHECK_LITERAL(2);
    CHECK_LITERAL(3);
    CHECK_LITERAL(4);
    CHECK_LITERAL(8);
    CHECK_LITERAL(12);
    CHECK_LITERAL(16);
    CHECK_LITERAL(20);
    CHECK_LITERAL(24);
    CHECK_LITERAL(32);
    CHECK_LITERAL(48);
    CHECK_LITERAL(64);
    CHECK_LITERAL(128);
    CHECK_LITERAL(192);
    CHECK_LITERAL(256);
}

/* ---- Memory --------------------------------------------------------------------------------------------- */

#define MOST_BYTES 300

TEST(test_core_hash_bytes_any_alignment)
{
    unsigned char text[MOST_BYTES], *room = test_allocate(MOST_BYTES + 32),
                                    *start = room + (16 - (uintptr_t)room % 16) % 16;
    fill_random(t, text, sizeof text);
    loom__seed seed = loom__seed_expand(random_u64(&t->random));
    for (uint32_t length = 0; length <= MOST_BYTES; length++) {
        uint64_t hash = loom__hash_bytes(text, length, seed);
        for (uint32_t offset = 0; offset < 16; offset++) {
            test_note("%u bytes at offset %u", length, offset);
            memcpy(start + offset, text, length);
            CHECK_EQ(loom__hash_bytes(start + offset, length, seed), hash);
            if (length % 4 == 0 && offset % 4 == 0)
                CHECK_EQ(loom__hash_bytes_aligned(start + offset, length, 4, seed), hash);
            if (length % 8 == 0 && offset % 8 == 0)
                CHECK_EQ(loom__hash_bytes_aligned(start + offset, length, 8, seed), hash);
        }
    }
    free(room);
}

/* The key lies at the end of a page and at the start of one, between pages that cannot be read: a read outside the key
 * ends the test. */
TEST(test_core_hash_bytes_reads_only_the_key)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    unsigned char text[2048], *pages = mmap(NULL, 3 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(pages != MAP_FAILED);
    CHECK(mprotect(pages, page, PROT_NONE) == 0);
    CHECK(mprotect(pages + 2 * page, page, PROT_NONE) == 0);
    fill_random(t, text, sizeof text);
    loom__seed seed = loom__seed_expand(random_u64(&t->random));
    for (uint32_t length = 0; length <= 2048; length += length < MOST_BYTES ? 1 : 29) {
        unsigned char *ends[2] = {pages + page, pages + 2 * page - length};
        uint64_t hash = loom__hash_bytes(text, length, seed);
        for (int end = 0; end < 2; end++) {
            test_note("%u bytes at the %s of a page", length, end ? "end" : "start");
            memcpy(ends[end], text, length);
            CHECK_EQ(loom__hash_bytes(ends[end], length, seed), hash);
        }
    }
    munmap(pages, 3 * page);
}

/* Every byte counts, and so does every bit of it. */
TEST(test_core_hash_bytes_every_bit_counts)
{
    unsigned char *key = test_allocate(2048);
    fill_random(t, key, 2048);
    loom__seed seed = loom__seed_expand(random_u64(&t->random));
    for (uint32_t length = 1; length <= 2048; length += length < MOST_BYTES ? 1 : 251) {
        uint64_t hash = loom__hash_bytes(key, length, seed);
        for (uint32_t bit = 0; bit < 8 * length; bit++) {
            test_note("bit %u of %u bytes", bit, length);
            key[bit / 8] = (unsigned char)(key[bit / 8] ^ 1u << bit % 8);
            CHECK_NE(loom__hash_bytes(key, length, seed), hash);
            key[bit / 8] = (unsigned char)(key[bit / 8] ^ 1u << bit % 8);
        }
        CHECK_EQ(loom__hash_bytes(key, length, seed), hash);
    }
    free(key);
}
