#include "api/check.h"
#include "core/error.h"

static int overlap(const loom__array *a, const loom__array *b, uint64_t n)
{
    const uintptr_t from_a = (uintptr_t)a->at, from_b = (uintptr_t)b->at;
    return a->at != NULL && b->at != NULL && from_a < from_b + n * b->width && from_b < from_a + n * a->width;
}

loom_status loom__check_arrays(const loom__array *arrays, int count, uint64_t n)
{
    for (int i = 0; i < count && n > 0; i++) {
        const loom__array *array = &arrays[i];
        const uint32_t width = array->width, alignment = width == 4 || width == 8 ? width : 1;
        RETURN_ERROR_IF(array->at == NULL && !array->optional, LOOM_INVALID_ARGUMENT,
                        "%s is NULL while n is %llu; pass an array of n elements", array->name, (unsigned long long)n);
        if (array->at == NULL)
            continue;
        RETURN_ERROR_IF((uintptr_t)array->at % alignment != 0, LOOM_INVALID_ARGUMENT,
                        "%s is not aligned to %u bytes, as its elements must be", array->name, alignment);
        /* No object has more bytes than a pointer difference can express. */
        RETURN_ERROR_IF(n > PTRDIFF_MAX / width || n > (UINTPTR_MAX - (uintptr_t)array->at) / width,
                        LOOM_INVALID_ARGUMENT, "n = %llu: %s would run past the end of memory", (unsigned long long)n,
                        array->name);
    }
    for (int i = 0; i < count && n > 0; i++)
        for (int j = 0; j < i; j++)
            RETURN_ERROR_IF(
                (arrays[i].written || arrays[j].written) && overlap(&arrays[i], &arrays[j], n), LOOM_INVALID_ARGUMENT,
                "%s and %s overlap; an array that is written needs memory of its own", arrays[j].name, arrays[i].name);
    return LOOM_OK;
}
