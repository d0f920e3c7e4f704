/* Room made in a perfect table by cells that move, in the lane simulator: scenarios of the cases `perfect/room`, of a team that owns the
 * partition, and `perfect/recode`, of groups beside each other; and the verdicts. */
#ifndef LOOM_SIM_PERFECT_ROOM_H
#define LOOM_SIM_PERFECT_ROOM_H

#include "simt/sim_case.h"

void sim_perfect_room_draw(const sim_case *c, uint64_t seed, int tiny);
/* One run of what was drawn last, each time from the beginning. 1: all is well. */
int sim_perfect_room_run(simt_schedule *schedule, const sim_options *options);

#endif
