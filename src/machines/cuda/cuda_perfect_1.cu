#define CUDA_LANES  1
#define LAUNCH_NAME cuda_perfect_find_1
#include "machines/cuda/cuda_perfect_lanes.cuh"
