/* A toy: the smallest engine that the table core takes. It shows the parts of an engine (docs/contributing.md), and
 * tests that the core's defaults do the rest. Linear probing, on the cpu machine only, one key after the other. */
#ifndef TOY_ENGINE_H
#define TOY_ENGINE_H

#include "core/engine.h"
#include "core/kernels.h"

#define TOY_ENGINE ((loom_engine)100) /* a number that no engine of the library has */

extern const loom__engine toy_engine;
extern const loom__map_kernels toy_kernels;

#endif
