/* Hashes of keys, without a table. */
#include "api/check.h"
#include "api/context.h"
#include "core/error.h"

enum { LOOM__MOST_HASHED = 256 };

loom_status loom_hash(loom_context *context, const void *keys, uint32_t key_bytes, uint64_t n, uint64_t seed,
                      uint64_t *hashes, loom_stream stream)
{
    RETURN_ERROR_IF(context == NULL, LOOM_INVALID_ARGUMENT, "context is NULL");
    RETURN_ERROR_IF(key_bytes < 1 || key_bytes > LOOM__MOST_HASHED, LOOM_INVALID_ARGUMENT,
                    "key_bytes = %u: keys have 1 to %d bytes", key_bytes, (int)LOOM__MOST_HASHED);
    const loom__array arrays[] = {
        {.name = "keys", .at = keys, .width = key_bytes},
        {.name = "hashes", .at = hashes, .width = sizeof *hashes, .written = 1},
    };
    RETURN_IF_FAILED(context->machine->ops->check_stream(context->machine, stream));
    RETURN_IF_FAILED(loom__check_arrays(arrays, sizeof arrays / sizeof *arrays, n));
    return n > 0 ? context->machine->ops->hash_keys(context->machine, keys, key_bytes, n, seed, hashes, stream)
                 : LOOM_OK;
}
