#define LOOM_LANES_HEADER   "machines/cpu/cpu_lanes_neon.h"
#define CPU_OPEN_SIMD_TABLE loom__cpu_open_neon
#include "machines/cpu/cpu_open_simd.h"
