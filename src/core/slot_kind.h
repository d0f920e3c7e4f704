/* What a slot of a table holds: the widths of its key and its value, and whether both lie in the bucket's line. Every
 * engine of maps and sets uses these kinds. */
#ifndef LOOM_CORE_SLOT_KIND_H
#define LOOM_CORE_SLOT_KIND_H

#include "core/portable.h"

typedef enum loom__slot_kind {
    SLOT_PAIR_4_4 = 0,
    SLOT_KEY_4_VALUE_8 = 1,
    SLOT_KEY_8_VALUE_4 = 2,
    SLOT_KEY_8_VALUE_8 = 3,
    SLOT_KEY_4 = 4, /* sets: no values */
    SLOT_KEY_8 = 5,
    SLOT_TAG = 6,   /* a tag of 2 bytes; the key and its value, of any width, are in a row outside the line */
    SLOT_STRING = 7 /* the same; the row refers to strings in a heap: its key, its value, or both */
} loom__slot_kind;

/* Runs `call(KIND)` with the kind as a literal, which specialises the code below it. With LOOM_ONE_COPY (portable.h)
 * the kind is a variable. Tables with tags belong to one engine, which names the kind itself. */
#if defined(LOOM_ONE_COPY)
#define SLOT_FOR_KIND(kind, call)      \
    {                                  \
        call((loom__slot_kind)(kind)); \
    }
#else
#define SLOT_FOR_KIND(kind, call)      \
    switch ((loom__slot_kind)(kind)) { \
    case SLOT_PAIR_4_4:                \
        call(SLOT_PAIR_4_4);           \
        break;                         \
    case SLOT_KEY_4_VALUE_8:           \
        call(SLOT_KEY_4_VALUE_8);      \
        break;                         \
    case SLOT_KEY_8_VALUE_4:           \
        call(SLOT_KEY_8_VALUE_4);      \
        break;                         \
    case SLOT_KEY_8_VALUE_8:           \
        call(SLOT_KEY_8_VALUE_8);      \
        break;                         \
    case SLOT_KEY_4:                   \
        call(SLOT_KEY_4);              \
        break;                         \
    case SLOT_KEY_8:                   \
        call(SLOT_KEY_8);              \
        break;                         \
    case SLOT_TAG:                     \
    case SLOT_STRING:                  \
        break;                         \
    }
#endif

/* Whether lines hold tags, and rows the keys. */
LOOM_BOTH int slot_has_tag(loom__slot_kind kind)
{
    return kind == SLOT_TAG || kind == SLOT_STRING;
}

/* value_bytes = 0: a set. */
LOOM_BOTH loom__slot_kind slot_kind_of(uint32_t key_bytes, uint32_t value_bytes)
{
    if (value_bytes == 0)
        return key_bytes == 4 ? SLOT_KEY_4 : SLOT_KEY_8;
    if (key_bytes == 4)
        return value_bytes == 4 ? SLOT_PAIR_4_4 : SLOT_KEY_4_VALUE_8;
    return value_bytes == 4 ? SLOT_KEY_8_VALUE_4 : SLOT_KEY_8_VALUE_8;
}

/* Bytes that the line holds of a key: the key, or its tag. */
LOOM_BOTH uint32_t slot_key_bytes(loom__slot_kind kind)
{
    if (slot_has_tag(kind))
        return 2;
    return kind == SLOT_PAIR_4_4 || kind == SLOT_KEY_4_VALUE_8 || kind == SLOT_KEY_4 ? 4 : 8;
}

/* 0: there are no values, or rows hold them. */
LOOM_BOTH uint32_t slot_value_bytes(loom__slot_kind kind)
{
    if (kind == SLOT_KEY_4 || kind == SLOT_KEY_8 || slot_has_tag(kind))
        return 0;
    return kind == SLOT_PAIR_4_4 || kind == SLOT_KEY_8_VALUE_4 ? 4 : 8;
}

/* Whether values lie apart from their keys. If they do, one compare-and-swap cannot store a key with its value. */
LOOM_BOTH int slot_values_apart(loom__slot_kind kind)
{
    return kind == SLOT_KEY_4_VALUE_8 || kind == SLOT_KEY_8_VALUE_4 || kind == SLOT_KEY_8_VALUE_8 || slot_has_tag(kind);
}

/* Keys lie this far apart in a line. */
LOOM_BOTH uint32_t slot_stride(loom__slot_kind kind)
{
    return kind == SLOT_PAIR_4_4 ? 8 : slot_key_bytes(kind);
}

#endif
