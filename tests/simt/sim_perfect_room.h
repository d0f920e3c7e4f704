/* Moving cells make room in a perfect table, in the lane simulator: the scenarios of the cases `perfect/room`, for a
 * team that owns the partition, and `perfect/recode`, for groups beside each other; and the verdicts. */
#ifndef LOOM_SIM_PERFECT_ROOM_H
#define LOOM_SIM_PERFECT_ROOM_H

#include "simt/sim_case.h"

void sim_perfect_room_draw(const sim_case *c, uint64_t seed, int tiny);
/* Runs the scenario that was drawn last, from the beginning. Returns 1 if all is well. */
int sim_perfect_room_run(simt_schedule *schedule, const sim_options *options);

#endif
