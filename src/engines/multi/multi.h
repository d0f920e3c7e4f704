#ifndef LOOM_MULTI_H
#define LOOM_MULTI_H

#include "core/engine.h"

extern const loom__engine loom__multi_engine;

/* The members of loom__engine, for every engine of multimaps. */
loom_status loom__multi_supports(loom__machine *machine, loom_type type, loom_feature feature);
loom_status loom__multi_check_widths(loom_type type, uint32_t key_bytes, uint32_t value_bytes, loom_status status);
loom_status loom__multi_choose(loom__machine *machine, const void *any_config, loom__description *is);
loom_status loom__multi_check(const loom__description *is);
uint32_t loom__multi_layout_of(const loom__description *is);
void loom__multi_lay_out(loom__table *table);
void loom__multi_attach(loom__table *table);
loom_status loom__multi_restored(loom__table *table, loom_stream stream);
uint64_t loom__multi_upkeep_after(const loom__table *table);
void loom__multi_tell_config(const loom__table *table, loom_map_config *config);
void loom__multi_tell_stats(const loom__table *table, loom_stats *stats);
const uint64_t *loom__multi_pairs_at(const loom__table *table);
const uint64_t *loom__multi_values_at(const loom__table *table);
loom_status loom__multi_used_bytes(loom__table *table, const loom__region *region, uint64_t *bytes, loom_stream stream);

#endif
