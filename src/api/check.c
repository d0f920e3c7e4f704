#include "api/check.h"
#include "core/error.h"

static uint64_t elements_of(const loom__array *array, uint64_t n)
{
    return array->at == NULL ? 0 : array->has_count ? array->count : n;
}

static int overlap(const loom__array *a, const loom__array *b, uint64_t n)
{
    const uintptr_t from_a = (uintptr_t)a->at, from_b = (uintptr_t)b->at;
    const uint64_t in_a = elements_of(a, n), in_b = elements_of(b, n);
    return in_a > 0 && in_b > 0 && from_a < from_b + in_b * b->width && from_b < from_a + in_a * a->width;
}

loom_status loom__check_arrays(const loom__array *arrays, int count, uint64_t n)
{
    for (int i = 0; i < count; i++) {
        const loom__array *array = &arrays[i];
        const uint64_t elements = array->has_count ? array->count : n, width = array->width;
        const uint64_t alignment = array->alignment != 0 ? array->alignment : width == 4 || width == 8 ? width : 1;
        RETURN_ERROR_IF(array->at == NULL && !array->optional && elements > 0, LOOM_INVALID_ARGUMENT,
                        "%s is NULL while n is %llu; pass an array of n elements", array->name,
                        (unsigned long long)elements);
        if (elements_of(array, n) == 0)
            continue;
        RETURN_ERROR_IF((uintptr_t)array->at % alignment != 0, LOOM_INVALID_ARGUMENT,
                        "%s is not aligned to %llu bytes, as its elements must be", array->name,
                        (unsigned long long)alignment);
        /* No object has more bytes than a pointer difference can express. */
        RETURN_ERROR_IF(elements > PTRDIFF_MAX / width || elements > (UINTPTR_MAX - (uintptr_t)array->at) / width,
                        LOOM_INVALID_ARGUMENT, "n = %llu: %s would run past the end of memory",
                        (unsigned long long)elements, array->name);
    }
    for (int i = 0; i < count; i++)
        for (int j = 0; j < i; j++)
            RETURN_ERROR_IF(
                (arrays[i].written || arrays[j].written) && overlap(&arrays[i], &arrays[j], n), LOOM_INVALID_ARGUMENT,
                "%s and %s overlap; an array that is written needs memory of its own", arrays[j].name, arrays[i].name);
    return LOOM_OK;
}
