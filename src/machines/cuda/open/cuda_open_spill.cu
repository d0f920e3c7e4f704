#define CUDA_LANES 2
#define CUDA_SPILL /* compiles the kernels that insert a split's spill */
#include "machines/cuda/open/cuda_open_lanes.cuh"
