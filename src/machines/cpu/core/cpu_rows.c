/* Rows of arrays selected, taken out and put back, by all threads, a piece each. */
#include "machines/cpu/core/cpu_rows.h"

#include <string.h>

enum { PIECE = 1 << 18, PIECES_AT_ONCE = 256 };

/* ---- select ---- */

typedef struct selection {
    const uint8_t *status;
    uint8_t wanted;
    uint64_t n;
    uint64_t first; /* row of piece 0 */
    uint64_t *rows;
    uint64_t room;
    uint64_t counts[PIECES_AT_ONCE]; /* of each piece; then where its rows go */
} selection;

static uint64_t end_of(uint64_t begin, uint64_t n)
{
    return n - begin < PIECE ? n : begin + PIECE;
}

static void count_piece(void *argument, uint64_t piece)
{
    selection *all = argument;
    uint64_t begin = all->first + piece * PIECE, end = end_of(begin, all->n), count = 0;
    for (uint64_t i = begin; i < end; i++)
        count += all->status[i] == all->wanted;
    all->counts[piece] = count;
}

static void write_piece(void *argument, uint64_t piece)
{
    selection *all = argument;
    uint64_t begin = all->first + piece * PIECE, end = end_of(begin, all->n), at = all->counts[piece];
    for (uint64_t i = begin; i < end && at < all->room; i++)
        if (all->status[i] == all->wanted)
            all->rows[at++] = i;
}

loom_status loom__cpu_select_rows(loom__machine *machine, const uint8_t *status, uint8_t wanted, uint64_t n,
                                  uint64_t *rows, uint64_t room, uint64_t *count, loom_stream stream)
{
    selection all = {.status = status, .wanted = wanted, .n = n, .rows = rows, .room = room};
    (void)stream;
    *count = 0;
    for (; all.first < n; all.first += (uint64_t)PIECES_AT_ONCE * PIECE) {
        uint64_t pieces = (n - all.first - 1) / PIECE + 1;
        pieces = pieces < PIECES_AT_ONCE ? pieces : PIECES_AT_ONCE;
        machine->ops->host_parallel(machine, pieces, count_piece, &all);
        for (uint64_t i = 0; i < pieces; i++) {
            uint64_t before = *count;
            *count += all.counts[i];
            all.counts[i] = before;
        }
        machine->ops->host_parallel(machine, pieces, write_piece, &all);
    }
    return LOOM_OK;
}

/* ---- take and put ---- */

typedef struct movement {
    unsigned char *to;
    const unsigned char *from;
    uint32_t width;
    const uint64_t *rows;
    uint64_t count;
} movement;

static void take_piece(void *argument, uint64_t piece)
{
    const movement *all = argument;
    for (uint64_t i = piece * PIECE, end = end_of(i, all->count); i < end; i++)
        memcpy(all->to + i * all->width, all->from + all->rows[i] * all->width, all->width);
}

static void put_piece(void *argument, uint64_t piece)
{
    const movement *all = argument;
    for (uint64_t i = piece * PIECE, end = end_of(i, all->count); i < end; i++)
        memcpy(all->to + all->rows[i] * all->width, all->from + i * all->width, all->width);
}

loom_status loom__cpu_take_rows(loom__machine *machine, void *to, const void *from, uint32_t width,
                                const uint64_t *rows, uint64_t count, loom_stream stream)
{
    movement all = {to, from, width, rows, count};
    (void)stream;
    machine->ops->host_parallel(machine, (count + PIECE - 1) / PIECE, take_piece, &all);
    return LOOM_OK;
}

loom_status loom__cpu_put_rows(loom__machine *machine, void *to, const void *from, uint32_t width, const uint64_t *rows,
                               uint64_t count, loom_stream stream)
{
    movement all = {to, from, width, rows, count};
    (void)stream;
    machine->ops->host_parallel(machine, (count + PIECE - 1) / PIECE, put_piece, &all);
    return LOOM_OK;
}
