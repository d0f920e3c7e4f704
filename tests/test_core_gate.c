/* The lock of a handle: writers are alone, readers share, nobody is overtaken, and it may be freed after a writer that
 * came last has left. */
#include "core/gate.h"
#include "harness/harness.h"

#include <pthread.h>
#include <stdlib.h>
#include <time.h>

enum { THREADS = 4 };

typedef struct guarded {
    loom__gate gate;
    uint64_t one, other; /* equal, except while a writer is inside */
    uint64_t rounds;
    atomic_uint_least64_t inside; /* readers */
    atomic_int stop;
} guarded;

static guarded *make_guarded(uint64_t rounds)
{
    guarded *g = calloc(1, sizeof *g);
    CHECK(g != NULL);
    loom__gate_init(&g->gate);
    g->rounds = rounds;
    return g;
}

static void write_once(guarded *g)
{
    loom__gate_enter(&g->gate, 1);
    CHECK_EQ(atomic_load(&g->inside), 0);
    g->one++;
    CHECK_EQ(g->one, g->other + 1);
    g->other++;
    loom__gate_leave(&g->gate, 1);
}

static void read_once(guarded *g)
{
    loom__gate_enter(&g->gate, 0);
    atomic_fetch_add(&g->inside, 1);
    CHECK_EQ(g->one, g->other);
    atomic_fetch_sub(&g->inside, 1);
    loom__gate_leave(&g->gate, 0);
}

static void *read_and_write(void *argument)
{
    guarded *g = argument;
    for (uint64_t i = 0; i < g->rounds; i++)
        if (i % 5 == 4)
            write_once(g);
        else
            read_once(g);
    return NULL;
}

static void start(pthread_t *threads, int count, void *(*run)(void *), void *argument)
{
    for (int i = 0; i < count; i++)
        CHECK_EQ(pthread_create(&threads[i], NULL, run, argument), 0);
}

static void join(pthread_t *threads, int count)
{
    for (int i = 0; i < count; i++)
        pthread_join(threads[i], NULL);
}

TEST(test_core_gate_keeps_writers_apart, .threads = 1)
{
    pthread_t threads[THREADS];
    guarded *g = make_guarded(test_scaled(t, 100000, 10000));
    start(threads, THREADS, read_and_write, g);
    join(threads, THREADS);
    CHECK_EQ(g->one, THREADS * (g->rounds / 5));
    loom__gate_destroy(&g->gate);
    free(g);
}

static void *read_until_stopped(void *argument)
{
    guarded *g = argument;
    while (!atomic_load(&g->stop))
        read_once(g);
    return NULL;
}

/* Readers come and go without a pause: a writer gets in all the same. */
TEST(test_core_gate_lets_a_writer_in, .threads = 1)
{
    pthread_t threads[THREADS];
    guarded *g = make_guarded(0);
    start(threads, THREADS, read_until_stopped, g);
    for (uint64_t i = 0; i < test_scaled(t, 1000, 100); i++)
        write_once(g);
    atomic_store(&g->stop, 1);
    join(threads, THREADS);
    loom__gate_destroy(&g->gate);
    free(g);
}

/* Two readers share the gate. */
TEST(test_core_gate_shares_readers)
{
    guarded *g = make_guarded(0);
    loom__gate_enter(&g->gate, 0);
    read_once(g);
    loom__gate_leave(&g->gate, 0);
    write_once(g);
    loom__gate_destroy(&g->gate);
    free(g);
}

static void *enter_and_leave(void *argument)
{
    guarded *g = argument;
    atomic_fetch_add(&g->inside, 1); /* the caller has begun */
    loom__gate_enter(&g->gate, 0);
    atomic_fetch_sub(&g->inside, 1);
    loom__gate_leave(&g->gate, 0);
    return NULL;
}

/* Callers wait for a writer. A destroyer comes after them, and frees the gate as soon as it has been inside: the thread
 * and address sanitizers see whether a caller still uses it. */
TEST(test_core_gate_freed_after_the_last_caller, .threads = 1)
{
    for (uint64_t round = 0; round < test_scaled(t, 2000, 200); round++) {
        pthread_t threads[THREADS];
        guarded *g = make_guarded(0);
        loom__gate_enter(&g->gate, 1);
        start(threads, THREADS, enter_and_leave, g);
        while (atomic_load(&g->inside) < THREADS)
            nanosleep(&(struct timespec){.tv_nsec = 1000}, NULL);
        if (round % 2 == 0)
            nanosleep(&(struct timespec){.tv_nsec = 100000}, NULL); /* now they probably wait */
        loom__gate_leave(&g->gate, 1);
        while (atomic_load(&g->inside) > 0)
            nanosleep(&(struct timespec){.tv_nsec = 1000}, NULL);
        loom__gate_enter(&g->gate, 1);
        loom__gate_leave(&g->gate, 1);
        loom__gate_destroy(&g->gate);
        free(g);
        join(threads, THREADS);
    }
}
