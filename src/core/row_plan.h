/* How a batch reaches rows in host memory: an estimate for each way, and the cheapest one. Arithmetic only, so tests
 * need no GPU.
 *
 * Four ways (loom_row_route):
 *   direct     the device reads and writes each row where it lies, in the order of the batch. Rows that lie far apart
 *              cost translations of addresses: some 60 M rows a second over 32 GiB
 *   ordered    the batch is sorted first, so that neighbours in time are neighbours in memory. Then hundreds of
 *              millions of rows a second pass, as long as rows of the batch lie less than a few KiB apart
 *   gathered   lookups alone: the host's threads copy the rows into a buffer, in the order of the batch
 *   streamed   all rows of the table pass over the link once in each direction that is needed. Pays if the batch
 *              reaches a large share of them
 *
 * One H200, PCIe 5, 16 cores, table of 32 GiB, rows of 16 bytes, 2026-11-19: direct reads 58 to 70 M/s; ordered 302 M/s
 * with 6.9 KiB and 763 M/s with 0.7 KiB between rows; writes as fast as reads; gathered 1,075 M/s; copies 55 GB/s, in
 * both directions at once 51 GB/s each. */
#ifndef LOOM_CORE_ROW_PLAN_H
#define LOOM_CORE_ROW_PLAN_H

#include "loom/measure.h"

/* Measured on the machine; per second. */
typedef struct loom__row_rates {
    double random;   /* rows that the device reads at random places */
    double ordered;  /* rows that it reads in ascending order, close together */
    double gathered; /* rows that the host's threads copy into a buffer */
    double copied;   /* bytes between host and device, in one direction */
} loom__row_rates;

/* Those of the machine above; for tables that are too small to measure with. */
#define LOOM__USUAL_ROW_RATES     \
    {                             \
        60e6, 750e6, 1000e6, 55e9 \
    }

typedef struct loom__row_work {
    uint64_t rows;        /* that the batch reaches */
    uint64_t row_bytes;   /* of one row */
    uint64_t table_bytes; /* of all rows of the table */
    int reads;            /* the batch needs what the rows hold */
    int writes;           /* it changes rows */
    int gathers;          /* it is a lookup whose rows may be gathered */
    int streams;          /* it may go by partition */
} loom__row_work;

enum {
    LOOM__ROW_ROUTES = LOOM_ROW_ROUTE_STREAMED + 1,
    LOOM__LEAST_PLANNED = 1 << 15 /* keys: smaller batches go directly */
};

/* Whether a batch may be streamed. A batch that changes rows must then have the table alone: while a window is on the
 * device, nobody else may change its rows at home. */
static inline int loom__row_may_stream(loom_row_route asked, uint64_t n)
{
    return asked == LOOM_ROW_ROUTE_STREAMED || (asked == LOOM_ROW_ROUTE_NONE && n >= LOOM__LEAST_PLANNED);
}

static inline double loom__row_most(double a, double b)
{
    return a > b ? a : b;
}

/* Seconds of each route; 0: it is not possible. */
static inline void loom__row_estimate(const loom__row_rates *rates, const loom__row_work *work,
                                      double seconds[LOOM__ROW_ROUTES])
{
    const double begin = 150e-6;         /* sorts, waits for counts; a few launches more than a direct call */
    const double sorted = 0.25e-9;       /* to sort one row's number, and to move its key and answers */
    const double each_kibibyte = 0.3e-9; /* of an ordered access, for each KiB to the next row */
    const double rows = (double)work->rows, accesses = rows * (work->reads && work->writes ? 2 : 1);
    const double apart = rows > 0 ? (double)work->table_bytes / rows / 1024 : 0;
    const double in_order = 1 / rates->ordered + each_kibibyte * apart, at_random = 1 / rates->random;
    const double both = work->reads && work->writes ? 1.1 : 1; /* the directions hardly slow each other down */
    for (int i = 0; i < LOOM__ROW_ROUTES; i++)
        seconds[i] = 0;
    seconds[LOOM_ROW_ROUTE_DIRECT] = 10e-6 + accesses * at_random;
    seconds[LOOM_ROW_ROUTE_ORDERED] = begin + rows * sorted + accesses * (in_order < at_random ? in_order : at_random);
    if (work->gathers)
        seconds[LOOM_ROW_ROUTE_GATHERED] =
            2 * begin + loom__row_most(rows / rates->gathered, rows * (double)(work->row_bytes + 8) / rates->copied);
    if (work->streams)
        seconds[LOOM_ROW_ROUTE_STREAMED] = 2 * begin + rows * sorted + both * (double)work->table_bytes / rates->copied;
}

/* ---- bounded staging ---- */

/* How a call shares out its temporary memory if that has a bound (loom_map_set_row_staging): a quarter holds the rows of
 * windows, and a quarter the keys, values and answers that pass through kernels at once. Both hold LOOM__ROW_SETS sets
 * of buffers, of which one is filled, one is worked on and one is emptied. Half is for lists of keys and for their sort.
 * A batch with too many keys for the lists goes in parts. */
enum {
    LOOM__ROW_SETS = 3,
    LOOM__LEAST_STEP_ROWS = 1 << 10,  /* that pass through a kernel at once */
    LOOM__LEAST_STEP_BYTES = 1 << 20, /* fewer rows are enough if they have so many bytes */
    LOOM__LEAST_LISTED = 1 << 12,     /* keys in lists at once */
    /* Bytes of lists for each key. A lookup: 24 for the keys whose tags were found, 2 for their granules, and 24 to sort
     * them if all lie in one granule. */
    LOOM__LISTED_BYTES = 52,
    /* Beside the lists: counts of granules, the ends of arrays, and twice the scratch memory of the sort, which takes
     * some 10 KB on compute capability 9.0, and on lower ones an estimated 1 to 2 MB. */
    LOOM__LISTS_BYTES = 4 << 20
};

/* Most bytes of a key, its value, the value that is found for it, and its answers. */
static inline uint64_t loom__row_item_bytes(uint32_t key_bytes, uint32_t value_bytes)
{
    return key_bytes + 2 * (uint64_t)value_bytes + 2;
}

/* The fewest rows that pass through a kernel at once. */
static inline uint64_t loom__row_least_step(uint64_t item_bytes)
{
    const uint64_t rows = LOOM__LEAST_STEP_BYTES / item_bytes;
    return rows > LOOM__LEAST_STEP_ROWS ? (uint64_t)LOOM__LEAST_STEP_ROWS : rows > 0 ? rows : 1;
}

/* The least bound for rows of these widths. */
static inline uint64_t loom__row_least_staging(uint32_t key_bytes, uint32_t value_bytes)
{
    const uint64_t item = loom__row_item_bytes(key_bytes, value_bytes);
    const uint64_t steps = 4 * LOOM__ROW_SETS * loom__row_least_step(item) * item;
    const uint64_t lists = 2 * (LOOM__LISTS_BYTES + (uint64_t)LOOM__LEAST_LISTED * LOOM__LISTED_BYTES);
    return steps > lists ? steps : lists;
}

/* The keys for whose lists a bound surely has room. */
static inline uint64_t loom__row_listed(uint64_t bound)
{
    return (bound / 2 - LOOM__LISTS_BYTES) / LOOM__LISTED_BYTES;
}

/* The route that takes least. */
static inline loom_row_route loom__row_choose(const double seconds[LOOM__ROW_ROUTES])
{
    loom_row_route best = LOOM_ROW_ROUTE_DIRECT;
    for (int i = LOOM_ROW_ROUTE_ORDERED; i < LOOM__ROW_ROUTES; i++)
        if (seconds[i] > 0 && seconds[i] < seconds[best])
            best = (loom_row_route)i;
    return best;
}

#endif
