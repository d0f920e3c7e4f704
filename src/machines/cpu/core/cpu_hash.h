/* Hashes of keys (core/machine.h). */
#ifndef LOOM_CPU_HASH_H
#define LOOM_CPU_HASH_H

#include "core/machine.h"

loom_status loom__cpu_hash_keys(loom__machine *machine, const void *keys, uint32_t key_bytes, uint64_t n, uint64_t seed,
                                uint64_t *hashes, loom_stream stream);

#endif
