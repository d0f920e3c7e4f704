#define CUDA_LANES  1
#define LAUNCH_NAME cuda_open_launch_1
#include "machines/cuda/cuda_open_lanes.cuh"
