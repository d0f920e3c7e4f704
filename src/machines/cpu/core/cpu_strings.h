#ifndef LOOM_CPU_STRINGS_H
#define LOOM_CPU_STRINGS_H

#include "core/machine.h"

/* core/machine.h */
loom_status loom__cpu_copy_strings(loom__machine *machine, const loom__string *strings, uint64_t n,
                                   const uint64_t *offsets, void *to, loom_stream stream);

#endif
