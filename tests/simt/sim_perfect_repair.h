/* Many keys inserted into a partition of a perfect table at once, by a team, in the lane simulator: scenarios of the
 * case `perfect/repair`, and the verdict. */
#ifndef LOOM_SIM_PERFECT_REPAIR_H
#define LOOM_SIM_PERFECT_REPAIR_H

#include "simt/sim_case.h"

void sim_perfect_repair_draw(const sim_case *c, uint64_t seed, int tiny);
/* Runs the scenario that was drawn last, from the beginning. Returns 1 if all is well. */
int sim_perfect_repair_run(simt_schedule *schedule, const sim_options *options);

#endif
