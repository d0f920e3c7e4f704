#define LOOM_LANES_HEADER      "machines/cpu/cpu_lanes_neon.h"
#define CPU_PERFECT_SIMD_TABLE loom__cpu_perfect_neon
#include "machines/cpu/cpu_perfect_simd.h"
