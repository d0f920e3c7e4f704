/* Filters: creation, bulk calls, reports. Files: save_load.c; device views: views.c. */
#include "api/filter.h"
#include "api/check.h"
#include "api/struct_size.h"
#include "core/error.h"

#include <math.h>

/* ---- Life ---- */

static loom_status describe(loom_context *context, const loom_filter_config *given, uint64_t seed,
                            loom__description *is)
{
    loom_filter_config config = LOOM_FILTER_CONFIG_INIT;
    RETURN_ERROR_IF(context == NULL || given == NULL, LOOM_INVALID_ARGUMENT, "context or config is NULL");
    RETURN_IF_FAILED(loom__struct_in(&loom__struct_filter_config, &config, given));
    if (given->struct_size <= offsetof(loom_filter_config, bits_per_key) && config.bytes != 0)
        config.false_positive_rate = 0; /* the first header set a rate by default, and `bytes` overrode it */
    const loom__engine *engine = loom__engine_of(LOOM_TYPE_FILTER, LOOM_ENGINE_DEFAULT);
    *is = (loom__description){
        .type = LOOM_TYPE_FILTER,
        .engine = engine->id,
        .layout_version = engine->layout_version,
        .key_bytes = config.key_bytes,
        .capacity = config.capacity,
        .seed = seed,
    };
    return engine->choose(context->machine, &config, is);
}

static const loom__engine *engine_of(const loom__description *is)
{
    return loom__engine_of(LOOM_TYPE_FILTER, is->engine);
}

loom_status loom_filter_memory_required(loom_context *context, const loom_filter_config *given, loom_memory *memory)
{
    loom__description is;
    loom__table table;
    loom_memory own = LOOM_MEMORY_INIT;
    RETURN_IF_FAILED(describe(context, given, 0, &is));
    RETURN_ERROR_IF(memory == NULL, LOOM_INVALID_ARGUMENT, "memory is NULL");
    RETURN_IF_FAILED(loom__struct_check(&loom__struct_memory, memory));
    RETURN_IF_FAILED(loom__table_plan(context->machine, engine_of(&is), &is, 1, &table));
    const loom__filter_kernels *kernels = table.kernels;
    own.table_bytes = loom__table_bytes(&table) + sizeof(loom_filter);
    if (is.capacity > 0)
        own.build_bytes = kernels->bulk_bytes(context->machine, table.view, is.capacity);
    if (is.capacity > 0 && kernels->order_bytes != NULL)
        own.order_bytes = kernels->order_bytes(context->machine, table.view, is.capacity);
    loom__struct_out(memory, &own);
    return LOOM_OK;
}

static uint64_t first_count(const loom__table *table)
{
    return table->is.capacity > 0 ? table->is.capacity : UINT64_MAX;
}

loom_status loom__filter_wrap(loom_context *context, loom__table *table, uint64_t given, loom_filter **made)
{
    loom__handle *handle;
    RETURN_IF_FAILED(loom__handle_create(context, table, sizeof **made, &handle));
    loom_filter *filter = (loom_filter *)handle;
    atomic_init(&filter->given, given);
    atomic_init(&filter->next_count, first_count(table));
    atomic_init(&filter->overfilled, 0);
    *made = filter;
    return LOOM_OK;
}

static loom_status create(loom_context *context, const loom__description *is, loom_filter **made)
{
    loom__table *table;
    RETURN_IF_FAILED(loom__table_make_empty(context->machine, engine_of(is), is, 1, &table));
    return loom__filter_wrap(context, table, 0, made);
}

loom_status loom_filter_create(loom_context *context, const loom_filter_config *given, loom_filter **made)
{
    loom__description is;
    RETURN_ERROR_IF(made == NULL, LOOM_INVALID_ARGUMENT, "filter is NULL; pass where the new handle is to go");
    RETURN_IF_FAILED(describe(context, given, context != NULL ? loom__context_seed(context) : 0, &is));
    return create(context, &is, made);
}

/* Only the bits of a filter ever change: reading its description needs no lock. */
loom_status loom_filter_create_like(loom_filter *filter, loom_filter **made)
{
    RETURN_ERROR_IF(filter == NULL, LOOM_INVALID_ARGUMENT, "filter is NULL");
    RETURN_ERROR_IF(made == NULL, LOOM_INVALID_ARGUMENT, "like is NULL; pass where the new handle is to go");
    return create(filter->handle.context, &filter->handle.table->is, made);
}

loom_status loom__filter_check(loom_filter *filter, loom_stream stream)
{
    RETURN_ERROR_IF(filter == NULL, LOOM_INVALID_ARGUMENT, "filter is NULL");
    return loom__handle_check_stream(&filter->handle, stream);
}

loom_status loom_filter_clone(loom_filter *filter, loom_filter **made, loom_stream stream)
{
    loom__table *twin;
    RETURN_IF_FAILED(loom__filter_check(filter, stream));
    RETURN_ERROR_IF(made == NULL, LOOM_INVALID_ARGUMENT, "clone is NULL; pass where the new handle is to go");
    RETURN_IF_FAILED(loom__handle_enter(&filter->handle, LOOM__ACCESS_READ, stream));
    loom_status status = loom__table_clone(filter->handle.table, &twin, stream);
    if (status == LOOM_OK)
        status = loom__filter_wrap(filter->handle.context, twin, atomic_load(&filter->given), made);
    loom__handle_leave(&filter->handle, LOOM__ACCESS_READ, stream);
    return status;
}

void loom_filter_destroy(loom_filter *filter)
{
    if (filter != NULL)
        loom__handle_destroy(&filter->handle);
}

static const loom__filter_kernels *kernels_of(const loom_filter *filter)
{
    return filter->handle.table->kernels;
}

/* ---- Overfilling ---- */

/* Counts the filter's bits and updates the counters. `seen` is the number of keys given so far. Waits. Only one call
 * may run at a time. The filter is overfilled if the estimated keys exceed its capacity by more than the sum of a
 * sixty-fourth of the capacity and the possible error of an estimate, 4 sqrt(capacity). */
static loom_status count_bits(loom_filter *filter, uint64_t seen, loom_stream stream)
{
    const loom__table *own = filter->handle.table;
    const uint64_t capacity = own->is.capacity;
    loom__filter_survey survey;
    RETURN_IF_FAILED(kernels_of(filter)->survey(own->machine, own->view, &survey, stream));
    const double keys = own->engine->filter->estimate(own, survey.bits_set), made_for = (double)capacity;
    const int overfilled = capacity > 0 && keys > made_for + made_for / 64 + 4 * sqrt(made_for);
    const uint64_t counted = (uint64_t)keys, next = counted + capacity / 64 + 1;
    atomic_fetch_add(&filter->given, counted - seen); /* modulo 2^64. Keys given meanwhile stay counted */
    atomic_store(&filter->overfilled, (uint32_t)overfilled);
    atomic_store(&filter->next_count, capacity == 0 ? UINT64_MAX : next < capacity ? capacity : next);
    return LOOM_OK;
}

/* Returns 1 if a count of bits is due and this call must do it. If the count fails, the caller puts *next back into
 * filter->next_count. */
static int claim_count(loom_filter *filter, uint64_t given, uint64_t *next)
{
    *next = atomic_load(&filter->next_count);
    return given > *next && atomic_compare_exchange_strong(&filter->next_count, next, UINT64_MAX);
}

static loom_status outcome_of(loom_filter *filter)
{
    return atomic_load(&filter->overfilled) ? LOOM_OVERFILLED : LOOM_OK;
}

static loom_status tell_overfilled(loom_filter *filter)
{
    const loom__table *own = filter->handle.table;
    return loom__fail(
        LOOM_OVERFILLED,
        "the filter was made for %llu keys and holds about %llu: all are in it, but absent keys are found more "
        "often than %.2g of the time; make a larger one, or go on (loom_filter_stats tells the rate)",
        (unsigned long long)own->is.capacity, (unsigned long long)atomic_load(&filter->given),
        own->engine->filter->designed_rate(own));
}

/* ---- Bulk calls ---- */

/* Chooses between direct insertion and insertion by partition, and enters. Batches that tell which keys were new go
 * directly: the ORs of other calls do not disturb them. While a batch goes by partition, no other call may set bits.
 * This cannot be ensured while device views are lent: the keys then go directly, or the call fails with IN_USE if the
 * flags ask for LOOM_BY_PARTITION. */
static loom_status enter_inserting(loom_filter *filter, loom__batch *batch, loom__access *access)
{
    const loom__table *own = filter->handle.table;
    const loom__filter_kernels *kernels = kernels_of(filter);
    const int asked = (batch->flags & LOOM_BY_PARTITION) != 0;
    batch->by_partition = asked || (batch->added == NULL && !(batch->flags & LOOM_DIRECTLY) &&
                                    kernels->bulk_pays(own->machine, own->view, batch->n));
    if (batch->by_partition) {
        *access = LOOM__ACCESS_ALONE;
        loom__handle_enter_gate(&filter->handle, *access);
        if (asked || filter->handle.lent == 0)
            return loom__handle_admit(&filter->handle, *access, batch->stream);
        loom__handle_leave_gate(&filter->handle, *access);
        batch->by_partition = 0;
    }
    *access = LOOM__ACCESS_INSERT;
    return loom__handle_enter(&filter->handle, *access, batch->stream);
}

static loom_status insert(loom_filter *filter, loom__batch *batch)
{
    const loom__table *own = filter->handle.table;
    const uint64_t given = atomic_fetch_add(&filter->given, batch->n) + batch->n;
    uint64_t next;
    const int counts = claim_count(filter, given, &next);
    loom_result outcome = {0}, *told = batch->result;
    if (counts)
        batch->result = &outcome;
    loom_status status =
        kernels_of(filter)->insert(own->machine, own->view, batch, counts ? LOOM_OK : outcome_of(filter));
    if (status != LOOM_OK)
        atomic_fetch_sub(&filter->given, batch->n);
    if (status == LOOM_OK && counts)
        status = count_bits(filter, given, batch->stream);
    if (status != LOOM_OK && counts)
        atomic_store(&filter->next_count, next);
    if (status != LOOM_OK || !counts)
        return status;
    outcome.status = (int32_t)outcome_of(filter);
    return loom__handle_tell(&filter->handle, &outcome, told, batch->stream);
}

static loom_status check_insert_flags(uint32_t flags, const uint8_t *added, uint64_t n)
{
    RETURN_ERROR_IF(flags & ~(uint32_t)(LOOM_BY_PARTITION | LOOM_DIRECTLY | LOOM_IN_ORDER), LOOM_INVALID_ARGUMENT,
                    "flags = 0x%x: only LOOM_BY_PARTITION, LOOM_DIRECTLY and LOOM_IN_ORDER are known to filters",
                    flags);
    RETURN_ERROR_IF((flags & (flags - 1)) != 0, LOOM_INVALID_ARGUMENT,
                    "flags = 0x%x: one of LOOM_BY_PARTITION, LOOM_DIRECTLY and LOOM_IN_ORDER, not several", flags);
    RETURN_ERROR_IF((flags & LOOM_BY_PARTITION) && added != NULL, LOOM_INVALID_ARGUMENT,
                    "flags = 0x%x: keys that go by partition (LOOM_BY_PARTITION) cannot tell which of them were new; "
                    "leave out the flag, or pass NULL as `added`",
                    flags);
    RETURN_ERROR_IF((flags & LOOM_IN_ORDER) && added == NULL && n > 0, LOOM_INVALID_ARGUMENT,
                    "flags = 0x%x: LOOM_IN_ORDER decides which of equal keys `added` tells as new; pass this array, or "
                    "leave out the flag",
                    flags);
    return LOOM_OK;
}

loom_status loom_filter_insert(loom_filter *filter, const void *keys, uint64_t n, uint32_t flags, uint8_t *added,
                               loom_result *result, loom_stream stream)
{
    loom_result own = {0};
    loom__access access;
    loom__batch batch = {.keys = keys,
                         .added = added,
                         .n = n,
                         .flags = flags,
                         .result = result != NULL ? result : &own,
                         .stream = stream};
    RETURN_IF_FAILED(loom__filter_check(filter, stream));
    RETURN_IF_FAILED(check_insert_flags(flags, added, n));
    const loom__array arrays[] = {
        {.name = "keys", .at = keys, .width = filter->handle.table->is.key_bytes},
        {.name = "added", .at = added, .width = 1, .optional = 1, .written = 1},
    };
    RETURN_IF_FAILED(loom__check_arrays(arrays, 2, n));
    RETURN_IF_FAILED(enter_inserting(filter, &batch, &access));
    loom_status status = insert(filter, &batch);
    if (status == LOOM_OK && result == NULL && own.status == LOOM_OVERFILLED)
        status = tell_overfilled(filter);
    loom__handle_leave(&filter->handle, access, stream);
    return status;
}

loom_status loom_filter_contains(loom_filter *filter, const void *keys, uint64_t n, uint8_t *found, loom_result *result,
                                 loom_stream stream)
{
    loom_result own = {0};
    loom__batch batch = {.keys = keys,
                         .found = found,
                         .n = n,
                         .uncounted = result == NULL,
                         .result = result != NULL ? result : &own,
                         .stream = stream};
    RETURN_IF_FAILED(loom__filter_check(filter, stream));
    const loom__array arrays[] = {
        {.name = "keys", .at = keys, .width = filter->handle.table->is.key_bytes},
        {.name = "found", .at = found, .width = 1, .optional = 1, .written = 1},
    };
    RETURN_IF_FAILED(loom__check_arrays(arrays, 2, n));
    RETURN_IF_FAILED(loom__handle_enter(&filter->handle, LOOM__ACCESS_FIND, stream));
    loom_status status =
        kernels_of(filter)->contains(filter->handle.table->machine, filter->handle.table->view, &batch);
    if (result == NULL && status == LOOM_OK && n > 0) /* the call has waited */
        loom__handle_leave_ended(&filter->handle, LOOM__ACCESS_FIND, stream);
    else
        loom__handle_leave(&filter->handle, LOOM__ACCESS_FIND, stream);
    return status;
}

/* ---- Whole filters ---- */

/* OK if the filters can be merged; otherwise INVALID_ARGUMENT and a sentence about the first difference. */
static loom_status check_alike(const loom_filter *filter, const loom_filter *other)
{
    const loom__table *a = filter->handle.table, *b = other->handle.table;
    RETURN_ERROR_IF(a->machine != b->machine, LOOM_INVALID_ARGUMENT,
                    "the filters belong to different contexts; save one and load it with the other's context");
    RETURN_ERROR_IF(a->engine != b->engine, LOOM_INVALID_ARGUMENT,
                    "the filters have different engines; make the second with loom_filter_create_like");
    RETURN_ERROR_IF(a->is.key_bytes != b->is.key_bytes, LOOM_INVALID_ARGUMENT,
                    "the filters have keys of %u and %u bytes; make the second with loom_filter_create_like",
                    a->is.key_bytes, b->is.key_bytes);
    RETURN_IF_FAILED(a->engine->filter->check_alike(a, b));
    RETURN_ERROR_IF(a->is.seed != b->is.seed, LOOM_INVALID_ARGUMENT,
                    "the filters have different seeds, so that their bits mean different keys; make the second with "
                    "loom_filter_create_like");
    return LOOM_OK;
}

/* Enters two handles in the order of their addresses: two opposite merges cannot deadlock. */
static loom_status enter_both(loom_filter *filter, loom_filter *other, loom_stream stream)
{
    loom_filter *first = (uintptr_t)filter < (uintptr_t)other ? filter : other,
                *second = first == filter ? other : filter;
    const loom__access first_access = first == filter ? LOOM__ACCESS_ALONE : LOOM__ACCESS_READ;
    const loom__access second_access = second == filter ? LOOM__ACCESS_ALONE : LOOM__ACCESS_READ;
    RETURN_IF_FAILED(loom__handle_enter(&first->handle, first_access, stream));
    loom_status status = loom__handle_enter(&second->handle, second_access, stream);
    if (status != LOOM_OK)
        loom__handle_leave(&first->handle, first_access, stream);
    return status;
}

loom_status loom_filter_merge(loom_filter *filter, loom_filter *other, loom_stream stream)
{
    RETURN_IF_FAILED(loom__filter_check(filter, stream));
    RETURN_ERROR_IF(other == NULL, LOOM_INVALID_ARGUMENT, "other is NULL");
    RETURN_IF_FAILED(check_alike(filter, other));
    if (filter == other)
        return LOOM_OK;
    const loom__table *own = filter->handle.table;
    RETURN_IF_FAILED(enter_both(filter, other, stream));
    loom_status status = kernels_of(filter)->merge(own->machine, own->view, other->handle.table->view, stream);
    const uint64_t more = atomic_load(&other->given), given = atomic_fetch_add(&filter->given, more) + more;
    if (status == LOOM_OK)
        status = count_bits(filter, given, stream);
    if (status == LOOM_OK && outcome_of(filter) == LOOM_OVERFILLED)
        status = tell_overfilled(filter);
    loom__handle_leave(&other->handle, LOOM__ACCESS_READ, stream);
    loom__handle_leave(&filter->handle, LOOM__ACCESS_ALONE, stream);
    return status;
}

loom_status loom_filter_clear(loom_filter *filter, loom_result *result, loom_stream stream)
{
    static const loom_result cleared = {.status = LOOM_OK};
    RETURN_IF_FAILED(loom__filter_check(filter, stream));
    RETURN_IF_FAILED(loom__handle_enter(&filter->handle, LOOM__ACCESS_ALONE, stream));
    loom_status status = loom__table_clear(filter->handle.table, stream);
    atomic_store(&filter->given, 0);
    atomic_store(&filter->overfilled, 0);
    atomic_store(&filter->next_count, first_count(filter->handle.table));
    if (status == LOOM_OK)
        status = loom__handle_tell(&filter->handle, &cleared, result, stream);
    loom__handle_leave(&filter->handle, LOOM__ACCESS_ALONE, stream);
    return status;
}

loom_status loom_filter_stats(loom_filter *filter, loom_filter_report *given, loom_stream stream)
{
    loom_filter_report own_report = LOOM_FILTER_REPORT_INIT, *report = &own_report;
    loom__filter_survey survey;
    RETURN_IF_FAILED(loom__filter_check(filter, stream));
    RETURN_ERROR_IF(given == NULL, LOOM_INVALID_ARGUMENT, "report is NULL");
    RETURN_IF_FAILED(loom__struct_check(&loom__struct_filter_report, given));
    const loom__table *own = filter->handle.table;
    RETURN_IF_FAILED(loom__handle_enter(&filter->handle, LOOM__ACCESS_READ, stream));
    loom_status status = kernels_of(filter)->survey(own->machine, own->view, &survey, stream);
    if (status == LOOM_OK) {
        report->engine = own->engine->id;
        report->key_bytes = own->is.key_bytes;
        report->capacity = own->is.capacity;
        report->memory_bytes = loom__handle_bytes(&filter->handle);
        report->seed = own->is.seed;
        own->engine->filter->tell_report(own, &survey, report);
        loom__struct_out(given, report);
    }
    loom__handle_leave(&filter->handle, LOOM__ACCESS_READ, stream);
    return status;
}

loom_status loom_filter_memory_used(loom_filter *filter, uint64_t *bytes)
{
    RETURN_ERROR_IF(filter == NULL || bytes == NULL, LOOM_INVALID_ARGUMENT, "filter or bytes is NULL");
    *bytes = loom__handle_bytes(&filter->handle);
    return LOOM_OK;
}

loom_status loom_filter_get_config(loom_filter *filter, loom_filter_config *given)
{
    loom_filter_config config = LOOM_FILTER_CONFIG_INIT;
    RETURN_ERROR_IF(filter == NULL || given == NULL, LOOM_INVALID_ARGUMENT, "filter or config is NULL");
    RETURN_IF_FAILED(loom__struct_check(&loom__struct_filter_config, given));
    const loom__table *own = filter->handle.table;
    config.key_bytes = own->is.key_bytes;
    config.capacity = own->is.capacity;
    own->engine->filter->tell_config(own, &config);
    loom__struct_out(given, &config);
    return LOOM_OK;
}
