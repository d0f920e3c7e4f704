#include "engines/chain/chain.h"
#include "engines/filter/filter.h"
#include "engines/multi/multi.h"
#include "engines/open/open.h"
#include "engines/perfect/perfect.h"
#include "engines/rows/rows.h"
#include "engines/tickets/tickets.h"

/* The first engine of a type is its default. */
const loom__engine *const loom__own_engines[] = {
    &loom__open_engine,  &loom__multi_engine, &loom__chain_engine,   &loom__perfect_engine,
    &loom__bloom_engine, &loom__rows_engine,  &loom__tickets_engine, NULL};
