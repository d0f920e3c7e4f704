#define LOOM_LANES_HEADER   "machines/cpu/cpu_lanes_avx2.h"
#define CPU_OPEN_SIMD_TABLE loom__cpu_open_avx2
#include "machines/cpu/cpu_open_simd.h"
