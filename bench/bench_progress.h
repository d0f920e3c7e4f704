/* What is being done, on stderr, for whoever waits: one line that is rewritten where stderr is a terminal, plain lines
 * otherwise. Only what takes longer than a second is shown in plain lines. One job at a time per process. */
#ifndef BENCH_PROGRESS_H
#define BENCH_PROGRESS_H

/* Between these two a thread of its own, asleep but for one moment per second, does the showing. */
void bench_progress_start(void);
void bench_progress_stop(void);

/* Says what begins now. */
__attribute__((format(printf, 1, 2))) void bench_progress(const char *format, ...);

/* Takes the line away so that stdout may be written to the same terminal. */
void bench_progress_hide(void);

#endif
