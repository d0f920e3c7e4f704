#define LOOM_LANES_HEADER     "machines/cpu/cpu_lanes_neon.h"
#define CPU_FILTER_SIMD_TABLE loom__cpu_filter_neon
#include "machines/cpu/cpu_filter_neon.h"
#include "machines/cpu/cpu_filter_simd.h"
