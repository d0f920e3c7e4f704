#ifndef LOOM_CPU_RETRIEVE_H
#define LOOM_CPU_RETRIEVE_H

#include "core/batch.h"
#include "core/table_slots.h"
#include "machines/cpu/core/cpu_pool.h"

/* Copies out at most `room` pairs from `position` on, and advances the position. *got is 0 at the end. */
void loom__cpu_retrieve(loom__pool *pool, const loom__table_slots *table, loom__position *position, void *keys,
                        void *values, uint64_t room, uint64_t *got);

#endif
