/* An outside program in C: a map of 8 + 4 byte pairs; exits 0 if every answer is right. */
#include <loom/loom.h>

#include <stdio.h>

enum { N = 1000 };

static int fail(const char *what)
{
    fprintf(stderr, "%s: %s\n", what, loom_last_error());
    return 1;
}

int main(void)
{
    static uint64_t keys[2 * N]; /* the second half is never inserted */
    static uint32_t values[N], found[2 * N];
    static uint8_t status[2 * N];
    loom_context_config context_config = LOOM_CONTEXT_CONFIG_INIT;
    loom_context_info info = LOOM_CONTEXT_INFO_INIT;
    loom_map_config config = LOOM_MAP_CONFIG_INIT;
    loom_stats stats = LOOM_STATS_INIT;
    loom_context *context = NULL;
    loom_map *map = NULL;
    uint64_t i, size = 0;

    if (loom_version() != LOOM_VERSION)
        return fail("header and library differ in version");
    for (i = 0; i < 2 * N; i++)
        keys[i] = i * UINT64_C(0x9e3779b97f4a7c15) - 1; /* begins with all ones */
    for (i = 0; i < N; i++)
        values[i] = (uint32_t)i + 7;

    context_config.threads = 2;
    config.key_bytes = 8;
    config.value_bytes = 4;
    config.capacity = N;
    if (loom_context_create(&context_config, &context) || loom_context_describe(context, &info))
        return fail("context");
    if (loom_map_create(context, &config, &map))
        return fail("create");
    if (loom_map_insert(map, keys, values, N, LOOM_KEEP, NULL, NULL, NULL))
        return fail("insert");
    if (loom_map_find(map, keys, 2 * N, found, NULL, status, NULL, NULL))
        return fail("find");
    for (i = 0; i < 2 * N; i++)
        if (i < N ? status[i] != LOOM_OK || found[i] != values[i] : status[i] != LOOM_NOT_FOUND)
            return fail("a wrong answer");
    if (loom_map_size(map, &size, NULL) || size != N || loom_map_stats(map, &stats, NULL) || stats.size != N)
        return fail("size");

    loom_map_destroy(map);
    loom_context_destroy(context);
    printf("%s, %s: %d keys found\n", info.machine_name, info.simd_name, N);
    return 0;
}
