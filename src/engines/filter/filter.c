#include "engines/filter/filter.h"
#include "core/error.h"
#include "core/memory.h"

loom__filter_view loom__filter_view_make(const loom__filter_shape *shape, uint64_t seed)
{
    return (loom__filter_view){.blocks = shape->blocks,
                               .each = shape->probes / FILTER_QUARTERS,
                               .key_bytes = shape->key_bytes,
                               .seed = loom__seed_expand(seed)};
}

loom_status loom__filter_make(loom__machine *machine, const loom__filter_shape *shape, uint64_t seed, int uncleared,
                              loom_stream stream, loom__filter *filter)
{
    RETURN_ERROR_IF(machine->filter == NULL, LOOM_UNSUPPORTED, "the %s machine has no filters; use the cpu machine",
                    machine->ops->name);
    *filter = (loom__filter){.machine = machine,
                             .kernels = machine->filter,
                             .shape = *shape,
                             .seed = seed,
                             .view = loom__filter_view_make(shape, seed)};
    filter->view.base = loom__allocate(&machine->allocator, filter_bytes(shape->blocks), LOOM_MEMORY_TABLE, stream);
    if (filter->view.base == NULL)
        return LOOM_OUT_OF_MEMORY;
    unsigned char block[FILTER_BLOCK_BYTES];
    loom_status status = uncleared ? LOOM_OK : filter->kernels->clear(machine, &filter->view, stream);
    if (status == LOOM_OK && !uncleared) /* waits: the filter must be empty for every stream */
        status = machine->ops->read_table(machine, block, filter->view.base, sizeof block, stream);
    if (status != LOOM_OK)
        loom__filter_free(filter);
    return status;
}

void loom__filter_free(loom__filter *filter)
{
    loom__release(&filter->machine->allocator, filter->view.base, filter_bytes(filter->shape.blocks), LOOM_MEMORY_TABLE,
                  NULL);
}
