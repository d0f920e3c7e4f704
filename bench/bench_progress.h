/* Progress on stderr: on a terminal one line that is rewritten, otherwise plain lines. Plain lines show only what takes
 * longer than a second. One job at a time per process. */
#ifndef BENCH_PROGRESS_H
#define BENCH_PROGRESS_H

/* Between these two, a thread that wakes once per second shows progress. */
void bench_progress_start(void);
void bench_progress_stop(void);

/* Says what begins now. */
__attribute__((format(printf, 1, 2))) void bench_progress(const char *format, ...);

/* Clears the line so that stdout may be written to the same terminal. */
void bench_progress_hide(void);

#endif
