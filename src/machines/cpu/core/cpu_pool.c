/* A job is a counter from which any thread draws tasks. The caller draws tasks too, so a job ends even if no helper
 * joins. After fork() the child process has no helpers. The child must not wait for them, nor take a lock that a lost
 * thread may hold. */
#include "machines/cpu/core/cpu_pool.h"
#include "core/memory.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

typedef struct job {
    loom__task task;
    void *argument;
    uint64_t tasks;
    _Atomic uint64_t next;
    uint32_t visitors; /* helpers inside the job; guarded by the pool's lock */
    struct job *following;
} job;

struct loom__pool {
    loom_allocator allocator;
    size_t bytes;
    pthread_mutex_t lock;
    pthread_cond_t work_came;
    pthread_cond_t visitor_left;
    job *jobs;
    int closing;
    pid_t owner;
    uint32_t helpers;
    pthread_t threads[];
};

static void draw_tasks(job *work)
{
    for (;;) { /* ends: `next` only grows */
        uint64_t index = atomic_fetch_add_explicit(&work->next, 1, memory_order_relaxed);
        if (index >= work->tasks)
            return;
        work->task(work->argument, index);
    }
}

static job *first_open_job(loom__pool *pool)
{
    for (job *work = pool->jobs; work != NULL; work = work->following)
        if (atomic_load_explicit(&work->next, memory_order_relaxed) < work->tasks)
            return work;
    return NULL;
}

static void *help(void *argument)
{
    loom__pool *pool = argument;
    pthread_mutex_lock(&pool->lock);
    while (!pool->closing) {
        job *work = first_open_job(pool);
        if (work == NULL) {
            pthread_cond_wait(&pool->work_came, &pool->lock);
            continue;
        }
        work->visitors++;
        pthread_mutex_unlock(&pool->lock);
        draw_tasks(work);
        pthread_mutex_lock(&pool->lock);
        work->visitors--;
        pthread_cond_broadcast(&pool->visitor_left);
    }
    pthread_mutex_unlock(&pool->lock);
    return NULL;
}

loom__pool *loom__pool_create(const loom_allocator *allocator, uint32_t helpers)
{
    size_t bytes = sizeof(loom__pool) + helpers * sizeof(pthread_t);
    loom__pool *pool = loom__allocate(allocator, bytes, LOOM_MEMORY_HOST, NULL);
    if (pool == NULL)
        return NULL;
    memset(pool, 0, bytes);
    pool->allocator = *allocator;
    pool->bytes = bytes;
    pool->owner = getpid();
    pthread_mutex_init(&pool->lock, NULL);
    pthread_cond_init(&pool->work_came, NULL);
    pthread_cond_init(&pool->visitor_left, NULL);
    while (pool->helpers < helpers && pthread_create(&pool->threads[pool->helpers], NULL, help, pool) == 0)
        pool->helpers++;
    return pool;
}

void loom__pool_destroy(loom__pool *pool)
{
    if (pool == NULL)
        return;
    if (pool->owner == getpid()) { /* a forked child has no helpers to wait for */
        pthread_mutex_lock(&pool->lock);
        pool->closing = 1;
        pthread_cond_broadcast(&pool->work_came);
        pthread_mutex_unlock(&pool->lock);
        for (uint32_t i = 0; i < pool->helpers; i++)
            pthread_join(pool->threads[i], NULL);
        pthread_cond_destroy(&pool->visitor_left);
        pthread_cond_destroy(&pool->work_came);
        pthread_mutex_destroy(&pool->lock);
    }
    loom_allocator allocator = pool->allocator;
    loom__release(&allocator, pool, pool->bytes, LOOM_MEMORY_HOST, NULL);
}

void loom__pool_run(loom__pool *pool, uint64_t tasks, loom__task task, void *argument)
{
    if (tasks <= 1 || pool->helpers == 0 || pool->owner != getpid()) {
        for (uint64_t index = 0; index < tasks; index++)
            task(argument, index);
        return;
    }
    job work = {.task = task, .argument = argument, .tasks = tasks};
    pthread_mutex_lock(&pool->lock);
    work.following = pool->jobs;
    pool->jobs = &work;
    pthread_cond_broadcast(&pool->work_came);
    pthread_mutex_unlock(&pool->lock);

    draw_tasks(&work);

    pthread_mutex_lock(&pool->lock);
    job **link = &pool->jobs;
    while (*link != &work)
        link = &(*link)->following;
    *link = work.following;
    while (work.visitors > 0)
        pthread_cond_wait(&pool->visitor_left, &pool->lock);
    pthread_mutex_unlock(&pool->lock);
}
