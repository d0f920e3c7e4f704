#define CUDA_LANES  4
#define LAUNCH_NAME cuda_filter_launch_4
#include "machines/cuda/cuda_filter_lanes.cuh"
