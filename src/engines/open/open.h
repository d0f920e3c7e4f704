#ifndef LOOM_OPEN_H
#define LOOM_OPEN_H

#include "core/engine.h"

extern const loom__engine loom__open_engine;

/* The engine's `choose`: picks the shape of a table. Returns INVALID_ARGUMENT, with an error message, if no shape fits
 * the config. */
loom_status loom__open_choose(loom__machine *machine, const void *any_config, loom__description *is);

#endif
