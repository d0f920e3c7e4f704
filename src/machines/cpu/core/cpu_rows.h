/* Selects, takes and puts back rows of arrays, as core/machine.h says. Rows have any width and any address. */
#ifndef LOOM_CPU_ROWS_H
#define LOOM_CPU_ROWS_H

#include "core/machine.h"

loom_status loom__cpu_select_rows(loom__machine *machine, const uint8_t *status, uint8_t wanted, uint64_t n,
                                  uint64_t *rows, uint64_t room, uint64_t *count, loom_stream stream);
loom_status loom__cpu_take_rows(loom__machine *machine, void *to, const void *from, uint32_t width, const void *rows,
                                uint32_t number_bytes, uint64_t count, loom_stream stream);
loom_status loom__cpu_put_rows(loom__machine *machine, void *to, const void *from, uint32_t width, const void *rows,
                               uint32_t number_bytes, uint64_t count, loom_stream stream);

#endif
