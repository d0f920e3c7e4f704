/* Bulk calls, in the terms that the API, the engines and the machines share. Before a batch reaches a machine, the API
 * has checked its arguments and holds the handle's lock. */
#ifndef LOOM_CORE_BATCH_H
#define LOOM_CORE_BATCH_H

#include "core/combine.h"
#include "core/strings.h"
#include "loom/loom.h"
#include "loom/measure.h"

typedef enum loom__write {
    LOOM__WRITE_KEEP,
    LOOM__WRITE_OVERWRITE,
    LOOM__WRITE_FETCH,   /* find_or_insert */
    LOOM__WRITE_COMBINE, /* accumulate */
    LOOM__WRITE_UPDATE,
    LOOM__WRITE_ERASE,
    LOOM__WRITE_RESERVE /* in a multimap's directory: counts one more value for each key (core/list_handle.h) */
} loom__write;

/* Rows of a batch for whose strings the heap had no room. */
typedef struct loom__no_bytes {
    uint64_t rows;
    uint64_t bytes; /* that these rows need, if their keys are all different */
    uint64_t most;  /* that one of them needs */
} loom__no_bytes;

/* One bulk call. The machine writes the outcome to *result in stream order; `result` is never NULL here. */
typedef struct loom__batch {
    const void *keys;   /* [n]; strings: [n] loom__string (core/strings.h), likewise for values */
    const void *values; /* [n] insert, build, find_or_insert, update; accumulate: loom__number_bytes() bytes each */
    void *found_values; /* [n] find, find_or_insert; NULL for contains, may be NULL otherwise */
    uint8_t *found;     /* [n] contains; may be NULL */
    uint8_t *added;     /* [n] insertions into filters: whether the key was new; may be NULL */
    uint8_t *status;    /* [n] may be NULL */
    uint64_t n;
    uint64_t absent;         /* find: the value of absent keys, in the lower bytes */
    uint32_t flags;          /* loom_insert_flags as given; LOOM_OVERWRITE also sets `write` */
    loom__write write;       /* what a writing call does */
    loom__combine_rule rule; /* accumulate */
    loom__widening widening; /* accumulate */
    void *workspace;         /* builds and inserts: the caller's memory; replaces temporary memory if large enough */
    uint64_t workspace_bytes;
    uint32_t captured;     /* the stream is being captured into a graph: build, insert, find, contains */
    uint32_t by_partition; /* insert: going by partition is faster; the call has the table alone */
    uint32_t replace;      /* build: discards the former contents */
    uint32_t read_beside;  /* lookups may overlap the call */
    uint32_t fresh;        /* insert: the table surely has no keys, and the call has it alone; a build does the same */
    uint32_t uncounted;    /* nobody reads the counts of the result */
    /* Multimaps, insertions: on the host. If the heap has no room for all pairs of the batch, the call changes nothing
     * and sets *values_needed, otherwise 0, to the values for which a packed heap must have room. NULL: pairs for which
     * there is no room are refused. */
    uint64_t *values_needed;
    uint64_t *keys_refused; /* multimaps, insertions: on the host; rows for whose keys the directory has no room */
    /* Tables with strings. */
    uint64_t string_bytes;    /* insertions and updates: most bytes that the batch may take from the heap */
    loom__no_bytes *no_bytes; /* on the host; NULL: nobody asks. Rows that were refused for lack of them */
    loom_route *route;        /* on the host; NULL: nobody asks. Insertions that do not go directly set it */
    /* Tables with rows in host memory. */
    loom_row_route row_route;    /* NONE: the machine chooses */
    uint32_t alone;              /* the call has the table alone, and no view is lent: it may stream what it writes */
    loom_explanation *explained; /* on the host; NULL: nobody asks */
    loom_result *result;
    loom_stream stream;
} loom__batch;

/* For insertions: tells the caller that the batch goes this way. */
static inline void loom__batch_goes(const loom__batch *call, loom_route route)
{
    if (call->route != NULL)
        *call->route = route;
}

/* A call that asks for lists of values: counts alone, or offsets and values. */
typedef struct loom__list_query {
    const void *keys; /* [n] */
    uint64_t n;
    uint64_t limit;    /* most values per key */
    uint64_t *offsets; /* [n + 1] where lists begin; NULL: counts are asked for */
    uint64_t *counts;  /* [n] in place of offsets */
    uint8_t *status;   /* [n] with counts; may be NULL */
    void *values;      /* [room] with offsets; NULL: offsets alone */
    uint64_t room;
    uint64_t *needed;    /* on the host, or NULL: values in all */
    loom_result *result; /* status TOO_SMALL: there is an array of values, with too little room */
    loom_stream stream;
} loom__list_query;

/* Where a cursor stands. It has returned all pairs in lower buckets, all pairs in lower slots of this bucket, and in
 * multimaps so many values of this slot's list. */
typedef struct loom__position {
    uint64_t bucket; /* counted over all partitions */
    uint32_t slot;
    uint64_t value;
} loom__position;

/* What a scan of a whole table finds. */
typedef struct loom__survey {
    uint64_t size;
    uint64_t fullest_partition;
    uint64_t displaced;
    uint64_t longest_chain;
    uint64_t hit_accesses; /* summed over all keys */
    double miss_accesses;  /* expected for one random absent key */
    uint64_t stashed;      /* perfect tables: keys in stash buckets */
    uint64_t first_bad;    /* the lowest bucket that violates an invariant; UINT64_MAX: none */
    uint64_t pairs;        /* other tables than multimaps: as many as keys */
    /* Multimaps: values of lists in the heap; where the last list ends; values from the start of the heap to its free
     * part; most values of a key. */
    uint64_t in_heap, heap_end, heap_used, longest_list;
    /* Tables with strings: bytes of all strings. The three numbers about the heap are in bytes then. */
    uint64_t string_bytes;
    /* Multimaps: there was no memory to look for lists that overlap. */
    uint64_t overlaps_unknown;
} loom__survey;

/* What a scan of a whole filter finds. */
typedef struct loom__filter_survey {
    uint64_t bits_set;
    double false_positive_rate;
} loom__filter_survey;

#endif
