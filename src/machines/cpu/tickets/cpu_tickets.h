/* The ticket engine on the cpu machine. */
#ifndef LOOM_CPU_TICKETS_H
#define LOOM_CPU_TICKETS_H

#include "core/kernels.h"
#include "engines/tickets/tickets.h"

extern const loom__map_kernels loom__cpu_tickets_kernels;

#endif
