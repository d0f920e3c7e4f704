#include "core/value_range.h"
#include "core/error.h"

#include <string.h>

/* How the bits of a number become its ordered number; `least` and `most` are not set. */
static loom__value_range order_of(loom_number number)
{
    const int is_float = number == LOOM_NUMBER_F32 || number == LOOM_NUMBER_F64;
    const int is_signed = number == LOOM_NUMBER_I32 || number == LOOM_NUMBER_I64;
    const uint32_t sign = number < LOOM_NUMBER_U64 ? 31 : 63;
    const uint64_t sign_bit = (uint64_t)1 << sign;
    return (loom__value_range){
        .flip = is_float || is_signed ? sign_bit : 0, .fold = is_float ? sign_bit - 1 : 0, .sign = sign};
}

static uint64_t load_bound(const void *at, uint32_t bytes)
{
    uint64_t bits = 0;
    memcpy(&bits, at, bytes);
    return bits;
}

loom_status loom__value_range_make(loom_number number, uint32_t value_bytes, const void *least, const void *most,
                                   loom__value_range *range)
{
    RETURN_ERROR_IF((unsigned)number > LOOM_NUMBER_F64, LOOM_INVALID_ARGUMENT,
                    "number = %d: LOOM_NUMBER_U32, I32, F32, U64, I64 and F64 are known", (int)number);
    RETURN_ERROR_IF(value_bytes != 4 && value_bytes != 8, LOOM_UNSUPPORTED,
                    "values of %u bytes are no numbers: erase_if needs values of 4 or 8", value_bytes);
    const uint32_t bytes = number < LOOM_NUMBER_U64 ? 4 : 8;
    RETURN_ERROR_IF(bytes != value_bytes, LOOM_INVALID_ARGUMENT,
                    "number = %d: numbers of %u bytes are compared with values of %u; give the number that the values "
                    "are",
                    (int)number, bytes, value_bytes);
    *range = order_of(number);
    const uint64_t ones = bytes == 8 ? UINT64_MAX : UINT32_MAX, sign_bit = (uint64_t)1 << range->sign;
    const uint64_t infinity = bytes == 8 ? (uint64_t)0x7ff << 52 : (uint64_t)0xff << 23;
    const int is_float = range->fold != 0;
    const uint64_t first = is_float ? loom__value_ordered(range, infinity | sign_bit) : 0;
    const uint64_t last = is_float ? loom__value_ordered(range, infinity) : ones;
    range->least = least == NULL ? first : loom__value_ordered(range, load_bound(least, bytes));
    range->most = most == NULL ? last : loom__value_ordered(range, load_bound(most, bytes));
    RETURN_ERROR_IF(
        range->least < first || range->least > last || range->most < first || range->most > last, LOOM_INVALID_ARGUMENT,
        "a bound is not a number (NaN), and no value compares with it; give a number, or NULL for no bound");
    if (is_float && range->least == loom__value_ordered(range, 0))
        range->least = loom__value_ordered(range, sign_bit); /* both zeros are equal */
    if (is_float && range->most == loom__value_ordered(range, sign_bit))
        range->most = loom__value_ordered(range, 0);
    return LOOM_OK;
}
