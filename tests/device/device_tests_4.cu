#define LOOM_LANES 4
#define TEST_NAME  device_tests_4
#include "device/device_tests.cuh"
