#define CUDA_LANES 2
#define CUDA_REST  /* the kernels for what is left over from a split */
#include "machines/cuda/cuda_open_lanes.cuh"
