#define LOOM_LANES_HEADER     "machines/cpu/cpu_lanes_avx2.h"
#define CPU_FILTER_SIMD_TABLE loom__cpu_filter_avx2
#include "machines/cpu/cpu_filter_simd.h"
