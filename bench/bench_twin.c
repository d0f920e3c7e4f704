#include "bench_twin.h"

#include "bench_array.h"
#include "bench_near.h"
#include "bench_threads.h"

bool bench_twin_new(const bench_session *session, bench_twin *twin, uint64_t n, uint64_t bytes_of_each)
{
    *twin = (bench_twin){.host = bench_array_new(n, bytes_of_each), .bytes = n * bytes_of_each};
    return twin->host && bench_near_new(session, LOOM_ARRAY_MACHINE, twin->host, twin->bytes, &twin->near);
}

void bench_twin_free(const bench_session *session, bench_twin *twin)
{
    bench_near_free(session, LOOM_ARRAY_MACHINE, twin->host, twin->near, twin->bytes);
    bench_array_free(twin->host);
    *twin = (bench_twin){0};
}

loom_status bench_twin_send(const bench_session *session, const bench_twin *twin)
{
    return bench_near_copy(session, twin->near, twin->host, twin->bytes);
}

loom_status bench_twin_fetch(const bench_session *session, const bench_twin *twin)
{
    return bench_near_copy(session, twin->host, twin->near, twin->bytes);
}

loom_status bench_twin_spoil(const bench_session *session, const bench_twin *twin)
{
    bench_fill(twin->host, 0xa5, twin->bytes);
    return bench_twin_send(session, twin);
}
