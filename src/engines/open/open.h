#ifndef LOOM_OPEN_H
#define LOOM_OPEN_H

#include "core/engine.h"

extern const loom__engine loom__open_engine;

#endif
