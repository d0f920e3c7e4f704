/* What runs in the lane simulator on a table with a board of tickets: the scenarios of the cases `tickets/…`, and the
 * verdict. */
#ifndef LOOM_SIM_TICKETS_H
#define LOOM_SIM_TICKETS_H

#include "simt/sim_case.h"

void sim_tickets_draw(const sim_case *c, uint64_t seed, int tiny);
/* Runs the scenario that was drawn last, from the beginning. Returns 1 if all is well. */
int sim_tickets_run(simt_schedule *schedule, const sim_options *options);

#endif
