#ifndef LOOM_MULTI_H
#define LOOM_MULTI_H

#include "core/engine.h"

extern const loom__engine loom__multi_engine;

#endif
