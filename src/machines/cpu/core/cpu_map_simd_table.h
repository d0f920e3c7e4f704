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
/* A function for each operation, made by `make`: the time to compile a function grows faster than its length. */
#define EACH_OP(make)                                                                                      \
    make(keep, LOOM__WRITE_KEEP) make(overwrite, LOOM__WRITE_OVERWRITE) make(fetch, LOOM__WRITE_FETCH)     \
        make(combine, LOOM__WRITE_COMBINE) make(update, LOOM__WRITE_UPDATE) make(erase, LOOM__WRITE_ERASE) \
            make(reserve, LOOM__WRITE_RESERVE)
/* Calls the one of the batch's operation. */
#define FOR_OP(name, ...)              \
    switch (batch->write) {            \
    case LOOM__WRITE_KEEP:             \
        name##_keep(__VA_ARGS__);      \
        break;                         \
    case LOOM__WRITE_OVERWRITE:        \
        name##_overwrite(__VA_ARGS__); \
        break;                         \
    case LOOM__WRITE_FETCH:            \
        name##_fetch(__VA_ARGS__);     \
        break;                         \
    case LOOM__WRITE_COMBINE:          \
        name##_combine(__VA_ARGS__);   \
        break;                         \
    case LOOM__WRITE_UPDATE:           \
        name##_update(__VA_ARGS__);    \
        break;                         \
    case LOOM__WRITE_ERASE:            \
        name##_erase(__VA_ARGS__);     \
        break;                         \
    case LOOM__WRITE_RESERVE:          \
        name##_reserve(__VA_ARGS__);   \
        break;                         \
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

#define CALL(kind)                                                                  \
    if (HAS_OP(RANGE_OPS, kind, (loom__write)OP)) {                                 \
        if (shared)                                                                 \
            write_range(kind, (loom__write)OP, 1, view, batch, begin, end, counts); \
        else                                                                        \
            write_range(kind, (loom__write)OP, 0, view, batch, begin, end, counts); \
    }
#define WRITE_FUNCTION(name, op)                                                                                 \
    LOOM_STEP void write_##name(const engine_view *view, const loom__batch *batch, uint64_t begin, uint64_t end, \
                                int shared, loom__cpu_counts *counts)                                            \
    {                                                                                                            \
        enum { OP = op };                                                                                        \
        ENGINE_FOR_KIND(view->kind, CALL)                                                                        \
    }
EACH_OP(WRITE_FUNCTION)
#undef WRITE_FUNCTION
#undef CALL

static void write(const void *any_view, const loom__batch *batch, uint64_t begin, uint64_t end, int shared,
                  loom__cpu_counts *counts){FOR_OP(write, any_view, batch, begin, end, shared, counts)}

#define CALL(kind)                                 \
    if (HAS_OP(RECORD_OPS, kind, (loom__write)OP)) \
    insert_records(kind, (loom__write)OP, view, batch, records, scratch, counts)
#define INSERT_FUNCTION(name, op)                                                                                     \
    LOOM_STEP void insert_##name(const engine_view *view, const loom__batch *batch, const loom__cpu_records *records, \
                                 void *scratch, loom__cpu_counts *counts)                                             \
    {                                                                                                                 \
        enum { OP = op };                                                                                             \
        ENGINE_FOR_KIND(view->kind, CALL)                                                                             \
    }
EACH_OP(INSERT_FUNCTION)
#undef INSERT_FUNCTION
#undef CALL

    static void insert(const void *any_view, const loom__batch *batch, const loom__cpu_records *records, void *scratch,
                       loom__cpu_counts *counts)
{
    FOR_OP(insert, any_view, batch, records, scratch, counts)
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
