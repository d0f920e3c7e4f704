#include "bench_near.h"

bool bench_near_new(const bench_session *session, loom_array_place place, void *host, uint64_t bytes, void **near)
{
    *near = host;
    if (session->info.machine == LOOM_MACHINE_CPU || bytes == 0)
        return true;
    *near = NULL;
    return loom_array_create(session->context, place, bytes, near) == LOOM_OK;
}

void bench_near_free(const bench_session *session, loom_array_place place, void *host, void *near, uint64_t bytes)
{
    if (near != host)
        loom_array_destroy(session->context, place, near, bytes);
}

loom_status bench_near_copy(const bench_session *session, void *to, const void *from, uint64_t bytes)
{
    return to == from ? LOOM_OK : loom_array_copy(session->context, to, from, bytes, NULL);
}
