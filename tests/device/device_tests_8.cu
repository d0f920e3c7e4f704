#define LOOM_LANES 8
#define TEST_NAME  device_tests_8
#include "device/device_tests.cuh"
