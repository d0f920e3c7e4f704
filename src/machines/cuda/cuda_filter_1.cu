#define CUDA_LANES  1
#define LAUNCH_NAME cuda_filter_launch_1
#include "machines/cuda/cuda_filter_lanes.cuh"
