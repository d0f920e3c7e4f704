/* Batches of operations, as core/machine.h says. Threads share the rows. */
#ifndef LOOM_CPU_OPERATIONS_H
#define LOOM_CPU_OPERATIONS_H

#include "core/machine.h"

loom_status loom__cpu_count_operations(loom__machine *machine, const uint8_t *operations, uint64_t n, uint32_t *places,
                                       uint64_t counts[LOOM__KINDS], loom_stream stream);
loom_status loom__cpu_move_by_kind(loom__machine *machine, const loom__kind_order *order,
                                   const loom__kind_column *columns, uint32_t count, int put, loom_stream stream);
loom_status loom__cpu_sort_hashes(loom__machine *machine, uint64_t *hashes, uint64_t n, uint32_t *rows,
                                  loom_stream stream);
loom_status loom__cpu_group_rows(loom__machine *machine, const uint64_t *hashes, const uint32_t *rows, const void *keys,
                                 uint32_t key_bytes, uint64_t n, uint32_t *groups, uint32_t *firsts, uint64_t *distinct,
                                 int *collide, loom_stream stream);
loom_status loom__cpu_run_sequences(loom__machine *machine, const loom__sequences *all,
                                    uint64_t counts[LOOM__APPLIED_STATUSES], loom_stream stream);

#endif
