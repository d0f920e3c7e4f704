/* How large a filter is, how many bits a key sets, and what a filter's bits say about its keys.
 *
 * Keys fall into blocks like balls into bins: the number of keys in a block has a Poisson distribution with mean m =
 * keys / blocks. Let each key set a bit in e of the four words of a quarter. With i keys in a block, a word of 32 bits
 * has a share of 1 - (1 - e / 128)^i of its bits set. A random key asks for e bits in each of the four quarters, so it
 * is a false positive with probability
 *     sum over i of  exp(-m) m^i / i!  *  (1 - (1 - e / 128)^i) ^ 4e.
 * For e = 2 a key sets one bit of 64, and for e = 1 one bit of 128; the formula is the same. For e = 3 a key leaves out
 * one of the quarter's words, so full words are less likely to come together. In this case, by inclusion and exclusion
 * over the words that lack a bit, three words have the bits that a key asks for with probability
 *     sum over k = 0 .. 3 of  (-1)^k C(3, k)  *  (k / 4 q^(k - 1) + (1 - k / 4) q^k)^i,   q = 31 / 32,
 * which is up to 2.5 % lower. Both rates grow by m / 2^32, the chance that a key of the block has the same lower half
 * of the hash and therefore the same bits. This term matters only for the lowest rates. Measured rates agree with both
 * formulas within their noise (filter_ops.h). The best e by these formulas is 1 up to 8 bits of memory for each key, 2
 * up to 17, 3 up to 30, then 4.
 *
 * A key sets p of the filter's b bits, each with probability p / b, whatever its block. So n keys leave b (1 - p / b)^n
 * bits clear on average. loom__filter_estimate solves this for n. */
#include "core/error.h"
#include "engines/filter/filter_layout.h"

#include <math.h>

/* False-positive rate of a key whose block holds `keys` keys. */
static double rate_in_block(double keys, uint32_t probes)
{
    if (probes != 12)
        return pow(-expm1(keys * log1p(-(double)probes / FILTER_BLOCK_BITS)), probes);
    static const double ways[] = {1, -3, 3, -1}, q = 31.0 / 32;
    double quarter = 0;
    for (int k = 0; k <= 3; k++)
        quarter += ways[k] * pow(k / 4.0 * pow(q, k - 1) + (1 - k / 4.0) * pow(q, k), keys);
    return pow(fmax(quarter, 0), FILTER_QUARTERS);
}

double loom__filter_rate(double keys, double blocks, uint32_t probes)
{
    const double mean = keys / blocks;
    const double spread = 12 * sqrt(mean) + 40, first = floor(fmax(0, mean - spread)), last = ceil(mean + spread);
    double rate = 0;
    if (!(mean > 0))
        return 0;
    if (mean > 100 * FILTER_BLOCK_BITS) /* nearly all bits are set */
        return 1;
    for (double i = first; i <= last; i++) /* at most 5,600 terms */
        rate += exp(i * log(mean) - mean - lgamma(i + 1)) * rate_in_block(i, probes);
    rate += mean * FILTER_SAME_BITS;
    return rate < 1 ? rate : 1;
}

static uint32_t best_probes(double keys, double blocks)
{
    uint32_t best = 4;
    for (uint32_t probes = 8; probes <= 16; probes += 4)
        if (loom__filter_rate(keys, blocks, probes) < loom__filter_rate(keys, blocks, best))
            best = probes;
    return best;
}

static double rate_with(double keys, double blocks, uint32_t probes)
{
    return loom__filter_rate(keys, blocks, probes != 0 ? probes : best_probes(keys, blocks));
}

/* The fewest blocks, within 1 / 4096, whose rate is at most `wanted`. The rate falls as the number of blocks grows. */
static double blocks_needed(double keys, double wanted, uint32_t probes)
{
    double few = 0, enough = ceil(keys * FILTER_MOST_BITS_PER_KEY / FILTER_BLOCK_BITS);
    /* Needs doubling only for few probes and a low rate. Ends, since rates fall at least like 1 / blocks. */
    while (rate_with(keys, enough, probes) > wanted)
        enough *= 2;
    while (enough - few > 1 && enough - few > enough / 4096) {
        const double middle = floor((few + enough) / 2);
        if (rate_with(keys, middle, probes) > wanted)
            few = middle;
        else
            enough = middle;
    }
    return enough;
}

/* The blocks that the config asks for. More than `most`: no filter is that large. */
static double blocks_asked_for(const loom_filter_config *config, double most)
{
    const double keys = (double)config->capacity, rate = config->false_positive_rate;
    if (config->bytes != 0)
        return ceil((double)config->bytes / FILTER_BLOCK_BYTES);
    if (config->bits_per_key != 0)
        return ceil(keys * config->bits_per_key / FILTER_BLOCK_BITS);
    if (keys > most * FILTER_BLOCK_BITS)
        return most + 1;
    return blocks_needed(keys, rate != 0 ? rate : FILTER_DEFAULT_RATE, config->probes);
}

loom_status loom__filter_choose_shape(const loom_filter_config *config, uint32_t *blocks, uint32_t *probes)
{
    const double keys = (double)config->capacity, most = (double)FILTER_MOST_PARTITIONS * FILTER_PARTITION_BLOCKS;
    double needed = blocks_asked_for(config, most);
    if (needed > FILTER_PARTITION_BLOCKS) /* whole partitions */
        needed = ceil(needed / FILTER_PARTITION_BLOCKS) * FILTER_PARTITION_BLOCKS;
    RETURN_ERROR_IF(needed > most, LOOM_INVALID_ARGUMENT,
                    "a filter of %.0f bytes has more than 2^32 - 1024 blocks; make a smaller one, or several",
                    needed * FILTER_BLOCK_BYTES);
    *blocks = (uint32_t)needed;
    *probes = config->probes;
    if (*probes == 0)
        *probes = config->capacity > 0 ? best_probes(keys, needed) : FILTER_DEFAULT_PROBES;
    return LOOM_OK;
}

double loom__filter_estimate(uint64_t bits_set, uint32_t blocks, uint32_t probes)
{
    const double bits = (double)blocks * FILTER_BLOCK_BITS, clear = bits - (double)bits_set;
    return log(fmax(clear, 0.5) / bits) / log1p(-(double)probes / bits);
}
