/* Opens durable maps on any disk. */
#ifndef LOOM_API_MAP_DURABLE_H
#define LOOM_API_MAP_DURABLE_H

#include "api/map.h"
#include "durable/durable.h"

/* loom_map_open with complete configs that were checked. Takes the disk, after a failure too. */
loom_status loom__map_open_on(loom_context *context, loom__disk *disk, const loom_map_config *config,
                              const loom_durable_config *durable_config, loom_map **map);

#endif
