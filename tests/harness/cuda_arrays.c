#include "cuda_arrays.h"

#include <stdlib.h>

loom_map *map_of(loom_context *context, uint32_t key_bytes, uint32_t value_bytes, uint64_t capacity,
                 uint32_t concurrent_reads)
{
    loom_map_config config = LOOM_MAP_CONFIG_INIT;
    config.key_bytes = key_bytes;
    config.value_bytes = value_bytes;
    config.type = value_bytes ? LOOM_TYPE_MAP : LOOM_TYPE_SET;
    config.capacity = capacity;
    config.growth = 0;
    config.concurrent_reads = concurrent_reads;
    return make_map_from(context, &config);
}

placed place(loom_context *context, int kind, const void *from, size_t bytes)
{
    placed p = {kind, kind == PLAIN_HOST ? test_allocate(bytes) : cuda_memory_create((cuda_memory)kind, bytes), bytes};
    CHECK_OK(loom_array_copy(context, p.at, from, bytes, NULL));
    return p;
}

void take_back(loom_context *context, placed *p, void *to)
{
    if (to)
        CHECK_OK(loom_array_copy(context, to, p->at, p->bytes, NULL));
    if (p->kind == PLAIN_HOST)
        free(p->at);
    else
        cuda_memory_destroy((cuda_memory)p->kind, p->at);
}
