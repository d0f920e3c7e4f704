#ifndef LOOM_FILTER_H
#define LOOM_FILTER_H

#include "core/engine.h"

extern const loom__engine loom__bloom_engine;

#endif
