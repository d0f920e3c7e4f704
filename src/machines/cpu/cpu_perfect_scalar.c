#define LOOM_LANES_HEADER      "machines/cpu/cpu_lanes_scalar.h"
#define CPU_PERFECT_SIMD_TABLE loom__cpu_perfect_scalar
#include "machines/cpu/cpu_perfect_simd.h"
