#include "core/error.h"

#include <stdarg.h>
#include <stdio.h>

static _Thread_local char sentence[512];

loom_status loom__fail(loom_status status, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(sentence, sizeof sentence, format, arguments);
    va_end(arguments);
    return status;
}

const char *loom_last_error(void)
{
    return sentence;
}

const char *loom_status_name(loom_status status)
{
    switch (status) {
#define NAME_CASE(name, value, text) \
    case LOOM_##name:                \
        return "LOOM_" #name;
        LOOM_STATUS_LIST(NAME_CASE)
#undef NAME_CASE
    case LOOM_STATUS_FORCE_INT_:
        break;
    }
    return "LOOM_UNKNOWN_STATUS";
}

const char *loom_status_text(loom_status status)
{
    switch (status) {
#define TEXT_CASE(name, value, text) \
    case LOOM_##name:                \
        return text;
        LOOM_STATUS_LIST(TEXT_CASE)
#undef TEXT_CASE
    case LOOM_STATUS_FORCE_INT_:
        break;
    }
    return "a status that this version of the library does not know";
}

uint32_t loom_version(void)
{
    return LOOM_VERSION;
}
