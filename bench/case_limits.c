/* The case `limits`: what this machine can do at most, over arrays from one that fits a core's cache to one that fits
 * none. Every other case is compared with these limits, measured at its own footprint. */
#include "bench_axes.h"
#include "bench_case.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <unistd.h>

static const uint64_t footprints[] = {BENCH_LIMIT_FOOTPRINTS};
static const uint32_t access_bytes[] = {BENCH_LIMIT_ACCESS_BYTES};
static const uint64_t host_footprints[] = {BENCH_LIMIT_HOST_FOOTPRINTS};
static const uint32_t row_bytes[] = {BENCH_LIMIT_ROW_BYTES};

static uint64_t host_memory(void)
{
    return (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
}

static void measure(bench_session *session, loom_limit_kind kind, uint32_t bytes, uint64_t footprint)
{
    char name[32];
    loom_limit limit;
    bench_limit_name(kind, bytes, name);
    bench_row row = bench_row_new(bench_case_limits.name, session->info.machine_name, name);
    row.n = footprint;
    if (bench_limits_get(&session->limits, session->context, kind, bytes, footprint, &limit) != LOOM_OK)
        bench_row_fail(&row, "%s", loom_last_error());
    else if (!(limit.rate > 0))
        bench_row_fail(&row, "the rate is %g", limit.rate);
    else if (kind == LOOM_LIMIT_COPY || kind == LOOM_LIMIT_HOST_COPY || kind == LOOM_LIMIT_TO_HOST_COPY)
        row.gbps = limit.rate * 1e-9;
    else
        row.mops = limit.rate * 1e-6;
    if (!bench_row_failed(&row))
        snprintf(row.note, sizeof row.note, "%s", limit.shape);
    bench_report_add(&session->report, &row);
}

static void run_limits(bench_session *session)
{
    const bool device = session->info.machine != LOOM_MACHINE_CPU;
    const uint64_t largest =
        session->info.memory_bytes / (device ? BENCH_LIMIT_SHARE_OF_MEMORY : BENCH_LIMIT_SHARE_OF_HOST);
    for (size_t i = 0; i < sizeof footprints / sizeof *footprints; i++) {
        if (i > 0 && footprints[i] > largest)
            break;
        measure(session, LOOM_LIMIT_COPY, 0, footprints[i]);
        for (size_t j = 0; j < sizeof access_bytes / sizeof *access_bytes; j++)
            measure(session, LOOM_LIMIT_RANDOM_READ, access_bytes[j], footprints[i]);
        measure(session, LOOM_LIMIT_RANDOM_CAS, 0, footprints[i]);
        if (device)
            measure(session, LOOM_LIMIT_ANSWERED_READ, 0, footprints[i]);
    }
    if (!device)
        return;
    measure(session, LOOM_LIMIT_HOST_COPY, 0, BENCH_LIMIT_LINK);
    measure(session, LOOM_LIMIT_TO_HOST_COPY, 0, BENCH_LIMIT_LINK);
    for (size_t j = 0; j < sizeof access_bytes / sizeof *access_bytes; j++)
        measure(session, LOOM_LIMIT_HOST_RANDOM_READ, access_bytes[j], BENCH_LIMIT_LINK);
    for (size_t i = 0; i < sizeof host_footprints / sizeof *host_footprints; i++) {
        if (host_footprints[i] > host_memory() / BENCH_LIMIT_SHARE_OF_HOST_FOR_ROWS)
            break;
        for (size_t j = 0; j < sizeof row_bytes / sizeof *row_bytes; j++) {
            measure(session, LOOM_LIMIT_HOST_RANDOM_READ, row_bytes[j], host_footprints[i]);
            measure(session, LOOM_LIMIT_HOST_ORDERED_READ, row_bytes[j], host_footprints[i]);
            measure(session, LOOM_LIMIT_HOST_GATHER, row_bytes[j], host_footprints[i]);
        }
    }
}

const bench_case bench_case_limits = {.name = "limits",
                                      .summary =
                                          "copy bandwidth, random reads of 8 to 128 bytes and random compare-and-swap",
                                      .run = run_limits};
