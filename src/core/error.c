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

typedef struct status_words {
    loom_status status;
    const char *name, *text;
} status_words;

static const status_words *words_of(loom_status status)
{
#define WORDS(name, value, text) {LOOM_##name, "LOOM_" #name, text},
    static const status_words all[] = {LOOM_STATUS_LIST(WORDS)};
#undef WORDS
    static const status_words unknown = {LOOM_STATUS_FORCE_INT_, "LOOM_UNKNOWN_STATUS",
                                         "a status that this version of the library does not know"};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (all[i].status == status)
            return &all[i];
    return &unknown;
}

const char *loom_status_name(loom_status status)
{
    return words_of(status)->name;
}

const char *loom_status_text(loom_status status)
{
    return words_of(status)->text;
}

uint32_t loom_version(void)
{
    return LOOM_VERSION;
}
