#ifndef LOOM_ROWS_H
#define LOOM_ROWS_H

#include "core/slot_kind.h"
#include "core/table.h"

extern const loom__engine loom__rows_engine;

enum { ROWS_MOST_KEY_BYTES = 256, ROWS_MOST_VALUE_BYTES = 65536 };

/* For this engine, and for tables whose directory has rows: picks the partitions of a table with rows of so many bytes.
 * Checks those of a file. */
loom_status loom__rows_choose_sized(const loom_map_config *config, loom__slot_kind kind, uint32_t row_bytes,
                                    loom__description *is);
loom_status loom__rows_check_sized(const loom__description *is, uint32_t row_bytes);

/* The same: adds the region of the rows. */
void loom__rows_add_region(loom__table *table, loom__place place, uint32_t row_bytes);

#endif
