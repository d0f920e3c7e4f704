/* Temporary memory of builds: refused, counted, and compared with loom_map_memory_required. */
#include "harness/cuda_driver.h"
#include "harness/map_model.h"
#include "harness/placed_batch.h"

#include <stdlib.h>

/* 600 partitions and more are more than one pass of the cuda machine splits. */
static const struct {
    uint64_t capacity;
    uint32_t buckets; /* 0: chosen by the library */
} shapes[] = {{1500, 0}, {3001, 31}, {7919, 0}, {60013, 7}};

/* Allocates memory of the machine under test and counts temporary memory. The test can make it refuse temporary
 * memory. */
typedef struct temporary_counter {
    int on_device, refuses;
    uint64_t out, peak, refused;
} temporary_counter;

static void *counted_allocate(void *user, size_t bytes, size_t alignment, loom_memory_kind kind, loom_stream stream)
{
    temporary_counter *c = user;
    (void)stream;
    if (kind == LOOM_MEMORY_TEMPORARY) {
        if (c->refuses) {
            c->refused++;
            return NULL;
        }
        c->out += bytes;
        c->peak = c->out > c->peak ? c->out : c->peak;
    }
    if (c->on_device && kind != LOOM_MEMORY_HOST)
        return cuda_memory_create(CUDA_DEVICE, bytes);
    return aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
}

static void counted_release(void *user, void *memory, size_t bytes, loom_memory_kind kind, loom_stream stream)
{
    temporary_counter *c = user;
    if (kind == LOOM_MEMORY_TEMPORARY)
        c->out -= bytes;
    if (c->on_device && kind != LOOM_MEMORY_HOST) {
        if (kind == LOOM_MEMORY_TEMPORARY)
            cuda_stream_wait(stream); /* it may still be in use */
        cuda_memory_destroy(CUDA_DEVICE, memory);
    } else {
        free(memory);
    }
}

static loom_context *make_temporary_context(test_run *t, temporary_counter *c)
{
    loom_context_config config = LOOM_CONTEXT_CONFIG_INIT;
    loom_context *context = NULL;
    if (t->machine == LOOM_MACHINE_CUDA)
        need_cuda();
    c->on_device = t->machine == LOOM_MACHINE_CUDA;
    config.machine = t->machine;
    config.simd = t->simd;
    config.threads = 2;
    config.fixed_seed = 1;
    config.seed = random_u64(&t->random);
    config.allocator = (loom_allocator){counted_allocate, counted_release, c};
    CHECK_OK(loom_context_create(&config, &context));
    return context;
}

TEST_EACH_KIND(test_open_build_temporary_memory_refused)
{
    temporary_counter counter = {0};
    loom_context *context = make_temporary_context(t, &counter);
    uint64_t n = t->machine == LOOM_MACHINE_CUDA ? 1 << 18 : 10000; /* enough for a build by partition */
    loom_map *map = make_map(t, context, 2 * n);
    batch stored = make_batch(t, n), b = make_batch(t, n);
    fill_distinct(&stored, 1, 0);
    fill_distinct(&b, 1, n / 2);
    CHECK_OK(loom_map_build(map, stored.keys, stored.values, n, LOOM_BY_PARTITION, NULL, NULL, NULL));
    check_contents(map, &stored);
    CHECK_GT(counter.peak, 0);
    counter.refuses = 1;
    for (uint32_t flags = LOOM_KEEP; flags <= LOOM_OVERWRITE; flags++) {
        CHECK_REFUSED(loom_map_build(map, b.keys, b.values, n, flags | LOOM_BY_PARTITION, NULL, NULL, NULL),
                      LOOM_OUT_OF_MEMORY);
        check_contents(map, &stored);
        CHECK_REFUSED(loom_map_insert(map, b.keys, b.values, n, flags | LOOM_BY_PARTITION, NULL, NULL, NULL),
                      LOOM_OUT_OF_MEMORY);
        check_contents(map, &stored);
        CHECK_REFUSED(loom_map_build(map, b.keys, b.values, n, flags | LOOM_IN_ORDER, b.status, NULL, NULL),
                      LOOM_OUT_OF_MEMORY);
        check_contents(map, &stored);
        CHECK_REFUSED(loom_map_insert(map, b.keys, b.values, n, flags | LOOM_IN_ORDER, b.status, NULL, NULL),
                      LOOM_OUT_OF_MEMORY);
        check_contents(map, &stored);
    }
    CHECK_EQ(counter.refused, 8);
    CHECK_EQ(counter.out, 0);
    /* Without LOOM_BY_PARTITION and LOOM_DIRECTLY, a build that gets no memory goes directly, or leaves the table as it
     * was. */
    loom_status status = loom_map_build(map, b.keys, b.values, n, LOOM_KEEP, NULL, NULL, NULL);
    CHECK(status == LOOM_OK || (t->machine == LOOM_MACHINE_CPU && status == LOOM_OUT_OF_MEMORY));
    check_contents(map, status == LOOM_OK ? &b : &stored);
    CHECK_OK(loom_map_insert(map, stored.keys, stored.values, n, LOOM_KEEP, NULL, NULL, NULL));
    CHECK_OK(loom_map_build(map, b.keys, b.values, n, LOOM_DIRECTLY, NULL, NULL, NULL));
    check_contents(map, &b);
    CHECK_OK(loom_map_build(map, stored.keys, stored.values, n, LOOM_DIRECTLY, stored.status, NULL, NULL));
    check_contents(map, &stored);
    free_batch(&stored);
    free_batch(&b);
    loom_map_destroy(map);
    loom_context_destroy(context);
}

/* A build takes at most the temporary memory that loom_map_memory_required reports, in order or not. With LOOM_DIRECTLY
 * it takes none. */
TEST_EACH_KIND(test_open_build_by_partition_temporary_bytes, .long_tier = 1)
{
    temporary_counter counter = {0};
    loom_context *context = make_temporary_context(t, &counter);
    for (int i = 0; i < 4; i++)
        for (int w = 1; w <= PLACED_STATUS; w += PLACED_STATUS - 1) {
            loom_map_config config = make_config(t, shapes[i].capacity);
            loom_memory memory = LOOM_MEMORY_INIT;
            config.buckets_per_partition = shapes[i].buckets;
            CHECK_OK(loom_map_memory_required(context, &config, &memory));
            loom_map *map = make_map_from(context, &config);
            batch b = make_batch(t, shapes[i].capacity);
            fill_distinct(&b, 1, 0);
            test_note("capacity %llu, %s", (unsigned long long)b.n, placements[w].name);
            for (int round = 0; round < 4; round++) {
                static const uint32_t flags[] = {LOOM_BY_PARTITION, LOOM_KEEP, LOOM_DIRECTLY, LOOM_IN_ORDER};
                const uint64_t build = placements[w].status ? memory.status_bytes : memory.build_bytes;
                const uint64_t most[] = {build, build, 0, memory.order_bytes};
                counter.peak = 0;
                placed_batch p = place_batch(context, &b, &placements[w]);
                CHECK_OK(loom_map_build(map, p.keys, p.values, b.n, flags[round], p.status, p.result, NULL));
                CHECK_EQ(take_back_batch(&p, &b).ok, b.n);
                CHECK_EQ(counter.out, 0);
                CHECK_LE(counter.peak, most[round]);
            }
            counter.peak = 0;
            placed_batch p = place_batch(context, &b, &placements[w]);
            CHECK_OK(
                loom_map_insert(map, p.keys, p.values, b.n, LOOM_OVERWRITE | LOOM_IN_ORDER, p.status, p.result, NULL));
            CHECK_EQ(take_back_batch(&p, &b).exists, b.n);
            CHECK_EQ(counter.out, 0);
            CHECK_LE(counter.peak, memory.order_bytes);
            check_contents(map, &b);
            free_batch(&b);
            loom_map_destroy(map);
        }
    loom_context_destroy(context);
}

/* Temporary memory of a build for each pair of a large table. The test makes no table. */
TEST_EACH_KIND(test_open_build_memory_of_a_pair)
{
    loom_context *context = make_context(t);
    const double pair_bytes = t->key_bytes + t->value_bytes;
    for (int percent = 50; percent <= 95; percent += 15) {
        const double load = percent / 100.0;
        loom_map_config config = make_config(t, 100000000);
        loom_memory memory = LOOM_MEMORY_INIT;
        config.max_load = load;
        CHECK_OK(loom_map_memory_required(context, &config, &memory));
        const double keys = (double)config.capacity;
        test_note("load %g: %g, %g with statuses, %g in order, %g with little memory", load,
                  (double)memory.build_bytes / keys, (double)memory.status_bytes / keys,
                  (double)memory.order_bytes / keys, (double)memory.low_memory_bytes / keys);
        CHECK_LE((double)memory.build_bytes, keys * pair_bytes * 9 / 8);
        CHECK_LT((double)memory.low_memory_bytes, keys * pair_bytes / 4);
        CHECK(t->machine != LOOM_MACHINE_CUDA || memory.low_memory_bytes > 0);
        CHECK_GE(memory.status_bytes, memory.build_bytes);
        CHECK_GE(memory.order_bytes, memory.build_bytes);
    }
    loom_context_destroy(context);
}

/* With a workspace that is large enough, calls allocate nothing. A workspace that is too small is ignored. */
TEST_EACH_KIND(test_open_build_workspace)
{
    temporary_counter counter = {0};
    loom_context *context = make_temporary_context(t, &counter);
    const uint64_t n = 20011;
    loom_map_config config = make_config(t, n);
    loom_memory memory = LOOM_MEMORY_INIT;
    void *workspace = NULL;
    config.buckets_per_partition = 31;
    CHECK_OK(loom_map_memory_required(context, &config, &memory));
    loom_map *map = make_map_from(context, &config);
    batch b = make_batch(t, n), half = make_batch(t, n / 2);
    fill_distinct(&b, 1, 0);
    fill_distinct(&half, 1, 0);
    CHECK_OK(loom_array_create(context, LOOM_ARRAY_MACHINE, memory.order_bytes, &workspace));
    CHECK_REFUSED(loom_map_set_workspace(NULL, workspace, 256), LOOM_INVALID_ARGUMENT);
    CHECK_REFUSED(loom_map_set_workspace(map, workspace, 0), LOOM_INVALID_ARGUMENT);
    CHECK_REFUSED(loom_map_set_workspace(map, NULL, 256), LOOM_INVALID_ARGUMENT);
    CHECK_REFUSED(loom_map_set_workspace(map, (char *)workspace + 8, 256), LOOM_INVALID_ARGUMENT);
    const uint64_t sizes[] = {0, 512, memory.order_bytes}; /* none, too small, large enough */
    for (int round = 0; round < 3; round++) {
        CHECK_OK(loom_map_set_workspace(map, round ? workspace : NULL, sizes[round]));
        for (int w = 1; w <= PLACED_STATUS; w += PLACED_STATUS - 1)
            for (uint32_t flags = LOOM_BY_PARTITION; flags <= (LOOM_BY_PARTITION | LOOM_IN_ORDER); flags += 2) {
                test_note("round %d, flags 0x%x, %s", round, flags, placements[w].name);
                counter.peak = 0;
                placed_batch p = place_batch(context, &half, &placements[w]);
                CHECK_OK(loom_map_build(map, p.keys, p.values, half.n, flags, p.status, p.result, NULL));
                CHECK_EQ(take_back_batch(&p, &half).ok, half.n);
                p = place_batch(context, &b, &placements[w]);
                CHECK_OK(loom_map_insert(map, p.keys, p.values, n, LOOM_OVERWRITE | LOOM_IN_ORDER, p.status, p.result,
                                         NULL));
                CHECK_EQ(take_back_batch(&p, &b).exists, half.n);
                check_contents(map, &b);
                CHECK_EQ(counter.out, 0);
                CHECK(round == 2 ? counter.peak == 0 : counter.peak > 0);
            }
    }
    free_batch(&b);
    free_batch(&half);
    loom_map_destroy(map);
    loom_array_destroy(context, LOOM_ARRAY_MACHINE, workspace, memory.order_bytes);
    loom_context_destroy(context);
}
