/* Batches that mix operations (loom_map_apply): what a sequence of operations on one key does. Machines run the same
 * functions, one key after the other or by a scan over all rows at once.
 *
 * In the order of the batch (LOOM_IN_ORDER) the rows of a key are brought together, the key is looked up once, and the
 * sequence of its operations is worked out without the table: each row's answer follows from what the table held and
 * from the rows before. What remains of the sequence is its net effect: at most one write of the key, or in a multimap
 * an erasure and the values that stay.
 *
 * An *effect* is a function from what a key holds before to what it holds afterwards. Effects of one row are few, and
 * two effects one after the other are an effect again, so a scan can join them in any grouping. For a key that is
 * there, a sequence erases it, keeps its value and adds a number to it, or gives it the value of a row and adds a
 * number to that. For a key that is absent, it leaves it absent or stores the value of a row plus a number. */
#ifndef LOOM_CORE_OPERATIONS_H
#define LOOM_CORE_OPERATIONS_H

#include "core/portable.h"
#include "loom/loom.h"

enum {
    LOOM__OPERATIONS = LOOM_APPLY_ADD + 1, /* that a row may ask for */
    LOOM__KINDS = LOOM__OPERATIONS + 1,    /* of rows: one for each operation; the last has rows that ask for none */
    LOOM__KIND_BLOCK = 1024,               /* rows that are counted together */
    LOOM__KIND_COLUMNS = 2,                /* most that are moved at once */
    LOOM__APPLIED_STATUSES = 16            /* statuses of rows are below it */
};

/* In place of an operation, as a net effect: the key stays as it is. */
#define LOOM__NOTHING ((uint8_t)LOOM__OPERATIONS)

/* ---- Rows by kind ---- */

/* How the rows of a batch are brought into the order of their kinds. Rows of kind k go to the places firsts[k],
 * firsts[k] + 1 and so on, in the order of the batch. */
typedef struct loom__kind_order {
    const uint8_t *operations; /* [n] */
    uint64_t n;
    /* [loom__kind_places(n)] At k * blocks + b: how many rows of kinds below k there are, and of kind k in the blocks
     * before block b. */
    uint32_t *places;
    uint64_t firsts[LOOM__KINDS];
} loom__kind_order;

/* An array that is brought into this order, or back. */
typedef struct loom__kind_column {
    void *to;
    const void *from;
    uint32_t width; /* bytes of an element */
    uint32_t kinds; /* bit k: elements of rows of kind k are moved */
} loom__kind_column;

LOOM_BOTH uint64_t loom__kind_blocks(uint64_t n)
{
    return (n + LOOM__KIND_BLOCK - 1) / LOOM__KIND_BLOCK;
}

LOOM_BOTH uint64_t loom__kind_places(uint64_t n)
{
    return LOOM__KINDS * loom__kind_blocks(n);
}

LOOM_BOTH uint32_t loom__kind_of(uint32_t operation)
{
    return operation < LOOM__OPERATIONS ? operation : (uint32_t)LOOM__OPERATIONS;
}

/* Where the first row of this kind goes among the rows of a block. */
LOOM_BOTH uint64_t loom__kind_home(const loom__kind_order *order, uint32_t kind, uint64_t block)
{
    const uint32_t *of_kind = order->places + kind * loom__kind_blocks(order->n);
    return order->firsts[kind] + (of_kind[block] - of_kind[0]);
}

/* ---- Effects ---- */

/* In place of a row: the value that the table held before the batch. And in effects: whatever value the key has. */
#define LOOM__TABLES_VALUE (UINT32_MAX - 1)
#define LOOM__ANY_VALUE    UINT32_MAX

/* What a key holds, or what an effect makes of it. */
typedef struct loom__holding {
    uint64_t more; /* is added to the value; numbers only */
    uint32_t row;  /* whose value it is */
    uint32_t there;
} loom__holding;

typedef struct loom__effect {
    loom__holding if_there, if_absent;
} loom__effect;

LOOM_BOTH loom__holding loom__holding_of(uint32_t there, uint32_t row, uint64_t more)
{
    loom__holding holding;
    holding.more = more;
    holding.row = row;
    holding.there = there;
    return holding;
}

/* Row `row` does this. `number`: what it adds. An insertion into a multimap adds a value to the list of its key; a
 * lookup then finds the newest one. */
LOOM_BOTH loom__effect loom__effect_of(uint32_t operation, uint32_t row, uint64_t number, int multimap)
{
    const int stores =
        operation == LOOM_APPLY_INSERT || operation == LOOM_APPLY_OVERWRITE || operation == LOOM_APPLY_ADD;
    const int replaces = operation == LOOM_APPLY_OVERWRITE || operation == LOOM_APPLY_UPDATE ||
                         (operation == LOOM_APPLY_INSERT && multimap);
    loom__effect effect;
    effect.if_there = loom__holding_of(operation != LOOM_APPLY_ERASE, replaces ? row : LOOM__ANY_VALUE,
                                       operation == LOOM_APPLY_ADD ? number : 0);
    effect.if_absent = loom__holding_of((uint32_t)stores, stores ? row : LOOM__ANY_VALUE, 0);
    return effect;
}

/* The effect of nothing: the key keeps what it holds. */
LOOM_BOTH loom__effect loom__no_effect(void)
{
    loom__effect effect;
    effect.if_there = loom__holding_of(1, LOOM__ANY_VALUE, 0);
    effect.if_absent = loom__holding_of(0, LOOM__ANY_VALUE, 0);
    return effect;
}

/* What a key holds that held `before`. */
LOOM_BOTH loom__holding loom__effect_on(const loom__effect *effect, loom__holding before)
{
    loom__holding after = before.there ? effect->if_there : effect->if_absent;
    if (before.there && after.there && after.row == LOOM__ANY_VALUE) {
        after.row = before.row;
        after.more += before.more;
    }
    return after;
}

/* The effect that always ends with this: for the first row of a key, of which is known what the key held before. A scan
 * over the rows of many keys then needs no other mark where a key begins. */
LOOM_BOTH loom__effect loom__effect_to(loom__holding held)
{
    loom__effect effect;
    effect.if_there = effect.if_absent = held;
    return effect;
}

/* `first`, and then `second`. */
LOOM_BOTH loom__effect loom__join_effects(const loom__effect *first, const loom__effect *second)
{
    loom__effect both;
    both.if_there = loom__effect_on(second, first->if_there);
    both.if_absent = loom__effect_on(second, first->if_absent);
    return both;
}

/* The status of a row whose key holds `before`. */
LOOM_BOTH uint8_t loom__operation_status(uint32_t operation, int there, int multimap)
{
    switch (operation) {
    case LOOM_APPLY_INSERT:
    case LOOM_APPLY_OVERWRITE:
    case LOOM_APPLY_ADD:
        return (uint8_t)(there && !multimap ? LOOM_EXISTS : LOOM_OK);
    default:
        return (uint8_t)(there ? LOOM_OK : LOOM_NOT_FOUND);
    }
}

/* A row whose key found no room in the table: it is as if the key had never been stored. */
LOOM_BOTH uint8_t loom__refused_status(uint32_t operation)
{
    const uint8_t status = loom__operation_status(operation, 0, 0);
    return status == LOOM_OK ? (uint8_t)LOOM_FULL : status;
}

/* ---- Sequences ---- */

/* The rows of a batch, brought together by key; and what their operations answer and leave to do. All arrays but
 * `status` and `found` are table or temporary memory, `status` and `found` lie where the machine reaches them. */
typedef struct loom__sequences {
    const uint8_t *operations; /* [n] */
    const void *values;        /* [n] of value_bytes; NULL: a set, or nobody stores any */
    uint32_t value_bytes;
    uint32_t multimap;
    uint64_t n;
    const uint32_t *rows;    /* [n] row numbers: those of a key lie together, in the order of the batch */
    const uint32_t *groups;  /* [n] the number of the key, ascending from 0 */
    uint64_t keys;           /* distinct ones */
    const uint8_t *held;     /* [keys] OK: the table has the key; otherwise NOT_FOUND */
    const void *held_values; /* [keys] */
    /* NULL: the batch runs for the first time. Then net, net_values and stays are written. Otherwise it is answered
     * once more, and they are not, since the table has taken what it could. Multimaps: [n] FULL for rows whose values
     * found no room. Otherwise: [keys] FULL for keys that found none. */
    const uint8_t *refused;
    uint8_t *status;  /* [n] */
    void *found;      /* [n] values that lookups find; NULL: nobody asks */
    uint8_t *net;     /* [keys] LOOM_APPLY_OVERWRITE, LOOM_APPLY_ERASE or LOOM__NOTHING */
    void *net_values; /* [keys] those of OVERWRITE */
    /* Multimaps: `net` has erasures alone. [n] LOOM_APPLY_INSERT for the rows whose values stay, LOOM__NOTHING for all
     * others. */
    uint8_t *stays;
    uint32_t *erased;      /* multimaps: [keys] for the machine: 1 + the place of the last erasure; 0: there is none */
    loom__effect *effects; /* [n] for machines that do not work in host memory */
} loom__sequences;

/* The net effect of a whole sequence on a key. A row of `values` may be what the table holds anyway; nobody looks. */
LOOM_BOTH uint8_t loom__net_operation(int was_there, loom__holding after)
{
    if (!after.there)
        return was_there ? (uint8_t)LOOM_APPLY_ERASE : LOOM__NOTHING;
    return was_there && after.row == LOOM__TABLES_VALUE && after.more == 0 ? LOOM__NOTHING
                                                                           : (uint8_t)LOOM_APPLY_OVERWRITE;
}

LOOM_BOTH uint64_t loom__number_at(const void *numbers, uint32_t bytes, uint64_t i)
{
    return bytes == 4 ? ((const uint32_t *)numbers)[i] : ((const uint64_t *)numbers)[i];
}

LOOM_BOTH void loom__copy_value(unsigned char *to, const unsigned char *from, uint32_t bytes)
{
    uint32_t i = 0;
    if ((((uintptr_t)to | (uintptr_t)from) & 3) == 0)
        for (; i + 4 <= bytes; i += 4)
            *(uint32_t *)(to + i) = *(const uint32_t *)(from + i);
    for (; i < bytes; i++)
        to[i] = from[i];
}

/* Writes the value that a key of group `group` holds. */
LOOM_BOTH void loom__write_holding(const loom__sequences *all, loom__holding held, uint64_t group, void *values,
                                   uint64_t at)
{
    const uint32_t bytes = all->value_bytes;
    const void *from = held.row == LOOM__TABLES_VALUE ? all->held_values : all->values;
    const uint64_t row = held.row == LOOM__TABLES_VALUE ? group : held.row;
    if (bytes == 4)
        ((uint32_t *)values)[at] = (uint32_t)(loom__number_at(from, 4, row) + held.more);
    else if (bytes == 8)
        ((uint64_t *)values)[at] = loom__number_at(from, 8, row) + held.more;
    else
        loom__copy_value((unsigned char *)values + at * bytes, (const unsigned char *)from + row * bytes, bytes);
}

/* The effect of the row at place i of the sorted rows. */
LOOM_BOTH loom__effect loom__effect_at(const loom__sequences *all, uint64_t i)
{
    const uint32_t row = all->rows[i], operation = all->operations[row];
    if (all->refused != NULL && all->multimap && all->refused[row] == LOOM_FULL)
        return loom__no_effect();
    return loom__effect_of(operation, row,
                           operation == LOOM_APPLY_ADD ? loom__number_at(all->values, all->value_bytes, row) : 0,
                           (int)all->multimap);
}

/* What the key of this group held before the batch. */
LOOM_BOTH loom__holding loom__held_before(const loom__sequences *all, uint64_t group)
{
    return loom__holding_of(all->held[group] == LOOM_OK, LOOM__TABLES_VALUE, 0);
}

/* Answers the row at place i, whose key holds `before`. */
LOOM_BOTH uint8_t loom__answer_row(const loom__sequences *all, uint64_t i, loom__holding before)
{
    const uint32_t row = all->rows[i], operation = all->operations[row], group = all->groups[i];
    const int key_refused = all->refused != NULL && !all->multimap && all->refused[group] == LOOM_FULL;
    const int row_refused = all->refused != NULL && all->multimap && all->refused[row] == LOOM_FULL;
    const uint8_t status = key_refused   ? loom__refused_status(operation)
                           : row_refused ? (uint8_t)LOOM_FULL
                                         : loom__operation_status(operation, (int)before.there, (int)all->multimap);
    all->status[row] = status;
    if (operation == LOOM_APPLY_FIND && all->found != NULL) {
        if (status == LOOM_OK)
            loom__write_holding(all, before, group, all->found, row);
        else
            for (uint32_t b = 0; b < all->value_bytes; b++)
                ((unsigned char *)all->found)[(uint64_t)row * all->value_bytes + b] = 0;
    }
    return status;
}

/* After the last row of a group: what is left to do. `erased` has all places of this group. */
LOOM_BOTH void loom__settle_key(const loom__sequences *all, uint64_t group, loom__holding after)
{
    const int was_there = all->held[group] == LOOM_OK;
    if (all->refused != NULL) /* it was done before */
        return;
    if (all->multimap) {
        all->net[group] = was_there && all->erased[group] > 0 ? (uint8_t)LOOM_APPLY_ERASE : LOOM__NOTHING;
        return;
    }
    all->net[group] = loom__net_operation(was_there, after);
    if (all->net[group] == LOOM_APPLY_OVERWRITE && all->value_bytes > 0)
        loom__write_holding(all, after, group, all->net_values, group);
}

/* Multimaps: whether the value of the row at place i stays. `erased` has all places of its group. */
LOOM_BOTH void loom__settle_row(const loom__sequences *all, uint64_t i)
{
    const uint32_t row = all->rows[i];
    if (all->refused != NULL)
        return;
    const int stays = all->operations[row] == LOOM_APPLY_INSERT && i >= all->erased[all->groups[i]];
    all->stays[row] = stays ? (uint8_t)LOOM_APPLY_INSERT : LOOM__NOTHING;
}

#endif
