/* Selects, takes and puts back rows of arrays. Threads share the rows in pieces. */
#include "machines/cpu/core/cpu_rows.h"

#include "core/portable.h"

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
    uint64_t counts[PIECES_AT_ONCE]; /* selected rows of each piece; then where the piece's rows go */
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

enum { PIECE_BYTES = 1 << 21 /* bytes of a piece with wide rows; at most PIECE rows */ };

typedef struct movement {
    unsigned char *to;
    const unsigned char *from;
    uint32_t width;
    uint64_t per_piece;
    const void *rows; /* numbers of number_bytes */
    uint32_t number_bytes;
    uint64_t count;
} movement;

/* Rows have any alignment. With a literal width a move becomes one load and one store. */
LOOM_LANE void move_some(const movement *all, uint64_t piece, uint32_t width, uint32_t number_bytes, int put)
{
    const uint64_t begin = piece * all->per_piece, left = all->count - begin;
    const uint64_t end = left < all->per_piece ? all->count : begin + all->per_piece;
    for (uint64_t i = begin; i < end; i++) {
        const uint64_t row = number_bytes == 4 ? ((const uint32_t *)all->rows)[i] : ((const uint64_t *)all->rows)[i];
        memcpy(all->to + (put ? row : i) * width, all->from + (put ? i : row) * width, width);
    }
}

LOOM_LANE void move_numbered(const movement *all, uint64_t piece, uint32_t number_bytes, int put)
{
    if (all->width == 1)
        move_some(all, piece, 1, number_bytes, put);
    else if (all->width == 4)
        move_some(all, piece, 4, number_bytes, put);
    else if (all->width == 8)
        move_some(all, piece, 8, number_bytes, put);
    else
        move_some(all, piece, all->width, number_bytes, put);
}

LOOM_LANE void move_piece(const movement *all, uint64_t piece, int put)
{
    if (all->number_bytes == 4)
        move_numbered(all, piece, 4, put);
    else
        move_numbered(all, piece, 8, put);
}

static void take_piece(void *argument, uint64_t piece)
{
    move_piece(argument, piece, 0);
}

static void put_piece(void *argument, uint64_t piece)
{
    move_piece(argument, piece, 1);
}

static loom_status move_rows(loom__machine *machine, movement all, void (*task)(void *argument, uint64_t piece))
{
    const uint64_t fits = PIECE_BYTES / (all.width > 0 ? all.width : 1);
    all.per_piece = fits < 1 ? 1 : fits < PIECE ? fits : PIECE;
    machine->ops->host_parallel(machine, (all.count + all.per_piece - 1) / all.per_piece, task, &all);
    return LOOM_OK;
}

loom_status loom__cpu_take_rows(loom__machine *machine, void *to, const void *from, uint32_t width, const void *rows,
                                uint32_t number_bytes, uint64_t count, loom_stream stream)
{
    (void)stream;
    return move_rows(machine, (movement){to, from, width, 0, rows, number_bytes, count}, take_piece);
}

loom_status loom__cpu_put_rows(loom__machine *machine, void *to, const void *from, uint32_t width, const void *rows,
                               uint32_t number_bytes, uint64_t count, loom_stream stream)
{
    (void)stream;
    return move_rows(machine, (movement){to, from, width, 0, rows, number_bytes, count}, put_piece);
}
