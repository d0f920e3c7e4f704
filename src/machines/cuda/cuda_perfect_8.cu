#define CUDA_LANES  8
#define LAUNCH_NAME cuda_perfect_find_8
#include "machines/cuda/cuda_perfect_lanes.cuh"
