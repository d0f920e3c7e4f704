#define CUDA_LANES  2
#define LAUNCH_NAME cuda_open_launch_2
#include "machines/cuda/cuda_open_lanes.cuh"
