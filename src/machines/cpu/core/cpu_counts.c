#include "machines/cpu/core/cpu_state.h"

/* Most counts are 0, and an atomic addition takes longer than the lookup of a key. */
static void add_count(uint64_t *total, uint64_t part)
{
    if (part != 0)
        __atomic_fetch_add(total, part, __ATOMIC_RELAXED);
}

static void keep_larger(uint64_t *largest, uint64_t mine)
{
    uint64_t seen = __atomic_load_n(largest, __ATOMIC_RELAXED);
    while (mine > seen && !__atomic_compare_exchange_n(largest, &seen, mine, 1, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
        continue; /* ends: each failure means that another thread made it larger, or that the swap is tried again */
}

void loom__cpu_add_counts(loom__cpu_counts *total, const loom__cpu_counts *part)
{
    add_count(&total->ok, part->ok);
    add_count(&total->exists, part->exists);
    add_count(&total->not_found, part->not_found);
    add_count(&total->full, part->full);
    add_count(&total->too_long, part->too_long);
    add_count(&total->no_bytes.rows, part->no_bytes.rows);
    add_count(&total->no_bytes.bytes, part->no_bytes.bytes);
    keep_larger(&total->no_bytes.most, part->no_bytes.most);
    add_count(&total->accesses, part->accesses);
}

void loom__cpu_write_result(loom_result *result, uint64_t n, const loom__cpu_counts *counts)
{
    *result = (loom_result){
        .status = counts->full > 0       ? LOOM_FULL
                  : counts->too_long > 0 ? LOOM_TOO_LONG
                                         : LOOM_OK,
        .keys = n,
        .ok = counts->ok,
        .exists = counts->exists,
        .not_found = counts->not_found,
        .full = counts->full,
        .too_long = counts->too_long,
    };
}

/* Ends: each failed CAS means that another thread made *field larger. */
void loom__cpu_keep_larger(uint64_t *field, uint64_t mine)
{
    uint64_t seen = __atomic_load_n(field, __ATOMIC_RELAXED);
    while (mine > seen && !__atomic_compare_exchange_n(field, &seen, mine, 0, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
        continue;
}
