#define LOOM_LANES 2
#define TEST_NAME  device_tests_2
#include "device/device_tests.cuh"
