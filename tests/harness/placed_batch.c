#include "placed_batch.h"

#include <stdlib.h>
#include <string.h>

const placement placements[PLACEMENTS] = {
    {"arrays on the host", 0, 0, 0, 0},
    {"arrays of the machine", 1, 1, 0, 0},
    {"arrays of the machine, not aligned, values on the host", 1, 0, 0, 1},
    {"arrays of the machine, with statuses", 1, 1, 1, 0},
    {"keys on the host, the others of the machine, not aligned, with statuses", 0, 1, 1, 1},
};

/* Piece number `which`, with a copy of `from` behind `shift` elements. */
static void *place(placed_batch *p, int which, int here, const void *from, uint64_t n, size_t width, uint32_t shift)
{
    p->bytes[which] = (n + shift + 1) * width;
    if (here)
        CHECK_OK(loom_array_create(p->context, LOOM_ARRAY_MACHINE, p->bytes[which], &p->pieces[which]));
    else
        p->pieces[which] = test_allocate(p->bytes[which]);
    unsigned char *at = (unsigned char *)p->pieces[which] + shift * width;
    CHECK_OK(loom_array_copy(p->context, at, from, n * width, NULL));
    return at;
}

static void take_back(placed_batch *p, int which, int here)
{
    if (here)
        loom_array_destroy(p->context, LOOM_ARRAY_MACHINE, p->pieces[which], p->bytes[which]);
    else
        free(p->pieces[which]);
}

placed_batch place_batch(loom_context *context, const batch *b, const placement *where)
{
    loom_result blank;
    placed_batch p = {.context = context, .where = where, .n = b->n};
    memset(&blank, 0xee, sizeof blank);
    p.keys = place(&p, 0, where->keys, b->keys, b->n, b->key_bytes, where->shift);
    if (b->values)
        p.values = place(&p, 1, where->values, b->values, b->n, b->value_bytes, where->shift);
    if (where->status) {
        memset(b->status, 0xee, b->n);
        p.status = place(&p, 2, 1, b->status, b->n, 1, where->shift);
    }
    p.result = place(&p, 3, where->keys, &blank, 1, sizeof blank, 0);
    return p;
}

loom_result take_back_batch(placed_batch *p, batch *b)
{
    loom_result result;
    uint64_t counts[4] = {0, 0, 0, 0};
    CHECK_OK(loom_array_copy(p->context, &result, p->result, sizeof result, NULL));
    if (p->status) {
        CHECK_OK(loom_array_copy(p->context, b->status, p->status, b->n, NULL));
        for (uint64_t i = 0; i < b->n; i++) {
            if (b->status[i] > LOOM_FULL)
                FAIL("status[%llu] of %llu is %d", (unsigned long long)i, (unsigned long long)b->n, b->status[i]);
            counts[b->status[i]]++;
        }
        CHECK_EQ(result.ok, counts[LOOM_OK]);
        CHECK_EQ(result.exists, counts[LOOM_EXISTS]);
        CHECK_EQ(result.full, counts[LOOM_FULL]);
    }
    CHECK_EQ(result.keys, p->n);
    CHECK_EQ(result.ok + result.exists + result.full, p->n);
    CHECK_EQ(result.not_found, 0);
    CHECK_EQ(result.status, result.full ? LOOM_FULL : LOOM_OK);
    CHECK_EQ(result.reserved0, 0);
    CHECK_EQ(result.reserved[0] | result.too_long, 0);
    take_back(p, 0, p->where->keys);
    if (p->values)
        take_back(p, 1, p->where->values);
    if (p->status)
        take_back(p, 2, 1);
    take_back(p, 3, p->where->keys);
    return result;
}
