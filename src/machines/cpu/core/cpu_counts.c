#include "machines/cpu/core/cpu_state.h"

void loom__cpu_add_counts(loom__cpu_counts *total, const loom__cpu_counts *part)
{
    __atomic_fetch_add(&total->ok, part->ok, __ATOMIC_RELAXED);
    __atomic_fetch_add(&total->exists, part->exists, __ATOMIC_RELAXED);
    __atomic_fetch_add(&total->not_found, part->not_found, __ATOMIC_RELAXED);
    __atomic_fetch_add(&total->full, part->full, __ATOMIC_RELAXED);
    __atomic_fetch_add(&total->accesses, part->accesses, __ATOMIC_RELAXED);
}

void loom__cpu_write_result(loom_result *result, uint64_t n, const loom__cpu_counts *counts)
{
    *result = (loom_result){
        .status = counts->full > 0 ? LOOM_FULL : LOOM_OK,
        .keys = n,
        .ok = counts->ok,
        .exists = counts->exists,
        .not_found = counts->not_found,
        .full = counts->full,
    };
}

/* Ends: each failed CAS means that another thread made *field larger. */
void loom__cpu_keep_larger(uint64_t *field, uint64_t mine)
{
    uint64_t seen = __atomic_load_n(field, __ATOMIC_RELAXED);
    while (mine > seen && !__atomic_compare_exchange_n(field, &seen, mine, 0, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
        continue;
}
