/* Multimaps on the cpu machine: the open engine, whose lists lie in one piece, and the chain engine. A list in one
 * piece is a chain of one bucket, so both share all calls. They differ in what becomes of a list that outgrows its
 * room.
 *
 *   cpu_multi.c         lookups, whole tables
 *   cpu_multi_parts.c   how calls that change lists are dealt to threads
 *   cpu_multi_insert.c  insert, build
 *   cpu_multi_erase.c   erase, erase_pairs
 *   cpu_multi_erase_if.c
 *
 * The directory is searched by the open engine's loops (cpu_open_simd.h) or those of the rows engine
 * (cpu_rows_simd.h), a chunk of keys at a time, so that the handles are in the L1 cache when the lists are read. Values
 * of 4 and 8 bytes have loops of their own, where their width is a literal. */
#ifndef LOOM_CPU_MULTI_H
#define LOOM_CPU_MULTI_H

#include "core/kernels.h"
#include "engines/multi/multi_layout.h"
#include "machines/cpu/core/cpu_bulk.h"
#include "machines/cpu/open/cpu_open.h"
#include "machines/cpu/rows/cpu_rows_engine.h"

#include <string.h>

enum { MULTI_CHUNK = 256 /* keys looked up at once */, MULTI_MOST_THREADS = 64 /* that insert parts at a time */ };

extern const loom__map_kernels loom__cpu_multi_kernels;

/* ---- The directory ---- */

/* Its calls and its loops: those of the open engine or, if keys lie in rows, of the rows engine. Both take
 * multi_directory(view). */
static inline const loom__map_kernels *loom__cpu_directory_kernels(const loom__multi_view *view)
{
    return multi_has_rows(view) ? &loom__cpu_rows_kernels : &loom__cpu_open_kernels;
}

static inline const loom__cpu_map_simd *loom__cpu_directory_simd(const loom__machine *machine,
                                                                 const loom__multi_view *view)
{
    const loom__cpu_machine_state *cpu = (const loom__cpu_machine_state *)machine;
    return multi_has_rows(view) ? cpu->rows_simd : cpu->open_simd;
}

/* ---- Parts of a batch (cpu_multi_parts.c) ---- */

/* A call that changes lists. The batch is split by partition, and one thread at a time owns a partition of the
 * directory. So equal keys come in the order of the batch, and no step needs an atomic operation on the directory.
 * Small batches are one part, for the calling thread. */
typedef struct loom__cpu_lists {
    loom__cpu_machine_state *cpu;
    const loom__cpu_map_simd *simd; /* for the directory */
    const loom__multi_view *view;
    const loom__batch *batch;
    uint32_t key_bytes;
    int splits;
    loom__cpu_bulk bulk; /* if it splits */
    /* Insertions: what reservations tell, for all records, or for one part at a time in each of several rooms. */
    loom__cpu_reserved *reserved;
    int reserved_is_lent; /* in the batch's workspace */
    uint64_t room_records, rooms;
    uint64_t rooms_taken; /* a bit for each */
    /* What changes, modulo 2^64. All threads add to it. */
    uint64_t keys, pairs, in_heap;
    loom__cpu_counts counts;
    uint64_t needed;        /* values that the changed lists take in a packed heap */
    uint64_t short_of_room; /* lists that found no room */
    uint64_t keys_refused;  /* pairs for whose keys the directory has no room */
} loom__cpu_lists;

typedef enum loom__cpu_reserves {
    MULTI_RESERVES_NOT,
    MULTI_RESERVES,
    MULTI_REMEMBERS /* until the call ends: reservations may be taken back */
} loom__cpu_reserves;

/* Splits the batch if that pays, and allocates what reservations tell. After OUT_OF_MEMORY the work is one part,
 * without reservations, and there is nothing to end. */
loom_status loom__cpu_lists_begin(loom__machine *machine, const void *any_view, const loom__batch *batch,
                                  loom__cpu_reserves reserves, loom__cpu_lists *work);
void loom__cpu_lists_end(loom__cpu_lists *work);

/* Adds what changed to the totals, and writes the result. */
void loom__cpu_lists_count(const loom__cpu_lists *work);

void loom__cpu_lists_run(loom__cpu_lists *work, loom__task task); /* task(work, part) for each part */
loom__cpu_records loom__cpu_lists_part(const loom__cpu_lists *work, uint64_t part);

/* Where the reservations of a part are. If they are not remembered, another part has their memory after `leave`. */
loom__cpu_reserved *loom__cpu_lists_enter(loom__cpu_lists *work, uint64_t part);
void loom__cpu_lists_leave(loom__cpu_lists *work, const loom__cpu_reserved *reserved);

void loom__cpu_lists_add(uint64_t *total, uint64_t own);

/* Writes the status of a record. */
static inline void loom__cpu_lists_tell(const loom__cpu_lists *work, const loom__cpu_records *records, uint64_t row,
                                        loom_status status)
{
    if (work->batch->status != NULL)
        work->batch->status[records->index != NULL ? records->index[row] : row] = (uint8_t)status;
}

/* Where the value of a record is. */
static inline const unsigned char *loom__cpu_lists_value_at(const loom__cpu_records *records, uint64_t row)
{
    return records->values + row * records->value_stride;
}

/* The value of a record as a number, in the lower bytes; 0 if values are no numbers. */
static inline uint64_t loom__cpu_lists_value(const loom__cpu_lists *work, const loom__cpu_records *records,
                                             uint64_t row)
{
    uint64_t value = 0;
    if (multi_has_numbers(work->view))
        memcpy(&value, loom__cpu_lists_value_at(records, row), work->view->value_bytes);
    return value;
}

/* Takes `values` values of the heap for lists of one kind; if there are fewer, at least `least` of them. `link` more
 * come in front of them. Many threads may do so at once. Returns where they begin, or MULTI_NO_PLACE. */
#define MULTI_NO_PLACE UINT64_MAX
uint64_t loom__cpu_multi_take(const loom__multi_view *view, loom__list_kind kind, uint64_t link, uint64_t least,
                              uint64_t *values);

/* ---- Calls ---- */

loom_status loom__cpu_multi_insert(loom__machine *machine, const void *any_view, const loom__batch *batch);
uint64_t loom__cpu_multi_bulk_bytes(loom__machine *machine, const void *any_view, uint64_t n, uint32_t flags,
                                    int with_status);
loom_status loom__cpu_multi_erase(loom__machine *machine, const void *any_view, const loom__batch *batch);
loom_status loom__cpu_multi_erase_pairs(loom__machine *machine, const void *any_view, const loom__batch *batch);
loom_status loom__cpu_multi_erase_if(loom__machine *machine, const void *any_view, const loom__value_range *range,
                                     loom_result *result, loom_stream stream);

#endif
