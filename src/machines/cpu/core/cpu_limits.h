/* Measures the most that this processor and its memory can do. */
#ifndef LOOM_CPU_LIMITS_H
#define LOOM_CPU_LIMITS_H

#include "machines/cpu/core/cpu_pool.h"

loom_status loom__cpu_measure_limit(loom__pool *pool, uint32_t threads, loom_limit *limit);

#endif
