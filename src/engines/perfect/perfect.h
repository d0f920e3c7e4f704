#ifndef LOOM_PERFECT_H
#define LOOM_PERFECT_H

#include "core/engine.h"

extern const loom__engine loom__perfect_engine;

#endif
