/* What runs in the lane simulator on a filter: the scenarios of the cases `filter/…`, and the verdict. */
#ifndef LOOM_SIM_FILTER_H
#define LOOM_SIM_FILTER_H

#include "simt/sim_case.h"

void sim_filter_draw(const sim_case *c, uint64_t seed, int tiny);
/* Runs the scenario that was drawn last, from the beginning. Returns 1 if all is well. */
int sim_filter_run(simt_schedule *schedule, const sim_options *options);

#endif
