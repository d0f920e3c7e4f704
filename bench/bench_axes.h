/* The axes of the benchmark and their defaults. */
#ifndef BENCH_AXES_H
#define BENCH_AXES_H

#include <stdint.h>

#define BENCH_DEFAULT_N           (UINT64_C(1) << 24)
#define BENCH_DEFAULT_LOADS       0.53, 0.8, 0.9, 0.95
#define BENCH_DEFAULT_HITS        0, 50, 100 /* percent of the lookups that find their key */
#define BENCH_DEFAULT_SKEW        0.0        /* Zipf exponent; 0: every key once */
#define BENCH_DEFAULT_HOT         0.0        /* share of the entries that are one key */
#define BENCH_DEFAULT_MORE        0.09       /* share of the keys that `extend` and others insert */
#define BENCH_DEFAULT_FROM        0, 0.0001, 0.01, 0.1, 0.5, 0.9, 1 /* first capacity of tables that grow, as a share of n */
#define BENCH_DEFAULT_KEY_BYTES   4
#define BENCH_DEFAULT_VALUE_BYTES 4
#define BENCH_DEFAULT_REPEAT      5

/* The case `threads`. */
#define BENCH_MOST_CALLERS    64
#define BENCH_DEFAULT_CALLERS 1, 2, 4, 8, 16, 32
#define BENCH_THREADS_BATCHES 1, 64, 1024, 65536

/* Multimaps. */
#define BENCH_DEFAULT_VALUES_PER_KEY 8, 1, 64, 1024
#define BENCH_DEFAULT_MULTI_SWEEP_N  (UINT64_C(1) << 28) /* as in the paper (case_multi.c) */
#define BENCH_SWEEP_VALUES_PER_KEY   1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024
#define BENCH_SWEEP_LOAD_OF_WARPCORE 0.8

/* --skew real: a key's number of values is the whole part of e^x, at least 1 and at most BENCH_REAL_MOST, where x is
 * normally distributed. A third of the keys have one value, one in 70 has more than 100. */
#define BENCH_REAL_MU    1.333
#define BENCH_REAL_SIGMA 1.489
#define BENCH_REAL_MOST  1000
#define BENCH_REAL_MEAN  11
#define BENCH_SKEW_REAL  (-1.0) /* bench_options.skew */

/* The case `widths`: bytes of key and value, and its own defaults. */
#define BENCH_WIDTHS_FORMS                              \
    {4, 4}, {8, 8}, {4, 8}, {8, 4}, {16, 8}, {32, 128}, \
    {                                                   \
        8, 512                                          \
    }
#define BENCH_SHORTEST               16 /* bytes of keys that are strings */
#define BENCH_LONGEST                64
#define BENCH_WIDTHS_LOAD            0.8
#define BENCH_WIDTHS_HITS            0, 100
#define BENCH_WIDTHS_BYTES           (UINT64_C(1) << 28) /* most bytes of all pairs, without --n */
#define BENCH_WIDTHS_BYTES_ON_DEVICE (UINT64_C(1) << 30)
#define BENCH_LINE                   64 /* bytes of a bucket */
#define BENCH_SECTOR                 32 /* bytes that a device fetches at least */

/* The case `stadium`. */
#define BENCH_STADIUM_LOAD       0.8
#define BENCH_STADIUM_HITS       100, 50, 0
#define BENCH_STADIUM_BATCHES    UINT64_C(100000), UINT64_C(1000000), UINT64_C(10000000), UINT64_C(100000000)
#define BENCH_STADIUM_MOST_BATCH UINT64_C(100000000)
#define BENCH_STADIUM_ROW        16 /* bytes of an access that the limits of lookups measure */

/* The case `stadium` with --figure (stadium_figures.c has the figures). */
#define BENCH_FIGURE_SLICE       UINT64_C(100000) /* rows of a mixed batch */
#define BENCH_FIGURE_DIVISORS    16, 4, 1         /* of --n */
#define BENCH_FIGURE_LEAST_KEYS  UINT64_C(64)
#define BENCH_FIGURE_MOST_KEYS   ((UINT64_C(1) << 31) - 1) /* of 4 bytes, as many absent ones, and two that are unused */
#define BENCH_FIGURE_PARTS       50
#define BENCH_FIGURE_LOAD        0.85
#define BENCH_FIGURE_HIGH_LOAD   0.95
#define BENCH_FIGURE_TABLE_LOADS 0.8, 0.85, 0.9, 0.95

/* The case `group`. */
#define BENCH_GROUP_ROWS     UINT64_C(20000000)
#define BENCH_DEFAULT_GROUPS 100, 1e4, 1e6
#define BENCH_GROUP_FROM     0, 1 /* for how many keys tables are made, as a share of the groups */
#define BENCH_GROUP_LOAD     0.8

/* Filters. */
#define BENCH_DEFAULT_FILTER_N_ON_DEVICE (UINT64_C(1) << 27) /* smaller ones fit the caches of a GPU */
#define BENCH_DEFAULT_BITS_PER_KEY       4, 8, 12, 16, 20, 24
#define BENCH_DEFAULT_ABSENT             (UINT64_C(1) << 24) /* absent keys, to count false positives */
#define BENCH_DEFAULT_ABSENT_ON_DEVICE   UINT64_C(100000000)

/* A filter's measured rate may differ from the theoretical one by this share of it and this many standard
 * deviations. */
#define BENCH_RATE_TOLERANCE  0.1
#define BENCH_RATE_DEVIATIONS 5.0

/* Perfect tables: the axes of --sweep (case_perfect.c has the figures). */
#define BENCH_DEFAULT_PERFECT_N_ON_DEVICE UINT64_C(100000000)     /* as in the paper */
#define BENCH_SWEEP_LOADS_OF_GPH          0.4, 0.457, 0.533, 0.64 /* 10^8 pairs of 8 bytes in 2, 1.75, 1.5, 1.25 GB */
#define BENCH_SWEEP_LOAD_OF_GPH           0.533                   /* where the paper varies something else */
#define BENCH_SWEEP_N_DIVISORS            256, 64, 16, 4, 1       /* of --n */
#define BENCH_SWEEP_LANES                 1, 2, 4, 8
#define BENCH_SWEEP_SKEWS                 0, 0.5, 1, 2, 4
#define BENCH_SWEEP_MORE                  (0.01 / 1.01) /* share of all keys: 1 % of those before them */
#define BENCH_SWEEP_LOADS_AFTER_MORE      0.53 * 1.01, 0.8 * 1.01, 0.9 * 1.01, 0.95 /* from 0.53, 0.8, 0.9 and 0.94 */
#define BENCH_SWEEP_MOST_KEYS             (UINT64_C(1) << 31) /* keys of 4 bytes, and as many absent ones */

/* The axes of the case `limits`. Footprints above this share of the memory are left out. */
#define BENCH_LIMIT_ACCESS_BYTES 8, 16, 32, 64, 128
#define BENCH_LIMIT_FOOTPRINTS \
    UINT64_C(1) << 20, UINT64_C(1) << 24, UINT64_C(1) << 28, UINT64_C(1) << 30, UINT64_C(1) << 32, UINT64_C(1) << 36
#define BENCH_LIMIT_SHARE_OF_MEMORY        2                   /* a device: half of its memory */
#define BENCH_LIMIT_SHARE_OF_HOST          8                   /* a host: one eighth, since others use it too */
#define BENCH_LIMIT_LINK                   (UINT64_C(1) << 30) /* bytes of host memory for limits of the link */
#define BENCH_LIMIT_HOST_FOOTPRINTS        UINT64_C(1) << 30, UINT64_C(1) << 33, UINT64_C(1) << 35
#define BENCH_LIMIT_ROW_BYTES              16, 64
#define BENCH_LIMIT_SHARE_OF_HOST_FOR_ROWS 3 /* a third */

/* The smallest array that a limit can be measured over; smaller tables are compared with it. */
#define BENCH_LIMIT_SMALLEST UINT64_C(4096)

/* A limit is measured at most this long before the operation that is compared with it. Clocks, neighbours and the
 * layout of memory drift over minutes; a measurement takes about a second. */
#define BENCH_LIMIT_FRESH_SECONDS 10.0

/* `erase` erases this share of the keys: half, so that the same run can check that the others stay. */
#define BENCH_ERASE_DIVISOR 2

/* In `grow_from_repeats` every key comes so many times: 90 % of the entries repeat a key. */
#define BENCH_REPEATS 10

/* `refuse` inserts this many times the keys that a partition has slots for, unless --queries says how many. It looks for
 * them among so many keys at a time. */
#define BENCH_REFUSED_TIMES 16
#define BENCH_CANDIDATES    (UINT64_C(1) << 20)

/* The operation `churn` replaces all keys this many times, a tenth of them at a time. */
#define BENCH_TURNOVERS   10
#define BENCH_CHURN_PARTS 10

/* Calls that are not waited for use this many results in turn. */
#define BENCH_RESULTS 64

/* Absent keys looked up to check a build or an insertion. */
#define BENCH_ABSENT_CHECKS (UINT64_C(1) << 20)

/* Keys that a check of the whole table looks up at once. */
#define BENCH_CHECKED_AT_ONCE (UINT64_C(1) << 24)

/* A row whose threads had less than this share of their cores says so. */
#define BENCH_BUSY_SHARE 0.9

/* Two runs with the same options make the same table. */
#define BENCH_SEED UINT64_C(0x6c6f6f6d)

#endif
