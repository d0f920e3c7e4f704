#include "api/check.h"
#include "core/error.h"

/* An array that a call uses, as addresses. */
typedef struct stretch {
    uintptr_t from, end;
    const loom__array *array;
} stretch;

/* Checks one array. A NULL array and an array without elements have an empty stretch. */
static loom_status check_array(const loom__array *array, uint64_t n, stretch *used)
{
    const uint64_t elements = array->has_count ? array->count : n, width = array->width;
    const uint64_t alignment = array->alignment != 0 ? array->alignment : width == 4 || width == 8 ? width : 1;
    const uintptr_t from = (uintptr_t)array->at;
    uint64_t bytes;
    *used = (stretch){from, from, array};
    RETURN_ERROR_IF(from == 0 && !array->optional && elements > 0, LOOM_INVALID_ARGUMENT,
                    "%s is NULL while n is %llu; pass an array of n elements", array->name,
                    (unsigned long long)elements);
    if (from == 0 || elements == 0)
        return LOOM_OK;
    RETURN_ERROR_IF((from & (alignment - 1)) != 0, LOOM_INVALID_ARGUMENT,
                    "%s is not aligned to %llu bytes, as its elements must be", array->name,
                    (unsigned long long)alignment);
    /* No object has more bytes than a pointer difference can express. */
    RETURN_ERROR_IF(__builtin_mul_overflow(elements, width, &bytes) || bytes > PTRDIFF_MAX ||
                        bytes > UINTPTR_MAX - from,
                    LOOM_INVALID_ARGUMENT, "n = %llu: %s would run past the end of memory",
                    (unsigned long long)elements, array->name);
    used->end = from + bytes;
    return LOOM_OK;
}

/* A call with one key spends a tenth of its time here: no divisions, and absent arrays are compared with none. */
loom_status loom__check_arrays(const loom__array *arrays, int count, uint64_t n)
{
    stretch used[LOOM__MOST_ARRAYS];
    int present = 0;
    for (int i = 0; i < count; i++) {
        RETURN_IF_FAILED(check_array(&arrays[i], n, &used[present]));
        present += used[present].end > used[present].from;
    }
    for (int i = 1; i < present; i++)
        for (int j = 0; j < i; j++)
            RETURN_ERROR_IF((used[i].array->written || used[j].array->written) && used[i].from < used[j].end &&
                                used[j].from < used[i].end,
                            LOOM_INVALID_ARGUMENT,
                            "%s and %s overlap; an array that is written needs memory of its own", used[j].array->name,
                            used[i].array->name);
    return LOOM_OK;
}
