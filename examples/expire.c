/* A cache whose entries expire. Each key has the time of its last use. Every second some keys are used, and all keys
 * that were not used for TIME_TO_LIVE seconds are erased by one call.
 *
 *   cc expire.c $(pkg-config --cflags --libs hashloom) && ./a.out
 */
#include <loom/loom.h>

#include <inttypes.h>
#include <stdio.h>

enum { SECONDS = 20, TIME_TO_LIVE = 5, USED = 10000, KEYS = 100000 };

static uint64_t last_used[KEYS]; /* to check the cache: by key, in seconds plus one; 0: never */

/* Keys that were used after `oldest`. */
static uint64_t expected_size(uint64_t oldest)
{
    uint64_t size = 0;
    for (uint64_t key = 0; key < KEYS; key++)
        size += last_used[key] > oldest;
    return size;
}

int main(void)
{
    static uint64_t keys[USED], times[USED];
    loom_context *context = NULL;
    loom_map *cache = NULL;
    loom_map_config config = LOOM_MAP_CONFIG_INIT;
    config.key_bytes = config.value_bytes = 8;
    config.capacity = USED * (TIME_TO_LIVE + 1);
    int failed = loom_context_create(NULL, &context) || loom_map_create(context, &config, &cache), wrong = 0;

    uint64_t random = 1;
    for (uint64_t now = 1; now <= SECONDS && !failed; now++) {
        for (int i = 0; i < USED; i++) {
            random = random * 6364136223846793005u + 1442695040888963407u;
            keys[i] = (random >> 33) % KEYS;
            last_used[keys[i]] = times[i] = now;
        }
        /* A key that is in the cache already gets the new time. */
        failed = loom_map_insert(cache, keys, times, USED, LOOM_OVERWRITE, NULL, NULL, NULL);

        const uint64_t oldest = now > TIME_TO_LIVE ? now - TIME_TO_LIVE : 0;
        loom_result result;
        failed = failed || loom_map_erase_if(cache, LOOM_NUMBER_U64, NULL, &oldest, &result, NULL);
        if (failed)
            break;
        printf("second %2" PRIu64 ": %5" PRIu64 " entries expired, %5" PRIu64 " stay\n", now, result.ok, result.exists);
        wrong = wrong || result.exists != expected_size(oldest);
    }
    if (failed)
        fprintf(stderr, "%s\n", loom_last_error());
    if (wrong)
        fprintf(stderr, "the cache has other entries than expected\n");
    loom_map_destroy(cache);
    loom_context_destroy(context);
    return failed || wrong;
}
