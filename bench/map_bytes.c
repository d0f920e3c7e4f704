/* Bytes that each operation of the case `map` must move, for the column `gbps`:
 *   build    the pairs read once and the table written once
 *   find     the key read, 64 bytes for each access, the value and one byte of status written
 *   insert   the pair read, 64 bytes for each access, and the last bucket written back; accumulate, update and
 *            overwrite likewise
 *   find_or_insert  the pair read, a value written, 64 bytes for each access, half of the last buckets written back
 *   erase    the key read, 64 bytes for each access, and the last bucket written back; count likewise
 *   erase_if the table read once; the buckets that change are not counted
 *   churn    an erase and an insert
 *   grow     the table read, and one of twice its size written
 *   extend, insert_more, grow_from, more_from  as insert
 *   build_from  as build, into a table that was made for all keys */
#include "map_bench.h"

enum { BUCKET = 64 };

double map_bytes_of_build(const map_bench *bench, double accesses)
{
    (void)accesses;
    return (double)bench->count * (bench->key_bytes + bench->value_bytes) + (double)bench->footprint;
}

double map_bytes_of_growth(const map_bench *bench, double accesses)
{
    (void)accesses;
    return 3.0 * (double)bench->footprint;
}

/* For every way of inserting; reading and writing the whole table would cost most. */
double map_bytes_of_extension(const map_bench *bench, double accesses)
{
    return (double)bench->operations * (bench->key_bytes + bench->value_bytes + BUCKET * (accesses + 1));
}

double map_bytes_of_find(const map_bench *bench, double accesses)
{
    return (double)bench->count * (bench->key_bytes + BUCKET * accesses + bench->value_bytes + 1);
}

double map_bytes_of_insert(const map_bench *bench, double accesses)
{
    return (double)bench->count * (bench->key_bytes + bench->value_bytes + BUCKET * (accesses + 1));
}

double map_bytes_of_find_or_insert(const map_bench *bench, double accesses)
{
    return (double)bench->count * (bench->key_bytes + 2 * bench->value_bytes + BUCKET * (accesses + 0.5));
}

double map_bytes_of_erase(const map_bench *bench, double accesses)
{
    return (double)bench->count * (bench->key_bytes + BUCKET * (accesses + 1));
}

double map_bytes_of_erase_if(const map_bench *bench, double accesses)
{
    (void)accesses;
    return (double)bench->footprint;
}

double map_bytes_of_churn(const map_bench *bench, double accesses)
{
    const double keys = (double)bench->operations / 2; /* erased, and as many inserted */
    return keys * (2 * bench->key_bytes + bench->value_bytes + 2 * BUCKET * (accesses + 1));
}
