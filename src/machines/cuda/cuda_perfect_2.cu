#define CUDA_LANES  2
#define LAUNCH_NAME cuda_perfect_find_2
#include "machines/cuda/cuda_perfect_lanes.cuh"
