#define _POSIX_C_SOURCE 200809L
#include "bench_progress.h"

#include "bench_timer.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#define REPEAT_PLAIN_LINES_AFTER 10.0

static struct {
    pthread_mutex_t lock; /* guards all below */
    pthread_cond_t wake;
    pthread_t ticker;
    bool running, terminal, line_is_up, said;
    double begun, last_shown;
    char text[160];
} progress = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* The lock is held. */
static void show(void)
{
    const double now = bench_seconds(), waited = now - progress.begun;
    if (progress.terminal)
        fprintf(stderr, "\r\033[K");
    fprintf(stderr, "%s", progress.text);
    if (waited >= 1)
        fprintf(stderr, " (%.0f s)", waited);
    if (!progress.terminal)
        fputc('\n', stderr);
    fflush(stderr);
    progress.line_is_up = progress.terminal;
    progress.said = true;
    progress.last_shown = now;
}

/* The lock is held. */
static void tick(void)
{
    const double since = bench_seconds() - progress.last_shown;
    if (progress.text[0] == 0)
        return;
    if (progress.terminal || (!progress.said && since >= 1) || since >= REPEAT_PLAIN_LINES_AFTER)
        show();
}

static void *run_ticker(void *unused)
{
    (void)unused;
    pthread_mutex_lock(&progress.lock);
    while (progress.running) { /* ends: bench_progress_stop clears the flag and signals */
        struct timespec until;
        clock_gettime(CLOCK_MONOTONIC, &until);
        until.tv_sec++;
        if (pthread_cond_timedwait(&progress.wake, &progress.lock, &until) != 0 && progress.running)
            tick();
    }
    pthread_mutex_unlock(&progress.lock);
    return NULL;
}

void bench_progress_start(void)
{
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&progress.wake, &attributes);
    pthread_condattr_destroy(&attributes);
    pthread_mutex_lock(&progress.lock);
    progress.terminal = isatty(STDERR_FILENO) == 1;
    progress.text[0] = 0;
    progress.last_shown = bench_seconds();
    /* Without the thread the job runs as well, only silently. */
    progress.running = pthread_create(&progress.ticker, NULL, run_ticker, NULL) == 0;
    pthread_mutex_unlock(&progress.lock);
}

void bench_progress_stop(void)
{
    pthread_mutex_lock(&progress.lock);
    const bool was_running = progress.running;
    progress.running = false;
    if (was_running)
        pthread_cond_signal(&progress.wake);
    pthread_mutex_unlock(&progress.lock);
    if (was_running)
        pthread_join(progress.ticker, NULL);
    bench_progress_hide();
}

void bench_progress(const char *format, ...)
{
    va_list arguments;
    pthread_mutex_lock(&progress.lock);
    va_start(arguments, format);
    vsnprintf(progress.text, sizeof progress.text, format, arguments);
    va_end(arguments);
    progress.begun = bench_seconds();
    progress.said = false;
    if (progress.running && progress.terminal)
        show();
    pthread_mutex_unlock(&progress.lock);
}

void bench_progress_hide(void)
{
    pthread_mutex_lock(&progress.lock);
    if (progress.line_is_up) {
        fprintf(stderr, "\r\033[K");
        fflush(stderr);
    }
    progress.line_is_up = false;
    pthread_mutex_unlock(&progress.lock);
}
