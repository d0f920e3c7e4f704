#define CUDA_LANES  2
#define LAUNCH_NAME cuda_filter_launch_2
#include "machines/cuda/cuda_filter_lanes.cuh"
