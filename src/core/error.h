/* Failures: a status to return and a sentence for loom_last_error(). */
#ifndef LOOM_CORE_ERROR_H
#define LOOM_CORE_ERROR_H

#include "loom/loom.h"

/* Keeps the sentence for this thread and returns `status`. The sentence says what was wrong and what to do. */
loom_status loom__fail(loom_status status, const char *format, ...) __attribute__((format(printf, 2, 3)));

#define RETURN_ERROR_IF(condition, status, ...)     \
    do {                                            \
        if (condition)                              \
            return loom__fail(status, __VA_ARGS__); \
    } while (0)

#define RETURN_IF_FAILED(call)                \
    do {                                      \
        loom_status status_of_call_ = (call); \
        if (status_of_call_ != LOOM_OK)       \
            return status_of_call_;           \
    } while (0)

#endif
