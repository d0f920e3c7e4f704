/* Checks of the device tests: the first one that fails ends the program. */
#ifndef LOOM_TESTS_DEVICE_REQUIRE_CUH
#define LOOM_TESTS_DEVICE_REQUIRE_CUH

#include <loom/loom.h>

#include <stdio.h>
#include <stdlib.h>

#define REQUIRE(condition)                                                                  \
    do {                                                                                    \
        if (!(condition)) {                                                                 \
            printf("%s:%d: %s\n  %s\n", __FILE__, __LINE__, #condition, loom_last_error()); \
            exit(1);                                                                        \
        }                                                                                   \
    } while (0)
#define REQUIRE_OK(call)   REQUIRE((call) == LOOM_OK)
#define REQUIRE_CUDA(call) REQUIRE((call) == cudaSuccess)

#endif
