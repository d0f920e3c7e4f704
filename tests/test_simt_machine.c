/* Tests of the lane simulator: which outcomes its memory allows and forbids (litmus tests), and which misuse of
 * collectives it reports. */
#include "harness/harness.h"
#include "simt/machine/simt.h"

#include <string.h>

static _Alignas(8) uint64_t shared_words[8];
static uint64_t seen[8]; /* reports of lanes; not shared memory */

#define X (&shared_words[0])
#define Y (&shared_words[1])

static simt_schedule schedule;
static const simt_config lone_lanes = {.group_lanes = 1, .warp_lanes = 1, .weak_memory = 1, .step_limit = 2000};

static int run_kernels(const simt_config *config, void (*left)(void *), void (*right)(void *), uint32_t groups)
{
    memset(shared_words, 0, sizeof shared_words);
    memset(seen, 0, sizeof seen);
    simt_begin(config, &schedule, shared_words, sizeof shared_words);
    simt_call call = {.kernel = left, .name = "left", .groups = groups, .warps_per_block = 2, .writes = 1};
    simt_launch(0, &call);
    if (right != NULL) {
        call.kernel = right;
        call.name = "right";
        simt_launch(1, &call);
    }
    return simt_run();
}

/* The set of outcomes (seen[0], seen[1]), each below 4, that schedules of two lanes bring. */
static uint32_t outcomes(void (*left)(void *), void (*right)(void *), int weak)
{
    simt_config config = lone_lanes;
    config.weak_memory = weak;
    uint32_t set = 0;
    for (int kind = 0; kind < 3; kind++) {
        if (kind == 2) {
            simt_schedule_exhaustive(&schedule, 3);
            do {
                CHECK(run_kernels(&config, left, right, 1));
                set |= 1u << (seen[0] * 4 + seen[1]);
            } while (simt_schedule_next(&schedule));
            continue;
        }
        for (uint64_t seed = 0; seed < 3000; seed++) {
            if (kind == 0)
                simt_schedule_random(&schedule, seed);
            else
                simt_schedule_priority(&schedule, seed, 16);
            CHECK(run_kernels(&config, left, right, 1));
            set |= 1u << (seen[0] * 4 + seen[1]);
        }
    }
    return set;
}

#define OUTCOME(a, b) (1u << ((a)*4 + (b)))

/* ---- message passing ---- */

static void pass_plain(void *argument)
{
    (void)argument;
    simt_store(X, 8, 1, SIMT_HERE);
    simt_store(Y, 8, 1, SIMT_HERE);
}

static void pass_released(void *argument)
{
    (void)argument;
    simt_store(X, 8, 1, SIMT_HERE);
    simt_release(SIMT_HERE);
    simt_store(Y, 8, 1, SIMT_HERE);
}

static void receive_plain(void *argument)
{
    (void)argument;
    seen[0] = simt_load(Y, 8, 1, SIMT_HERE);
    seen[1] = simt_load(X, 8, 1, SIMT_HERE);
}

static void receive_acquired(void *argument)
{
    (void)argument;
    seen[0] = simt_load(Y, 8, 1, SIMT_HERE);
    simt_acquire(SIMT_HERE);
    seen[1] = simt_load(X, 8, 1, SIMT_HERE);
}

TEST(test_simt_memory_message_passing)
{
    uint32_t ordered = OUTCOME(0, 0) | OUTCOME(0, 1) | OUTCOME(1, 1), all = ordered | OUTCOME(1, 0);
    CHECK_EQ(outcomes(pass_plain, receive_plain, 1), all);
    CHECK_EQ(outcomes(pass_released, receive_plain, 1), all);
    CHECK_EQ(outcomes(pass_plain, receive_acquired, 1), all);
    CHECK_EQ(outcomes(pass_released, receive_acquired, 1), ordered);
    CHECK_EQ(outcomes(pass_plain, receive_plain, 0), ordered);
}

/* A read-modify-write between the store and the load carries the release on. */
static void pass_swapped(void *argument)
{
    pass_released(argument);
    simt_add(Y, 1, SIMT_HERE);
}

TEST(test_simt_memory_release_sequence)
{
    CHECK_EQ(outcomes(pass_swapped, receive_acquired, 1),
             OUTCOME(0, 0) | OUTCOME(0, 1) | OUTCOME(1, 1) | OUTCOME(2, 1));
}

/* Two halves of one word, with one writer each. A load of a half brings what its writer released before, even after a
 * store to the other half. */
static void pass_half(void *argument)
{
    (void)argument;
    simt_store(X, 8, 1, SIMT_HERE);
    simt_release(SIMT_HERE);
    simt_store(Y, 4, 1, SIMT_HERE);
}

static void receive_half(void *argument)
{
    (void)argument;
    simt_store((uint32_t *)Y + 1, 4, 1, SIMT_HERE);
    seen[0] = simt_load(Y, 4, 1, SIMT_HERE);
    simt_acquire(SIMT_HERE);
    seen[1] = simt_load(X, 8, 1, SIMT_HERE);
}

static void swap_half(void *argument)
{
    (void)argument;
    simt_swap((uint32_t *)Y + 1, 4, 0, 1, SIMT_HERE);
    seen[0] = simt_load(Y, 4, 1, SIMT_HERE);
    simt_acquire(SIMT_HERE);
    seen[1] = simt_load(X, 8, 1, SIMT_HERE);
}

TEST(test_simt_memory_halves)
{
    uint32_t ordered = OUTCOME(0, 0) | OUTCOME(0, 1) | OUTCOME(1, 1);
    CHECK_EQ(outcomes(pass_half, receive_half, 1), ordered);
    CHECK_EQ(outcomes(pass_half, swap_half, 1), ordered);
}

/* ---- store buffering: only stronger fences than ours forbid (0, 0) ---- */

static void buffer_left(void *argument)
{
    (void)argument;
    simt_store(X, 8, 1, SIMT_HERE);
    seen[0] = simt_load(Y, 8, 1, SIMT_HERE);
}

static void buffer_right(void *argument)
{
    (void)argument;
    simt_store(Y, 8, 1, SIMT_HERE);
    seen[1] = simt_load(X, 8, 1, SIMT_HERE);
}

TEST(test_simt_memory_store_buffering)
{
    uint32_t strong = OUTCOME(0, 1) | OUTCOME(1, 0) | OUTCOME(1, 1);
    CHECK_EQ(outcomes(buffer_left, buffer_right, 1), strong | OUTCOME(0, 0));
    CHECK_EQ(outcomes(buffer_left, buffer_right, 0), strong);
}

/* ---- coherence: one word never goes back ---- */

static void write_twice(void *argument)
{
    (void)argument;
    simt_store(X, 8, 1, SIMT_HERE);
    simt_store(X, 8, 2, SIMT_HERE);
}

static void read_twice(void *argument)
{
    (void)argument;
    seen[0] = simt_load(X, 8, 1, SIMT_HERE);
    seen[1] = simt_load(X, 8, 1, SIMT_HERE);
}

TEST(test_simt_memory_coherence)
{
    CHECK_EQ(outcomes(write_twice, read_twice, 1),
             OUTCOME(0, 0) | OUTCOME(0, 1) | OUTCOME(0, 2) | OUTCOME(1, 1) | OUTCOME(1, 2) | OUTCOME(2, 2));
}

/* A lane sees its own stores, visible to others or not. */
static void write_and_read(void *argument)
{
    (void)argument;
    simt_store(X, 4, 1, SIMT_HERE);
    simt_store((uint32_t *)X + 1, 4, 1, SIMT_HERE);
    seen[0] = simt_load(X, 8, 1, SIMT_HERE) == 0x100000001u;
    seen[1] = simt_load(X, 4, 1, SIMT_HERE);
}

TEST(test_simt_memory_own_stores)
{
    CHECK_EQ(outcomes(write_and_read, NULL, 1), OUTCOME(1, 1));
}

/* ---- two words, two writers: buffers drain in any order ---- */

static void write_x_y(void *argument)
{
    (void)argument;
    simt_store(X, 8, 1, SIMT_HERE);
    simt_store(Y, 8, 2, SIMT_HERE);
}

static void write_y_x(void *argument)
{
    (void)argument;
    simt_store(Y, 8, 1, SIMT_HERE);
    simt_store(X, 8, 2, SIMT_HERE);
}

TEST(test_simt_memory_buffers_drain_in_any_order)
{
    uint32_t set = 0;
    for (uint64_t seed = 0; seed < 3000; seed++) {
        simt_schedule_random(&schedule, seed);
        CHECK(run_kernels(&lone_lanes, write_x_y, write_y_x, 1));
        set |= 1u << (*X * 4 + *Y);
    }
    CHECK_EQ(set, OUTCOME(1, 1) | OUTCOME(1, 2) | OUTCOME(2, 1) | OUTCOME(2, 2));
}

/* ---- atomics ---- */

static void add_one(void *argument)
{
    (void)argument;
    simt_add(X, 1, SIMT_HERE);
    uint64_t old = simt_load(Y, 8, 1, SIMT_HERE), was;
    while ((was = simt_swap(Y, 8, old, old + 1, SIMT_HERE)) != old) /* each failure is another lane's success */
        old = was;
}

TEST(test_simt_memory_atomics)
{
    simt_config config = {.group_lanes = 1, .warp_lanes = SIMT_WARP, .weak_memory = 1, .step_limit = 20000};
    for (uint64_t seed = 0; seed < 200; seed++) {
        simt_schedule_random(&schedule, seed);
        CHECK(run_kernels(&config, add_one, add_one, 40)); /* two warps in each call */
        CHECK_EQ(*X, 128);
        CHECK_EQ(*Y, 128);
    }
}

/* A call sees all writes of earlier calls on its stream. */
static void read_x_y(void *argument)
{
    (void)argument;
    seen[0] = simt_load(X, 8, 1, SIMT_HERE);
    seen[1] = simt_load(Y, 8, 1, SIMT_HERE);
}

TEST(test_simt_memory_calls_follow_each_other)
{
    for (uint64_t seed = 0; seed < 1000; seed++) {
        simt_schedule_random(&schedule, seed);
        memset(shared_words, 0, sizeof shared_words);
        simt_begin(&lone_lanes, &schedule, shared_words, sizeof shared_words);
        simt_call call = {.kernel = pass_plain, .name = "first", .groups = 1, .warps_per_block = 1, .writes = 1};
        simt_launch(0, &call);
        call.kernel = read_x_y;
        simt_launch(0, &call);
        CHECK(simt_run());
        CHECK_EQ(seen[0], 1);
        CHECK_EQ(seen[1], 1);
    }
}

/* ---- collectives ---- */

static const simt_config one_warp = {.group_lanes = 4, .warp_lanes = SIMT_WARP, .weak_memory = 1, .step_limit = 5000};

static int run_warp(const simt_config *config, void (*kernel)(void *), uint64_t seed)
{
    simt_schedule_random(&schedule, seed);
    return run_kernels(config, kernel, NULL, 16); /* one block: two warps of 8 groups */
}

static void vote_and_shuffle(void *argument)
{
    (void)argument;
    uint32_t lane = simt.current->in_warp;
    uint32_t votes = simt_ballot(simt_warp_mask(), lane % 3 == 0, SIMT_HERE);
    uint64_t next = simt_shuffle(simt_warp_mask(), lane * 10, (lane + 1) % 32, SIMT_HERE);
    uint32_t own = simt_ballot(simt_group_mask(), 1, SIMT_HERE);
    if (votes != 0x49249249u || next != (lane + 1) % 32 * 10 || own != simt_group_mask())
        simt_fail("lane %u got %08x, %llu, %08x", lane, votes, (unsigned long long)next, own);
}

TEST(test_simt_collective_results)
{
    for (uint64_t seed = 0; seed < 200; seed++)
        if (!run_warp(&one_warp, vote_and_shuffle, seed))
            FAIL("%s", simt.failure);
}

/* After a sync of the warp, or a barrier of the block, all lanes see what lane 0 wrote before. */
static int use_barrier, use_neither;

static void write_then_meet(void *argument)
{
    (void)argument;
    if (simt.current->index == 0)
        simt_store(X, 8, 7, SIMT_HERE);
    if (use_neither)
        simt_ballot(simt_warp_mask(), 1, SIMT_HERE); /* a ballot orders nothing */
    else if (use_barrier)
        (void)simt_barrier(0, SIMT_HERE);
    else
        simt_sync(simt_warp_mask(), SIMT_HERE);
    if ((use_barrier || simt.current->warp == 0) && simt_load(X, 8, 1, SIMT_HERE) != 7)
        simt_fail("lane %u did not see it", simt.current->index);
}

TEST(test_simt_collective_sync_orders)
{
    int missed = 0;
    for (use_barrier = 0; use_barrier < 2; use_barrier++)
        for (uint64_t seed = 0; seed < 200; seed++)
            if (!run_warp(&one_warp, write_then_meet, seed))
                FAIL("%s", simt.failure);
    use_barrier = 0;
    use_neither = 1;
    for (uint64_t seed = 0; seed < 200; seed++)
        missed += !run_warp(&one_warp, write_then_meet, seed);
    CHECK_GT(missed, 0);
}

/* Bytes of a team's memory: each of eight lanes stores one byte of a word, and a barrier counts these lanes. */
static int one_byte_for_all;

static void store_bytes(void *argument)
{
    (void)argument;
    const uint32_t lane = simt.current->index;
    uint8_t *byte = (uint8_t *)X + (one_byte_for_all ? 0 : lane);
    if (lane < 8) {
        simt_touch(byte, 1, SIMT_STORES, lane + 1, SIMT_HERE);
        simt_store(byte, 1, lane + 1, SIMT_HERE);
    }
    const uint32_t count = simt_barrier(lane < 8, SIMT_HERE);
    simt_touch(X, 8, SIMT_LOADS, 0, SIMT_HERE);
    const uint64_t word = simt_load(X, 8, 1, SIMT_HERE);
    if (count != 8 || word != 0x0807060504030201u)
        simt_fail("lane %u counts %u, and reads %llx", lane, count, (unsigned long long)word);
}

TEST(test_simt_team_bytes_and_counts)
{
    one_byte_for_all = 0;
    for (uint64_t seed = 0; seed < 200; seed++)
        if (!run_warp(&one_warp, store_bytes, seed))
            FAIL("%s", simt.failure);
    one_byte_for_all = 1;
    CHECK(!run_warp(&one_warp, store_bytes, 0));
    CHECK(strstr(simt.failure, "another lane touches, too") != NULL);
}

/* Lanes may diverge and meet again, as long as every lane of a collective's mask arrives there. */
static void part_and_meet(void *argument)
{
    (void)argument;
    if (simt.current->in_warp / 4 % 2 == 0)
        simt_sync(simt_group_mask(), SIMT_HERE);
    simt_ballot(simt_warp_mask(), 1, SIMT_HERE);
}

TEST(test_simt_collective_divergence_is_legal)
{
    for (uint64_t seed = 0; seed < 200; seed++)
        if (!run_warp(&one_warp, part_and_meet, seed))
            FAIL("%s", simt.failure);
}

static void check_failure(void (*kernel)(void *), const char *sentence)
{
    for (uint64_t seed = 0; seed < 20; seed++) {
        CHECK(!run_warp(&one_warp, kernel, seed));
        if (strstr(simt.failure, sentence) == NULL)
            FAIL("'%s' does not speak of '%s'", simt.failure, sentence);
    }
}

static void different_places(void *argument)
{
    (void)argument;
    if (simt.current->in_warp == 5)
        simt_ballot(simt_warp_mask(), 1, SIMT_HERE);
    else
        simt_ballot(simt_warp_mask(), 0, SIMT_HERE);
}

static void leave_early(void *argument)
{
    (void)argument;
    if (simt.current->in_warp != 5)
        simt_ballot(simt_warp_mask(), 0, SIMT_HERE);
}

static void outside_own_mask(void *argument)
{
    (void)argument;
    simt_ballot(2, 1, SIMT_HERE);
}

static void shuffle_from_outside(void *argument)
{
    (void)argument;
    simt_shuffle(simt_group_mask(), 1, (simt.current->in_warp + 4) % 32, SIMT_HERE);
}

static void barrier_without_a_warp(void *argument)
{
    (void)argument;
    if (simt.current->warp == 0)
        (void)simt_barrier(0, SIMT_HERE);
}

/* Lanes wait in a circle: no two of them wait for each other. */
static void wait_in_a_circle(void *argument)
{
    (void)argument;
    uint32_t lane = simt.current->in_warp;
    if (lane < 3)
        simt_ballot(1u << lane | 1u << (lane + 1) % 3, 1, SIMT_HERE);
}

static void wait_for_ever(void *argument)
{
    (void)argument;
    while (simt_load(X, 8, 1, SIMT_HERE) == 0)
        continue;
}

static void stray_access(void *argument)
{
    (void)argument;
    simt_load(shared_words + 8, 8, 1, SIMT_HERE);
}

TEST(test_simt_collective_misuse_is_told)
{
    check_failure(different_places, "each waits for the other");
    check_failure(leave_early, "left the kernel");
    check_failure(outside_own_mask, "not in its own mask");
    check_failure(shuffle_from_outside, "which is not in mask");
    check_failure(barrier_without_a_warp, "left the kernel");
    check_failure(wait_in_a_circle, "for lanes that never come");
}

TEST(test_simt_machine_livelock_is_cut)
{
    check_failure(wait_for_ever, "not at an end after 5000 steps");
}

TEST(test_simt_machine_stray_access_is_told)
{
    check_failure(stray_access, "outside the table");
}

/* Loads that are not coherent, which only a table at rest allows, beside a writer. */
static void read_at_rest(void *argument)
{
    (void)argument;
    for (int i = 0; i < 10; i++)
        simt_load(X, 8, 0, SIMT_HERE);
}

TEST(test_simt_machine_unshared_read_beside_a_writer_is_told)
{
    simt_schedule_random(&schedule, 1);
    CHECK(!run_kernels(&lone_lanes, read_at_rest, write_twice, 1));
    CHECK(strstr(simt.failure, "a table at rest") != NULL);
}
