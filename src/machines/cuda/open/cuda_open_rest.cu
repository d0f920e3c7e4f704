#define CUDA_LANES 2
#define CUDA_REST  /* the kernels for what is left over from a split */
#include "machines/cuda/open/cuda_open_lanes.cuh"
