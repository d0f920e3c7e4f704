#define CUDA_LANES  4
#define LAUNCH_NAME cuda_open_launch_4
#include "machines/cuda/cuda_open_lanes.cuh"
