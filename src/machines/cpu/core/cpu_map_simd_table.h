/* An engine's loops as functions (loom__cpu_map_simd), at the end of cpu_<engine>_simd.h. Kinds and operations are
 * literals, so that the compiler specialises the loops. Before including this file, define engine_view, and the loops
 * find_range, write_range, insert_records, accesses_of and survey_buckets. An engine of other kinds than those of
 * SLOT_FOR_KIND defines ENGINE_FOR_KIND in its place. Also define which operations two of the
 * loops support, as sets of bits 1 << loom__write: RANGE_OPS for write_range, RECORD_OPS for insert_records. */

#ifndef ENGINE_FOR_KIND
#define ENGINE_FOR_KIND SLOT_FOR_KIND
#endif

/* A constant expression: operations that the engine, a set, or values without room for a handle do not have are not
 * compiled. */
#define HAS_OP(ops, kind, op)                                                                                     \
    (((ops)&1 << (op)) &&                                                                                         \
     (((kind) != SLOT_KEY_4 && (kind) != SLOT_KEY_8) || (op) == LOOM__WRITE_KEEP || (op) == LOOM__WRITE_ERASE) && \
     ((kind) == SLOT_KEY_4_VALUE_8 || (kind) == SLOT_KEY_8_VALUE_8 || (kind) == SLOT_TAG ||                       \
      (op) != LOOM__WRITE_RESERVE))
#define FOR_OP(kind, call)                 \
    switch (batch->write) {                \
        call(kind, LOOM__WRITE_KEEP);      \
        call(kind, LOOM__WRITE_OVERWRITE); \
        call(kind, LOOM__WRITE_FETCH);     \
        call(kind, LOOM__WRITE_COMBINE);   \
        call(kind, LOOM__WRITE_UPDATE);    \
        call(kind, LOOM__WRITE_ERASE);     \
        call(kind, LOOM__WRITE_RESERVE);   \
    }

static void find(const void *any_view, const loom__batch *batch, uint64_t begin, uint64_t end, int shared,
                 loom__cpu_counts *counts)
{
    const engine_view *view = any_view;
    (void)shared;
#define CALL(kind) find_range(kind, view, batch, begin, end, counts)
    ENGINE_FOR_KIND(view->kind, CALL)
#undef CALL
}

static void write(const void *any_view, const loom__batch *batch, uint64_t begin, uint64_t end, int shared,
                  loom__cpu_counts *counts)
{
    const engine_view *view = any_view;
#define OP(kind, op)                                                   \
    case op:                                                           \
        if (!HAS_OP(RANGE_OPS, kind, op))                              \
            break;                                                     \
        if (shared)                                                    \
            write_range(kind, op, 1, view, batch, begin, end, counts); \
        else                                                           \
            write_range(kind, op, 0, view, batch, begin, end, counts); \
        break
#define CALL(kind) FOR_OP(kind, OP)
    ENGINE_FOR_KIND(view->kind, CALL)
#undef CALL
#undef OP
}

static void insert(const void *any_view, const loom__batch *batch, const loom__cpu_records *records, void *scratch,
                   loom__cpu_counts *counts)
{
    const engine_view *view = any_view;
#define OP(kind, op)                                                         \
    case op:                                                                 \
        if (HAS_OP(RECORD_OPS, kind, op))                                    \
            insert_records(kind, op, view, batch, records, scratch, counts); \
        break
#define CALL(kind) FOR_OP(kind, OP)
    ENGINE_FOR_KIND(view->kind, CALL)
#undef CALL
#undef OP
}

static void count_accesses(const void *any_view, const loom__batch *batch, uint64_t begin, uint64_t end, int shared,
                           loom__cpu_counts *counts)
{
    const engine_view *view = any_view;
    loom__cpu_counts local = {0};
    (void)shared;
#define CALL(kind)                         \
    for (uint64_t i = begin; i < end; i++) \
    local.accesses += accesses_of(kind, view, batch->keys, i)
    ENGINE_FOR_KIND(view->kind, CALL)
#undef CALL
    loom__cpu_add_counts(counts, &local);
}

static void survey_partition(const void *any_view, uint32_t partition, void *sums)
{
    const engine_view *view = any_view;
#define CALL(kind) survey_buckets(kind, view, partition, sums)
    ENGINE_FOR_KIND(view->kind, CALL)
#undef CALL
}
