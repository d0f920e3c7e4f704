#define LOOM_LANES_HEADER      "machines/cpu/cpu_lanes_avx2.h"
#define CPU_PERFECT_SIMD_TABLE loom__cpu_perfect_avx2
#include "machines/cpu/cpu_perfect_avx2.h"
#include "machines/cpu/cpu_perfect_simd.h"
