/* XXH64, the published 64-bit checksum, written from its specification. Any xxHash library can check our files. */
#ifndef LOOM_CORE_CHECKSUM_H
#define LOOM_CORE_CHECKSUM_H

#include <stddef.h>
#include <stdint.h>

uint64_t loom__checksum(const void *data, size_t bytes, uint64_t seed);

#endif
