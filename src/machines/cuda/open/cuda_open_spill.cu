#define CUDA_LANES 2
#define CUDA_SPILL /* compiles the kernels for the records that a split leaves over */
#include "machines/cuda/open/cuda_open_lanes.cuh"
