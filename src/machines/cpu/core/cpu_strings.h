#ifndef LOOM_CPU_STRINGS_H
#define LOOM_CPU_STRINGS_H

#include "core/machine.h"

/* core/machine.h */
loom_status loom__cpu_refer_strings(loom__machine *machine, const uint64_t *offsets, uint64_t base, uint64_t n,
                                    uint64_t most, loom__string *to, loom__strings_told *told, loom_stream stream);
loom_status loom__cpu_place_strings(loom__machine *machine, const loom__string *strings, uint64_t n, uint64_t at,
                                    uint64_t room, uint64_t *places, loom__places_told *told, loom_stream stream);
loom_status loom__cpu_copy_strings(loom__machine *machine, const loom__string *strings, uint64_t n,
                                   const uint64_t *places, void *to, loom_stream stream);

#endif
