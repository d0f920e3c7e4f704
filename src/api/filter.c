/* Filters: their life, bulk calls, and what they tell about themselves. Files: filter_file.c; device views: filter_view.c. */
#include "api/filter.h"
#include "api/check.h"
#include "core/error.h"
#include "core/memory.h"

#include <math.h>
#include <string.h>

/* ---- Life ---- */

static loom_status check_config(loom_context *context, const loom_filter_config *config)
{
    RETURN_ERROR_IF(context == NULL || config == NULL, LOOM_INVALID_ARGUMENT, "context or config is NULL");
    RETURN_IF_FAILED(loom__check_struct("loom_filter_config", config->struct_size, sizeof *config));
    RETURN_ERROR_IF(config->key_bytes != 4 && config->key_bytes != 8, LOOM_INVALID_ARGUMENT,
                    "key_bytes = %u: keys have 4 or 8 bytes", config->key_bytes);
    RETURN_ERROR_IF(config->probes % FILTER_QUARTERS != 0 || config->probes > 16, LOOM_INVALID_ARGUMENT,
                    "probes = %u: a key sets 4, 8, 12 or 16 bits; 0: chosen by the library", config->probes);
    RETURN_ERROR_IF(
        config->bytes == 0 && config->capacity == 0, LOOM_INVALID_ARGUMENT,
        "capacity and bytes are both 0: a filter has a size; say how many keys it is to hold, or its bytes");
    RETURN_ERROR_IF(config->bytes == 0 && !(config->false_positive_rate >= FILTER_LEAST_RATE &&
                                            config->false_positive_rate <= FILTER_LARGEST_RATE),
                    LOOM_INVALID_ARGUMENT, "false_positive_rate = %g: it must be at least %g and at most %g",
                    config->false_positive_rate, FILTER_LEAST_RATE, FILTER_LARGEST_RATE);
    return LOOM_OK;
}

loom_status loom_filter_memory_required(loom_context *context, const loom_filter_config *config, loom_memory *memory)
{
    loom__filter_shape shape;
    RETURN_IF_FAILED(check_config(context, config));
    RETURN_ERROR_IF(memory == NULL, LOOM_INVALID_ARGUMENT, "memory is NULL");
    RETURN_IF_FAILED(loom__check_struct("loom_memory", memory->struct_size, sizeof *memory));
    RETURN_IF_FAILED(loom__filter_choose_shape(config, &shape));
    const loom__filter_view view = loom__filter_view_make(&shape, 0);
    const loom__filter_kernels *kernels = context->machine->filter;
    *memory = (loom_memory)LOOM_MEMORY_INIT;
    memory->table_bytes = filter_bytes(shape.blocks) + sizeof(loom_filter);
    if (kernels != NULL && shape.capacity > 0)
        memory->build_bytes = kernels->bulk_bytes(context->machine, &view, shape.capacity);
    return LOOM_OK;
}

loom_status loom__filter_wrap(loom_context *context, loom__filter *inner, uint64_t given, loom_filter **made)
{
    loom__machine *machine = context->machine;
    loom_filter *filter = loom__allocate(&machine->allocator, sizeof *filter, LOOM_MEMORY_HOST, NULL);
    loom_status status = LOOM_OUT_OF_MEMORY;
    if (filter != NULL) {
        memset(filter, 0, sizeof *filter);
        status = loom__handle_begin(&filter->handle, context, 1);
    }
    if (status != LOOM_OK) {
        loom__release(&machine->allocator, filter, sizeof *filter, LOOM_MEMORY_HOST, NULL);
        loom__filter_free(inner);
        return status;
    }
    filter->handle.shares_inserts = 1;
    filter->handle.view_end = "loom_filter_view_end";
    filter->filter = *inner;
    atomic_init(&filter->given, given);
    atomic_init(&filter->next_count, inner->shape.capacity > 0 ? inner->shape.capacity : UINT64_MAX);
    atomic_init(&filter->overfilled, 0);
    *made = filter;
    return LOOM_OK;
}

loom_status loom_filter_create(loom_context *context, const loom_filter_config *config, loom_filter **made)
{
    loom__filter_shape shape;
    loom__filter inner;
    RETURN_ERROR_IF(made == NULL, LOOM_INVALID_ARGUMENT, "filter is NULL; pass where the new handle is to go");
    RETURN_IF_FAILED(check_config(context, config));
    RETURN_IF_FAILED(loom__filter_choose_shape(config, &shape));
    RETURN_IF_FAILED(loom__filter_make(context->machine, &shape, loom__context_seed(context), 0, NULL, &inner));
    return loom__filter_wrap(context, &inner, 0, made);
}

/* Of a filter only its bits ever change: what it was made with needs no lock. */
loom_status loom_filter_create_like(loom_filter *filter, loom_filter **made)
{
    loom__filter inner;
    RETURN_ERROR_IF(filter == NULL, LOOM_INVALID_ARGUMENT, "filter is NULL");
    RETURN_ERROR_IF(made == NULL, LOOM_INVALID_ARGUMENT, "like is NULL; pass where the new handle is to go");
    loom_context *context = filter->handle.context;
    RETURN_IF_FAILED(loom__filter_make(context->machine, &filter->filter.shape, filter->filter.seed, 0, NULL, &inner));
    return loom__filter_wrap(context, &inner, 0, made);
}

loom_status loom__filter_check(loom_filter *filter, loom_stream stream)
{
    RETURN_ERROR_IF(filter == NULL, LOOM_INVALID_ARGUMENT, "filter is NULL");
    return loom__handle_check_stream(&filter->handle, stream);
}

loom_status loom_filter_clone(loom_filter *filter, loom_filter **made, loom_stream stream)
{
    loom__filter twin;
    RETURN_IF_FAILED(loom__filter_check(filter, stream));
    RETURN_ERROR_IF(made == NULL, LOOM_INVALID_ARGUMENT, "clone is NULL; pass where the new handle is to go");
    const loom__filter *own = &filter->filter;
    loom__machine *machine = own->machine;
    RETURN_IF_FAILED(loom__handle_enter(&filter->handle, LOOM__ACCESS_READ, stream));
    loom_status status = loom__filter_make(machine, &own->shape, own->seed, 1, stream, &twin);
    if (status == LOOM_OK) {
        status =
            machine->ops->copy_table(machine, twin.view.base, own->view.base, filter_bytes(own->shape.blocks), stream);
        if (status == LOOM_OK)
            status = loom__filter_wrap(filter->handle.context, &twin, atomic_load(&filter->given), made);
        else
            loom__filter_free(&twin);
    }
    loom__handle_leave(&filter->handle, LOOM__ACCESS_READ, stream);
    return status;
}

void loom_filter_destroy(loom_filter *filter)
{
    if (filter == NULL)
        return;
    loom_context *context = loom__handle_end(&filter->handle);
    loom__filter_free(&filter->filter);
    loom__release(&context->machine->allocator, filter, sizeof *filter, LOOM_MEMORY_HOST, NULL);
    loom__context_release(context);
}

/* ---- Overfilling ---- */

/* More than its capacity and a sixty-fourth, and than an estimate may be wrong by. */
static int is_overfilled(const loom__filter_shape *shape, double keys)
{
    const double capacity = (double)shape->capacity;
    return shape->capacity > 0 && keys > capacity + capacity / 64 + 4 * sqrt(capacity);
}

/* Counts the filter's bits, and notes what follows. Waits. `seen`: keys that were given when it was called. By one call at a time. */
static loom_status count_bits(loom_filter *filter, uint64_t seen, loom_stream stream)
{
    const loom__filter *own = &filter->filter;
    const loom__filter_shape *shape = &own->shape;
    loom__filter_survey survey;
    RETURN_IF_FAILED(own->kernels->survey(own->machine, &own->view, &survey, stream));
    const double keys = loom__filter_estimate(survey.bits_set, shape->blocks, shape->probes);
    const uint64_t counted = (uint64_t)keys, next = counted + shape->capacity / 64 + 1;
    atomic_fetch_add(&filter->given, counted - seen); /* modulo 2^64; those that come meanwhile stay counted */
    atomic_store(&filter->overfilled, (uint32_t)is_overfilled(shape, keys));
    atomic_store(&filter->next_count, shape->capacity == 0     ? UINT64_MAX
                                      : next < shape->capacity ? shape->capacity
                                                               : next);
    return LOOM_OK;
}

/* Is it time to count bits, and is it this call that does? *next is put back if it cannot. */
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
    const loom__filter_shape *shape = &filter->filter.shape;
    return loom__fail(
        LOOM_OVERFILLED,
        "the filter was made for %llu keys and holds about %llu: all are in it, but absent keys are found more "
        "often than %.2g of the time; make a larger one, or go on (loom_filter_stats tells the rate)",
        (unsigned long long)shape->capacity, (unsigned long long)atomic_load(&filter->given), shape->designed_rate);
}

/* ---- Bulk calls ---- */

/* By partition nobody else may set bits. With views out that cannot be, and unless it was asked for the keys go directly. */
static loom_status enter_inserting(loom_filter *filter, loom__batch *batch, loom__access *access)
{
    const loom__filter *own = &filter->filter;
    const int asked = (batch->flags & LOOM_BY_PARTITION) != 0;
    batch->by_partition =
        asked || (!(batch->flags & LOOM_DIRECTLY) && own->kernels->bulk_pays(own->machine, &own->view, batch->n));
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
    const loom__filter *own = &filter->filter;
    const uint64_t given = atomic_fetch_add(&filter->given, batch->n) + batch->n;
    uint64_t next;
    const int counts = claim_count(filter, given, &next);
    loom_result outcome = {0}, *told = batch->result;
    if (counts)
        batch->result = &outcome;
    loom_status status = own->kernels->insert(own->machine, &own->view, batch, counts ? LOOM_OK : outcome_of(filter));
    if (status != LOOM_OK)
        atomic_fetch_sub(&filter->given, batch->n);
    if (status == LOOM_OK && counts)
        status = count_bits(filter, given, batch->stream);
    if (status != LOOM_OK && counts)
        atomic_store(&filter->next_count, next);
    if (status != LOOM_OK || !counts)
        return status;
    outcome.status = (int32_t)outcome_of(filter);
    return own->machine->ops->write_table(own->machine, told, &outcome, sizeof outcome, batch->stream);
}

loom_status loom_filter_insert(loom_filter *filter, const void *keys, uint64_t n, uint32_t flags, loom_result *result,
                               loom_stream stream)
{
    loom_result own = {0};
    loom__access access;
    loom__batch batch = {
        .keys = keys, .n = n, .flags = flags, .result = result != NULL ? result : &own, .stream = stream};
    RETURN_IF_FAILED(loom__filter_check(filter, stream));
    RETURN_ERROR_IF(flags & ~(uint32_t)(LOOM_BY_PARTITION | LOOM_DIRECTLY), LOOM_INVALID_ARGUMENT,
                    "flags = 0x%x: only LOOM_BY_PARTITION and LOOM_DIRECTLY are known to filters", flags);
    RETURN_ERROR_IF((flags & LOOM_BY_PARTITION) && (flags & LOOM_DIRECTLY), LOOM_INVALID_ARGUMENT,
                    "flags = 0x%x: LOOM_BY_PARTITION or LOOM_DIRECTLY, not both", flags);
    const loom__array arrays[] = {{"keys", keys, filter->filter.shape.key_bytes, 0, 0}};
    RETURN_IF_FAILED(loom__check_arrays(arrays, 1, n));
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
        {"keys", keys, filter->filter.shape.key_bytes, 0, 0},
        {"found", found, 1, 1, 1},
    };
    RETURN_IF_FAILED(loom__check_arrays(arrays, 2, n));
    RETURN_IF_FAILED(loom__handle_enter(&filter->handle, LOOM__ACCESS_FIND, stream));
    loom_status status = filter->filter.kernels->contains(filter->filter.machine, &filter->filter.view, &batch);
    loom__handle_leave(&filter->handle, LOOM__ACCESS_FIND, stream);
    return status;
}

loom_status loom_filter_erase(loom_filter *filter, const void *keys, uint64_t n, loom_result *result,
                              loom_stream stream)
{
    (void)keys, (void)n, (void)result;
    RETURN_IF_FAILED(loom__filter_check(filter, stream));
    return loom__fail(LOOM_UNSUPPORTED,
                      "keys cannot be taken out of a filter, since a bit may belong to several of them; clear it "
                      "and insert what is left, or use a set");
}

/* ---- Whole filters ---- */

/* The first thing in which they differ, or OK. */
static loom_status check_alike(const loom_filter *filter, const loom_filter *other)
{
    const loom__filter *a = &filter->filter, *b = &other->filter;
    RETURN_ERROR_IF(a->machine != b->machine, LOOM_INVALID_ARGUMENT,
                    "the filters belong to different contexts; save one and load it with the other's context");
    RETURN_ERROR_IF(a->shape.key_bytes != b->shape.key_bytes, LOOM_INVALID_ARGUMENT,
                    "the filters have keys of %u and %u bytes; make the second with loom_filter_create_like",
                    a->shape.key_bytes, b->shape.key_bytes);
    RETURN_ERROR_IF(a->shape.blocks != b->shape.blocks || a->shape.probes != b->shape.probes, LOOM_INVALID_ARGUMENT,
                    "the filters have %u and %u blocks, and keys that set %u and %u bits; make the second with "
                    "loom_filter_create_like",
                    a->shape.blocks, b->shape.blocks, a->shape.probes, b->shape.probes);
    RETURN_ERROR_IF(a->seed != b->seed, LOOM_INVALID_ARGUMENT,
                    "the filters have different seeds, so that their bits mean different keys; make the second with "
                    "loom_filter_create_like");
    return LOOM_OK;
}

/* Two handles are entered by their addresses, so that two merges the other way round do not wait for each other for ever. */
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
    const loom__filter *own = &filter->filter;
    RETURN_IF_FAILED(enter_both(filter, other, stream));
    loom_status status = own->kernels->merge(own->machine, &own->view, &other->filter.view, stream);
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
    const loom__filter *own = &filter->filter;
    const loom__machine_ops *ops = own->machine->ops;
    unsigned char block[FILTER_BLOCK_BYTES];
    RETURN_IF_FAILED(loom__handle_enter(&filter->handle, LOOM__ACCESS_ALONE, stream));
    loom_status status = own->kernels->clear(own->machine, &own->view, stream);
    atomic_store(&filter->given, 0);
    atomic_store(&filter->overfilled, 0);
    atomic_store(&filter->next_count, own->shape.capacity > 0 ? own->shape.capacity : UINT64_MAX);
    if (status == LOOM_OK && result != NULL) /* which may lie anywhere that the machine can write */
        status = ops->write_table(own->machine, result, &cleared, sizeof cleared, stream);
    else if (status == LOOM_OK) /* waits */
        status = ops->read_table(own->machine, block, own->view.base, sizeof block, stream);
    loom__handle_leave(&filter->handle, LOOM__ACCESS_ALONE, stream);
    return status;
}

loom_status loom_filter_stats(loom_filter *filter, loom_filter_report *report, loom_stream stream)
{
    loom__filter_survey survey;
    RETURN_IF_FAILED(loom__filter_check(filter, stream));
    RETURN_ERROR_IF(report == NULL, LOOM_INVALID_ARGUMENT, "report is NULL");
    RETURN_IF_FAILED(loom__check_struct("loom_filter_report", report->struct_size, sizeof *report));
    const loom__filter *own = &filter->filter;
    const loom__filter_shape *shape = &own->shape;
    RETURN_IF_FAILED(loom__handle_enter(&filter->handle, LOOM__ACCESS_READ, stream));
    loom_status status = own->kernels->survey(own->machine, &own->view, &survey, stream);
    if (status == LOOM_OK) {
        *report = (loom_filter_report)LOOM_FILTER_REPORT_INIT;
        report->engine = LOOM_ENGINE_BLOOM;
        report->key_bytes = shape->key_bytes;
        report->probes = shape->probes;
        report->capacity = shape->capacity;
        report->blocks = shape->blocks;
        report->bits_set = survey.bits_set;
        report->memory_bytes = filter_bytes(shape->blocks) + sizeof *filter;
        report->seed = own->seed;
        report->fill = (double)survey.bits_set / ((double)shape->blocks * FILTER_BLOCK_BITS);
        report->estimated_keys = loom__filter_estimate(survey.bits_set, shape->blocks, shape->probes);
        report->false_positive_rate =
            fmin(1, survey.false_positive_rate + report->estimated_keys / (double)shape->blocks * FILTER_SAME_BITS);
        report->designed_rate = shape->designed_rate;
    }
    loom__handle_leave(&filter->handle, LOOM__ACCESS_READ, stream);
    return status;
}

loom_status loom_filter_memory_used(loom_filter *filter, uint64_t *bytes)
{
    RETURN_ERROR_IF(filter == NULL || bytes == NULL, LOOM_INVALID_ARGUMENT, "filter or bytes is NULL");
    *bytes = filter_bytes(filter->filter.shape.blocks) + sizeof *filter;
    return LOOM_OK;
}

loom_status loom_filter_get_config(loom_filter *filter, loom_filter_config *config)
{
    RETURN_ERROR_IF(filter == NULL || config == NULL, LOOM_INVALID_ARGUMENT, "filter or config is NULL");
    RETURN_IF_FAILED(loom__check_struct("loom_filter_config", config->struct_size, sizeof *config));
    const loom__filter_shape *shape = &filter->filter.shape;
    *config = (loom_filter_config)LOOM_FILTER_CONFIG_INIT;
    config->key_bytes = shape->key_bytes;
    config->probes = shape->probes;
    config->capacity = shape->capacity;
    config->false_positive_rate = shape->designed_rate;
    config->bytes = filter_bytes(shape->blocks);
    return LOOM_OK;
}
