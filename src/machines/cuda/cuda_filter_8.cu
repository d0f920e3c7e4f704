#define CUDA_LANES  8
#define LAUNCH_NAME cuda_filter_launch_8
#include "machines/cuda/cuda_filter_lanes.cuh"
