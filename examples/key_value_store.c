/* A key-value store that serves requests in batches. Clients send requests of different kinds; the store collects them
 * and hands them to the table in one call. Requests for the same key are served in the order in which they came.
 *
 *   cc key_value_store.c $(pkg-config --cflags --libs hashloom) && ./a.out
 */
#include <loom/loom.h>

#include <inttypes.h>
#include <stdio.h>

enum { BATCHES = 20, REQUESTS = 5000, KEYS = 20000 };

/* The requests of a batch, and their answers. */
typedef struct requests {
    uint8_t operations[REQUESTS], status[REQUESTS];
    uint64_t keys[REQUESTS], values[REQUESTS], found[REQUESTS];
} requests;

static uint64_t stored[KEYS]; /* to check the store: value by key, plus one; 0: absent */

static void receive(requests *r)
{
    static const uint8_t kinds[] = {LOOM_APPLY_FIND,      LOOM_APPLY_FIND, LOOM_APPLY_FIND,   LOOM_APPLY_INSERT,
                                    LOOM_APPLY_OVERWRITE, LOOM_APPLY_ADD,  LOOM_APPLY_UPDATE, LOOM_APPLY_ERASE};
    static uint64_t random = 1;
    for (int i = 0; i < REQUESTS; i++) {
        random = random * 6364136223846793005u + 1442695040888963407u;
        r->operations[i] = kinds[random >> 61];
        r->keys[i] = (random >> 32) % KEYS;
        r->values[i] = random >> 40;
    }
}

/* Serves request i without the table. Returns whether the answer was the same. */
static int check(const requests *r, int i)
{
    uint64_t *held = &stored[r->keys[i]];
    const int was_there = *held != 0;
    switch (r->operations[i]) {
    case LOOM_APPLY_FIND:
        return r->status[i] == (was_there ? LOOM_OK : LOOM_NOT_FOUND) && r->found[i] == (was_there ? *held - 1 : 0);
    case LOOM_APPLY_ERASE:
        *held = 0;
        return r->status[i] == (was_there ? LOOM_OK : LOOM_NOT_FOUND);
    case LOOM_APPLY_UPDATE:
        *held = was_there ? r->values[i] + 1 : 0;
        return r->status[i] == (was_there ? LOOM_OK : LOOM_NOT_FOUND);
    case LOOM_APPLY_INSERT:
        *held = was_there ? *held : r->values[i] + 1;
        break;
    case LOOM_APPLY_OVERWRITE:
        *held = r->values[i] + 1;
        break;
    default: /* LOOM_APPLY_ADD */
        *held = (was_there ? *held - 1 : 0) + r->values[i] + 1;
        break;
    }
    return r->status[i] == (was_there ? LOOM_EXISTS : LOOM_OK);
}

int main(void)
{
    static requests r;
    loom_context *context = NULL;
    loom_map *store = NULL;
    loom_map_config config = LOOM_MAP_CONFIG_INIT;
    config.key_bytes = config.value_bytes = 8;
    config.capacity = 1000;
    config.growth = 2.0; /* the store grows with its keys */
    int failed = loom_context_create(NULL, &context) || loom_map_create(context, &config, &store), wrong = 0;

    for (int batch = 0; batch < BATCHES && !failed; batch++) {
        receive(&r);
        failed = loom_map_apply(store, r.operations, r.keys, r.values, REQUESTS, LOOM_IN_ORDER, r.found, r.status, NULL,
                                NULL) != LOOM_OK;
        for (int i = 0; i < REQUESTS && !failed; i++)
            wrong += !check(&r, i);
    }
    uint64_t size = 0;
    failed = failed || loom_map_size(store, &size, NULL);
    if (failed)
        fprintf(stderr, "%s\n", loom_last_error());
    else
        printf("%d requests served, %" PRIu64 " keys stored, %d wrong answers\n", BATCHES * REQUESTS, size, wrong);
    loom_map_destroy(store);
    loom_context_destroy(context);
    return failed || wrong;
}
