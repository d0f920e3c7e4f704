#ifndef LOOM_ROWS_H
#define LOOM_ROWS_H

#include "core/engine.h"

extern const loom__engine loom__rows_engine;

#endif
