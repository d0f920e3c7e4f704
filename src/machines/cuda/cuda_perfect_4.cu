#define CUDA_LANES  4
#define LAUNCH_NAME cuda_perfect_find_4
#include "machines/cuda/cuda_perfect_lanes.cuh"
