#include "api/check.h"
#include "core/error.h"

static int overlap(const loom__sized_array *a, const loom__sized_array *b)
{
    uintptr_t from_a = (uintptr_t)a->at, from_b = (uintptr_t)b->at;
    return a->count > 0 && b->count > 0 && from_a < from_b + b->count * b->width &&
           from_b < from_a + a->count * a->width;
}

loom_status loom__check_sized_arrays(const loom__sized_array *arrays, int count)
{
    for (int i = 0; i < count; i++) {
        const loom__sized_array *array = &arrays[i];
        const uint64_t n = array->count;
        RETURN_ERROR_IF(array->at == NULL && !array->optional && n > 0, LOOM_INVALID_ARGUMENT,
                        "%s is NULL while n is %llu; pass an array of n elements", array->name, (unsigned long long)n);
        if (array->at == NULL || n == 0)
            continue;
        RETURN_ERROR_IF((uintptr_t)array->at % array->alignment != 0, LOOM_INVALID_ARGUMENT,
                        "%s is not aligned to %llu bytes, as its elements must be", array->name,
                        (unsigned long long)array->alignment);
        /* No object has more bytes than a pointer difference can express. */
        RETURN_ERROR_IF(n > PTRDIFF_MAX / array->width || n > (UINTPTR_MAX - (uintptr_t)array->at) / array->width,
                        LOOM_INVALID_ARGUMENT, "n = %llu: %s would run past the end of memory", (unsigned long long)n,
                        array->name);
    }
    for (int i = 0; i < count; i++)
        for (int j = 0; j < i; j++)
            RETURN_ERROR_IF(arrays[i].at != NULL && arrays[j].at != NULL && (arrays[i].written || arrays[j].written) &&
                                overlap(&arrays[i], &arrays[j]),
                            LOOM_INVALID_ARGUMENT,
                            "%s and %s overlap; an array that is written needs memory of its own", arrays[j].name,
                            arrays[i].name);
    return LOOM_OK;
}

loom_status loom__check_arrays(const loom__array *arrays, int count, uint64_t n)
{
    loom__sized_array sized[LOOM__MOST_ARRAYS];
    for (int i = 0; i < count; i++) {
        const uint32_t width = arrays[i].width;
        sized[i] = (loom__sized_array){.name = arrays[i].name,
                                       .at = arrays[i].at,
                                       .width = width,
                                       .count = n,
                                       .alignment = width == 4 || width == 8 ? width : 1,
                                       .optional = arrays[i].optional,
                                       .written = arrays[i].written};
    }
    return loom__check_sized_arrays(sized, count);
}
