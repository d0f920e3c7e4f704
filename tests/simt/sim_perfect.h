/* What lane groups do to a perfect table in the lane simulator: the scenarios of the cases `perfect/…`, and the
 * verdict. A team that makes room: sim_perfect_room.h. */
#ifndef LOOM_SIM_PERFECT_H
#define LOOM_SIM_PERFECT_H

#include "simt/sim_case.h"

void sim_perfect_draw(const sim_case *c, uint64_t seed, int tiny);
/* Runs the scenario that was drawn last, from the beginning. Returns 1 if all is well. */
int sim_perfect_run(simt_schedule *schedule, const sim_options *options);

#endif
