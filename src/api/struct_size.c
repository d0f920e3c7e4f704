#include "api/struct_size.h"
#include "core/error.h"

#include <string.h>

/* `last` is the last field of the struct's first version. It does not change when the struct grows. */
#define KIND(type, last)                                                                                \
    {                                                                                                   \
        .name = #type, .bytes = sizeof(type), .least = offsetof(type, last) + sizeof(((type *)0)->last) \
    }

const loom__struct loom__struct_context_config = KIND(loom_context_config, log_user);
const loom__struct loom__struct_context_info = KIND(loom_context_info, huge_page_bytes);
const loom__struct loom__struct_map_config = KIND(loom_map_config, keys_per_cell);
const loom__struct loom__struct_memory = KIND(loom_memory, low_memory_bytes);
const loom__struct loom__struct_stats = KIND(loom_stats, stashed);
const loom__struct loom__struct_activity = KIND(loom_activity, reserved);
const loom__struct loom__struct_filter_config = KIND(loom_filter_config, bytes);
const loom__struct loom__struct_filter_report = KIND(loom_filter_report, designed_rate);
const loom__struct loom__struct_explanation = KIND(loom_explanation, seconds);
const loom__struct loom__struct_durable_config = KIND(loom_durable_config, reserved);
const loom__struct loom__struct_durability = KIND(loom_durability, lost_commits);
const loom__struct loom__struct_durable_report = KIND(loom_durable_report, lost_commits);
const loom__struct loom__struct_limit = KIND(loom_limit, shape);

static size_t size_of(const void *any)
{
    size_t bytes;
    memcpy(&bytes, any, sizeof bytes);
    return bytes;
}

loom_status loom__struct_check(const loom__struct *kind, const void *given)
{
    const size_t bytes = size_of(given);
    RETURN_ERROR_IF(bytes > kind->bytes, LOOM_INVALID_ARGUMENT,
                    "%s has struct_size %zu, this library knows %zu: the program was built with a newer header; load a "
                    "library at least as new as the header",
                    kind->name, bytes, kind->bytes);
    RETURN_ERROR_IF(bytes < kind->least, LOOM_INVALID_ARGUMENT,
                    "%s has struct_size %zu, the smallest that this library serves is %zu; start from its _INIT macro",
                    kind->name, bytes, kind->least);
    return LOOM_OK;
}

loom_status loom__struct_in(const loom__struct *kind, void *own, const void *given)
{
    RETURN_IF_FAILED(loom__struct_check(kind, given));
    loom__struct_out(own, given);
    return LOOM_OK;
}

/* Copies the fields that both structs have, except struct_size. */
void loom__struct_out(void *given, const void *own)
{
    const size_t bytes = size_of(given) < size_of(own) ? size_of(given) : size_of(own);
    memcpy((char *)given + sizeof(size_t), (const char *)own + sizeof(size_t), bytes - sizeof(size_t));
}
