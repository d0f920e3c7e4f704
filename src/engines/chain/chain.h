#ifndef LOOM_CHAIN_H
#define LOOM_CHAIN_H

#include "core/engine.h"

extern const loom__engine loom__chain_engine;

#endif
