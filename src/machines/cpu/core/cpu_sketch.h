/* Sketches the keys of a batch, as core/machine.h says. */
#ifndef LOOM_CPU_SKETCH_H
#define LOOM_CPU_SKETCH_H

#include "core/machine.h"

loom_status loom__cpu_sketch_keys(loom__machine *machine, const void *keys, uint32_t key_bytes, uint64_t n,
                                  uint64_t seed, loom__key_sketch *sketch, loom_stream stream);

#endif
