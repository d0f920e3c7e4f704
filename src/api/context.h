/* The context behind its handle. */
#ifndef LOOM_API_CONTEXT_H
#define LOOM_API_CONTEXT_H

#include "core/machine.h"

#include <stdatomic.h>

struct loom_context {
    loom__machine *machine;
    loom_context_config config;
    _Atomic uint64_t holders; /* the handle itself and every table made from it */
};

void loom__context_hold(loom_context *context);
void loom__context_release(loom_context *context);

/* The seed of the next table: the fixed one, or a random one. */
uint64_t loom__context_seed(const loom_context *context);

void loom__context_log(const loom_context *context, loom_log_level level, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

#endif
