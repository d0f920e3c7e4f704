/* Loads of words at any address. A CPU loads them directly. A GPU loads aligned words alone, so a word at another
 * address takes several loads. They touch no byte behind the wanted ones: those may be the last of an allocation. They
 * may touch up to 7 bytes before, which lie in the same 8 bytes as the first wanted one, and thus in the same
 * allocation. */
#ifndef LOOM_CORE_WORD_LOADS_H
#define LOOM_CORE_WORD_LOADS_H

#include "core/portable.h"

#include <string.h>

#if defined(__CUDA_ARCH__)
/* The first n bytes, at most 7, of 8 aligned bytes. */
LOOM_BOTH uint64_t loom__first_bytes(const unsigned char *at, uint32_t n)
{
    uint64_t bytes = 0;
    if (n & 4)
        bytes = *(const uint32_t *)at;
    if (n & 2)
        bytes |= (uint64_t)(*(const uint16_t *)(at + (n & 4))) << 8 * (n & 4);
    if (n & 1)
        bytes |= (uint64_t)at[n & 6] << 8 * (n & 6);
    return bytes;
}
#endif

/* 8 bytes. */
LOOM_BOTH uint64_t loom__load_word(const unsigned char *at)
{
    uint64_t word;
#if defined(__CUDA_ARCH__)
    const uint32_t before = (uint32_t)(uintptr_t)at % 8;
    word = *(const uint64_t *)(at - before);
    if (before != 0)
        word = word >> 8 * before | loom__first_bytes(at - before + 8, before) << (64 - 8 * before);
#else
    memcpy(&word, at, 8);
#endif
    return word;
}

/* n bytes, 1 to 8. The others are zero. */
LOOM_BOTH uint64_t loom__load_bytes(const unsigned char *at, uint32_t n)
{
    uint64_t word = 0;
#if defined(__CUDA_ARCH__)
    const uint32_t before = (uint32_t)(uintptr_t)at % 8, all = before + n;
    const unsigned char *first = at - before;
    word = (all >= 8 ? *(const uint64_t *)first : loom__first_bytes(first, all)) >> 8 * before;
    if (all > 8)
        word |= loom__first_bytes(first + 8, all - 8) << (64 - 8 * before);
#else
    memcpy(&word, at, n);
#endif
    return word;
}

#endif
