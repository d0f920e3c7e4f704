#define _GNU_SOURCE 1
#include "counting_allocator.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

typedef struct piece {
    void *memory;
    size_t bytes;
    loom_memory_kind kind;
    struct piece *next;
} piece;

struct counting_allocator {
    pthread_mutex_t lock;
    piece *pieces;
    uint64_t count;
    uint64_t bytes;
    uint64_t peak;
    uint64_t requests;
    uint64_t fail_in[2]; /* 1: the next request fails */
    uint64_t limit;
};

static void *allocate(void *user, size_t bytes, size_t alignment, loom_memory_kind kind, loom_stream stream)
{
    counting_allocator *c = user;
    void *memory = NULL;
    CHECK_GT(bytes, 0);
    CHECK(alignment > 0 && (alignment & (alignment - 1)) == 0);
    CHECK(kind == LOOM_MEMORY_HOST || kind == LOOM_MEMORY_TABLE || kind == LOOM_MEMORY_TEMPORARY ||
          kind == LOOM_MEMORY_PINNED);
    CHECK(stream == NULL);
    pthread_mutex_lock(&c->lock);
    c->requests++;
    int refused = c->limit && (bytes > c->limit || c->bytes > c->limit - bytes);
    for (int i = 0; i < 2; i++)
        refused |= c->fail_in[i] && --c->fail_in[i] == 0;
    if (!refused && posix_memalign(&memory, alignment < sizeof(void *) ? sizeof(void *) : alignment, bytes) == 0) {
        piece *p = test_allocate(sizeof *p);
        p->memory = memory;
        p->bytes = bytes;
        p->kind = kind;
        p->next = c->pieces;
        c->pieces = p;
        c->count++;
        c->bytes += bytes;
        if (c->bytes > c->peak)
            c->peak = c->bytes;
        /* Fresh memory is never zero: code that counts on zeros fails. */
        memset(memory, 0xa5, bytes);
    } else {
        memory = NULL;
    }
    pthread_mutex_unlock(&c->lock);
    return memory;
}

static void release(void *user, void *memory, size_t bytes, loom_memory_kind kind, loom_stream stream)
{
    counting_allocator *c = user;
    CHECK(memory != NULL);
    CHECK(stream == NULL);
    pthread_mutex_lock(&c->lock);
    piece **link = &c->pieces;
    while (*link && (*link)->memory != memory)
        link = &(*link)->next;
    if (!*link)
        FAIL("%p is given back but is not out", memory);
    piece *p = *link;
    CHECK_EQ(bytes, p->bytes);
    CHECK_EQ(kind, p->kind);
    *link = p->next;
    c->count--;
    c->bytes -= bytes;
    pthread_mutex_unlock(&c->lock);
    memset(memory, 0x5a, bytes);
    free(memory);
    free(p);
}

counting_allocator *counting_create(void)
{
    counting_allocator *c = test_allocate(sizeof *c);
    memset(c, 0, sizeof *c);
    pthread_mutex_init(&c->lock, NULL);
    return c;
}

void counting_destroy(counting_allocator *c)
{
    CHECK_EQ(counting_pieces(c), 0);
    CHECK_EQ(counting_bytes(c), 0);
    pthread_mutex_destroy(&c->lock);
    free(c);
}

loom_allocator counting_callbacks(counting_allocator *c)
{
    loom_allocator callbacks = {allocate, release, c};
    return callbacks;
}

static uint64_t read_locked(counting_allocator *c, const uint64_t *number)
{
    pthread_mutex_lock(&c->lock);
    uint64_t value = *number;
    pthread_mutex_unlock(&c->lock);
    return value;
}

static void write_locked(counting_allocator *c, uint64_t *number, uint64_t value)
{
    pthread_mutex_lock(&c->lock);
    *number = value;
    pthread_mutex_unlock(&c->lock);
}

uint64_t counting_bytes(counting_allocator *c)
{
    return read_locked(c, &c->bytes);
}

uint64_t counting_pieces(counting_allocator *c)
{
    return read_locked(c, &c->count);
}

uint64_t counting_requests(counting_allocator *c)
{
    return read_locked(c, &c->requests);
}

uint64_t counting_peak(counting_allocator *c)
{
    return read_locked(c, &c->peak);
}

void counting_reset_peak(counting_allocator *c)
{
    pthread_mutex_lock(&c->lock);
    c->peak = c->bytes;
    pthread_mutex_unlock(&c->lock);
}

void counting_fail_at(counting_allocator *c, uint64_t n)
{
    counting_fail_at_both(c, n, 0);
}

void counting_fail_at_both(counting_allocator *c, uint64_t n, uint64_t m)
{
    pthread_mutex_lock(&c->lock);
    c->fail_in[0] = n;
    c->fail_in[1] = m;
    pthread_mutex_unlock(&c->lock);
}

void counting_limit(counting_allocator *c, uint64_t bytes)
{
    write_locked(c, &c->limit, bytes);
}

void check_never_loaded(counting_allocator *c, loom_context *context, const char *path)
{
    loom_map *const untouched = (loom_map *)(uintptr_t)0x1234;
    uint64_t refused = 0, before;
    do {
        loom_map *map = untouched;
        CHECK_LT(++refused, 1000);
        test_note("request %llu refused", (unsigned long long)refused);
        before = counting_requests(c);
        counting_fail_at(c, refused);
        CHECK_REFUSED_EITHER(loom_map_load(context, path, &map, NULL), LOOM_BAD_FILE, LOOM_OUT_OF_MEMORY);
        counting_fail_at(c, 0);
        CHECK(map == untouched);
    } while (counting_requests(c) - before >= refused);
}

loom_context *make_counting_context(test_run *t, counting_allocator *c, uint32_t threads)
{
    loom_context_config config = LOOM_CONTEXT_CONFIG_INIT;
    loom_context *context = NULL;
    config.machine = LOOM_MACHINE_CPU;
    config.simd = t->simd;
    config.threads = threads;
    config.fixed_seed = 1;
    config.seed = random_u64(&t->random);
    config.allocator = counting_callbacks(c);
    CHECK_OK(loom_context_create(&config, &context));
    CHECK(context != NULL);
    return context;
}
