#ifndef LOOM_TICKETS_H
#define LOOM_TICKETS_H

#include "core/table.h"

/* Its number will become public with its name, when all machines have its kernels. */
#define LOOM__ENGINE_TICKETS ((loom_engine)16)

enum { TICKET_DEFAULT_BITS = 8 };

extern const loom__engine loom__tickets_engine;

/* loom__tickets_engine.choose for tickets of so many bits. */
loom_status loom__tickets_choose(const loom_map_config *config, uint32_t ticket_bits, loom__description *is);

#endif
