/* A first program: it builds a map, looks some keys up and erases one.
 *
 *   cc quickstart.c $(pkg-config --cflags --libs hashloom) && ./a.out
 */
#include <loom/loom.h>

#include <inttypes.h>
#include <stdio.h>

enum { PAIRS = 5, WANTED = 3 };

int main(void)
{
    const uint32_t keys[PAIRS] = {2, 3, 5, 7, 0xffffffff}; /* every key value is legal */
    const uint32_t values[PAIRS] = {20, 30, 50, 70, 1};
    const uint32_t wanted[WANTED] = {3, 4, 0xffffffff};
    uint32_t found_values[WANTED];
    uint8_t found_status[WANTED];
    uint64_t size = 0;

    loom_context *context = NULL;
    loom_map *map = NULL;
    loom_map_config config = LOOM_MAP_CONFIG_INIT;
    config.key_bytes = config.value_bytes = 4;
    config.capacity = PAIRS;

    int failed = loom_context_create(NULL, &context) || loom_map_create(context, &config, &map) ||
                 loom_map_build(map, keys, values, PAIRS, LOOM_KEEP, NULL, NULL, NULL) ||
                 loom_map_find(map, wanted, WANTED, found_values, NULL, found_status, NULL, NULL);
    for (int i = 0; !failed && i < WANTED; i++) {
        if (found_status[i] == LOOM_OK)
            printf("%" PRIu32 " -> %" PRIu32 "\n", wanted[i], found_values[i]);
        else
            printf("%" PRIu32 " : %s\n", wanted[i], loom_status_text((loom_status)found_status[i]));
    }

    failed = failed || loom_map_erase(map, wanted, 1, NULL, NULL, NULL) || loom_map_size(map, &size, NULL);
    if (failed)
        fprintf(stderr, "%s\n", loom_last_error());
    else
        printf("%" PRIu64 " keys are left\n", size);

    loom_map_destroy(map);
    loom_context_destroy(context);
    return failed;
}
