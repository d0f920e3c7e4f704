#ifndef LOOM_TICKETS_H
#define LOOM_TICKETS_H

#include "core/table.h"

extern const loom__engine loom__tickets_engine;

#endif
