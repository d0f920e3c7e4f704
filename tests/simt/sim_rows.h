/* What runs in the lane simulator on a table with rows: the scenarios of the cases `rows/…`, and the verdict. */
#ifndef LOOM_SIM_ROWS_H
#define LOOM_SIM_ROWS_H

#include "simt/sim_case.h"

void sim_rows_draw(const sim_case *c, uint64_t seed, int tiny);
/* Runs the scenario that was drawn last, from the beginning. Returns 1 if all is well. */
int sim_rows_run(simt_schedule *schedule, const sim_options *options);

#endif
