/* Which calls on one table may overlap. The handle (api/handle.c) applies these rules, and so does a machine whose
 * calls return early. */
#ifndef LOOM_CORE_ACCESS_H
#define LOOM_CORE_ACCESS_H

/* What a call does to a table. */
typedef enum loom__access {
    LOOM__ACCESS_READ,   /* reads a table that nothing changes */
    LOOM__ACCESS_FIND,   /* looks keys up; may overlap writers in tables with concurrent_reads */
    LOOM__ACCESS_INSERT, /* also find_or_insert */
    LOOM__ACCESS_ACCUMULATE,
    LOOM__ACCESS_UPDATE,
    LOOM__ACCESS_ERASE,
    LOOM__ACCESS_ALONE /* overlaps with nothing */
} loom__access;

/* Whether two calls on one table may run at the same time. Calls of one kind may, unless they need the table alone. A
 * lookup may also overlap a reader and, with concurrent_reads, one kind of writer. */
static inline int loom__may_overlap(loom__access one, loom__access other, int concurrent_reads)
{
    if (one == LOOM__ACCESS_ALONE || other == LOOM__ACCESS_ALONE)
        return 0;
    if (one == other)
        return 1;
    const loom__access beside = one == LOOM__ACCESS_FIND ? other : one;
    return (one == LOOM__ACCESS_FIND || other == LOOM__ACCESS_FIND) &&
           (beside == LOOM__ACCESS_READ || concurrent_reads);
}

#endif
