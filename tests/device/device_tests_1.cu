#define LOOM_LANES 1
#define TEST_NAME  device_tests_1
#include "device/device_tests.cuh"
