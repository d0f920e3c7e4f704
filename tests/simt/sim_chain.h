/* What runs in the lane simulator on a multimap of the chain engine: the scenarios of the cases `chain/…`, and the
 * verdict. */
#ifndef LOOM_SIM_CHAIN_H
#define LOOM_SIM_CHAIN_H

#include "simt/sim_case.h"

void sim_chain_draw(const sim_case *c, uint64_t seed, int tiny);
/* Runs the scenario that was drawn last, from the beginning. Returns 1 if all is well. */
int sim_chain_run(simt_schedule *schedule, const sim_options *options);

#endif
