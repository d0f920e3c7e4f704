#define LOOM_LANES_HEADER     "machines/cpu/cpu_lanes_scalar.h"
#define CPU_FILTER_SIMD_TABLE loom__cpu_filter_scalar
#include "machines/cpu/cpu_filter_simd.h"
