/* `loom bench stadium --figure`: the experiments of the paper on Stadium Hashing. */
#ifndef STADIUM_FIGURES_H
#define STADIUM_FIGURES_H

#include "bench_case.h"

/* The options that a figure uses, as bits of bench_use. */
uint32_t stadium_figure_uses(const char *word);

/* Adds the rows of the figure that the options name. */
void stadium_run_figure(bench_session *session);

#endif
