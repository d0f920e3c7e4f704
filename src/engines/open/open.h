#ifndef LOOM_OPEN_H
#define LOOM_OPEN_H

#include "core/engine.h"
#include "core/slot_kind.h"

extern const loom__engine loom__open_engine;

/* The engine's `choose`: picks the shape of a table. Returns INVALID_ARGUMENT, with an error message, if no shape fits
 * the config. */
loom_status loom__open_choose(loom__machine *machine, const void *any_config, loom__description *is);

/* The same for slots of this kind. A partition has at most `fitting` buckets, and about `preferred` if that takes no
 * more memory; 0: any number. */
loom_status loom__open_choose_sized(const loom_map_config *config, loom__slot_kind kind, uint32_t fitting,
                                    uint32_t preferred, loom__description *is);

/* For tables whose directory is an open table: the engine's `lay_out` and `attach` with slots of this kind. The state
 * has room for `more_bytes` behind the open engine's own; `attach` returns where they begin, aligned to a line, or NULL
 * while the table has no memory. The view struct begins with a loom__open_view. */
void loom__open_lay_out(loom__table *table, loom__slot_kind kind, uint64_t more_bytes);
unsigned char *loom__open_attach(loom__table *table, loom__slot_kind kind);

#endif
