#include "bench_limits.h"

#include "bench_axes.h"
#include "bench_progress.h"
#include "bench_timer.h"

#include <stdio.h>
#include <stdlib.h>

struct bench_known_limit {
    loom_limit limit;
    double measured_at;
};

void bench_limit_name(loom_limit_kind kind, uint32_t access_bytes, char name[32])
{
    switch (kind) {
    case LOOM_LIMIT_COPY:
        snprintf(name, 32, "copy");
        return;
    case LOOM_LIMIT_RANDOM_READ:
        snprintf(name, 32, "random_read_%u", (unsigned)access_bytes);
        return;
    case LOOM_LIMIT_RANDOM_CAS:
        snprintf(name, 32, "random_cas");
        return;
    case LOOM_LIMIT_ANSWERED_READ:
        snprintf(name, 32, "answered_read_64");
        return;
    case LOOM_LIMIT_HOST_COPY:
        snprintf(name, 32, "host_copy");
        return;
    case LOOM_LIMIT_HOST_RANDOM_READ:
        snprintf(name, 32, "host_random_read_%u", (unsigned)access_bytes);
        return;
    case LOOM_LIMIT_TO_HOST_COPY:
        snprintf(name, 32, "to_host_copy");
        return;
    case LOOM_LIMIT_HOST_ORDERED_READ:
        snprintf(name, 32, "host_ordered_read_%u", (unsigned)access_bytes);
        return;
    case LOOM_LIMIT_HOST_GATHER:
        snprintf(name, 32, "host_gather_%u", (unsigned)access_bytes);
        return;
    }
    snprintf(name, 32, "unknown");
}

static struct bench_known_limit *find_known(bench_limits *limits, const loom_limit *wanted)
{
    for (size_t i = 0; i < limits->count; i++) {
        const loom_limit *limit = &limits->known[i].limit;
        if (limit->kind == wanted->kind && limit->access_bytes == wanted->access_bytes &&
            limit->footprint_bytes == wanted->footprint_bytes)
            return &limits->known[i];
    }
    return NULL;
}

static struct bench_known_limit *add_known(bench_limits *limits)
{
    struct bench_known_limit *more = realloc(limits->known, (limits->count + 1) * sizeof *more);
    if (!more)
        return NULL;
    limits->known = more;
    more[limits->count] = (struct bench_known_limit){.limit = LOOM_LIMIT_INIT};
    return &more[limits->count++];
}

loom_status bench_limits_get(bench_limits *limits, loom_context *context, loom_limit_kind kind, uint32_t access_bytes,
                             uint64_t footprint_bytes, loom_limit *limit)
{
    loom_limit measured = LOOM_LIMIT_INIT;
    measured.kind = kind;
    measured.access_bytes = access_bytes;
    measured.footprint_bytes = footprint_bytes < BENCH_LIMIT_SMALLEST ? BENCH_LIMIT_SMALLEST : footprint_bytes;

    struct bench_known_limit *known = find_known(limits, &measured);
    if (!known || bench_seconds() - known->measured_at > BENCH_LIMIT_FRESH_SECONDS) {
        char name[32];
        bench_limit_name(kind, access_bytes, name);
        bench_progress("measuring the limit %s over %.2f MiB", name, (double)measured.footprint_bytes / (1 << 20));
        const loom_status status = loom_measure_limit(context, &measured);
        if (status != LOOM_OK)
            return status;
        if (!known)
            known = add_known(limits);
        if (!known)
            return LOOM_OUT_OF_MEMORY;
        if (measured.rate > known->limit.rate)
            known->limit = measured;
        known->measured_at = bench_seconds();
    }
    *limit = known->limit;
    return LOOM_OK;
}

void bench_limits_free(bench_limits *limits)
{
    free(limits->known);
    *limits = (bench_limits){0};
}
