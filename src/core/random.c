#define _GNU_SOURCE
#include "core/random.h"
#include "core/hash.h"

#include <sys/random.h>
#include <time.h>

uint64_t loom__random_number(void)
{
    uint64_t number;
    if (getrandom(&number, sizeof number, GRND_NONBLOCK) == (ssize_t)sizeof number)
        return number;
    /* No entropy yet, early at boot. The clock and the stack address still differ from run to run. */
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return loom__mix64((uint64_t)now.tv_nsec ^ (uint64_t)now.tv_sec << 32 ^ (uint64_t)(uintptr_t)&number);
}
