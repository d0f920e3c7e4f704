#define CUDA_LANES  8
#define LAUNCH_NAME cuda_open_launch_8
#include "machines/cuda/cuda_open_lanes.cuh"
