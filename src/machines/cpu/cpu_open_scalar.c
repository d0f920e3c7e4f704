#define LOOM_LANES_HEADER   "machines/cpu/cpu_lanes_scalar.h"
#define CPU_OPEN_SIMD_TABLE loom__cpu_open_scalar
#include "machines/cpu/cpu_open_simd.h"
