/* The codes of a partition's cells in the shared memory of a block, and how they are repaired: what building a table and inserting
 * into it have in common.
 *
 * A cell's keys count by their turn alone (perfect_layout.h): for each mapping Φ a word of eight 4-bit counters says all that a
 * choice of codes needs, so keys are read once, and neither sorted nor kept. With another offset Δ the counters turn by as many
 * places. A partition with more than 15 keys of one cell and turn cannot be counted so; they are equal, in practice.
 *
 * Codes with which some buckets are too full are repaired in rounds. All cells with keys in such buckets are listed; in two half
 * rounds, for the buckets of the lower and of the upper four subranges, each of them considers its 14 other codes and bids for the
 * bucket that it would leave: the least new overflow wins, and its cell moves, if there is none. Who has moved waits two half
 * rounds. Once only some buckets are left it waits six, moves may add some overflow, and bids are blurred by chance: otherwise a
 * few cells would go in circles, or two large ones in one bucket never part. All cells choose at once, from
 * counts that are a little old; what goes wrong thereby is seen in the next round. */
#ifndef LOOM_CUDA_PERFECT_CODES_CUH
#define LOOM_CUDA_PERFECT_CODES_CUH

#include "engines/perfect/perfect_layout.h"

#include <cuda_runtime.h>

enum {
    CODES_THREADS = 256,          /* of a block, … */
    CODES_LARGE_BYTES = 76 << 10, /* … and twice as many where it has more shared memory than this: few fit then */
    CODES_REGISTERS = 48,         /* of a thread, for five blocks on a multiprocessor */
    STUBBORN = 6,                 /* so few threads see a bucket that is too full, and bids are blurred */
    BEARABLE = 4,                 /* overflow that a move may add then */
    NO_BID = 0xffffffff
};

/* ---- Shared memory ---- */

/* A cell bids for the bucket that it would leave. */
struct bid {
    uint32_t bucket; /* NO_BID: none */
    uint32_t value;  /* the cell, at least */
};

struct codes_memory {
    uint32_t *counts; /* [2][words * 16], for each Φ: keys of a cell by turn, 4 bits each */
    uint32_t *fills;  /* [subranges], a byte each: keys of a bucket */
    uint32_t *bids;   /* [subranges]: of cells that would leave the bucket; in steps 2 and 3: */
    uint16_t *order;  /* [words * 16]: cells, the largest first */
    bid *suspects;    /* [2][so many], behind the bids */
    uint8_t *codes;   /* [words * 16]: code, and above it when the cell moved (a half round, 1 .. 15; 0: never) */
};

__host__ __device__ inline uint32_t whole_words(uint32_t bytes)
{
    return (bytes + 15) / 16 * 16;
}

__host__ __device__ inline uint32_t bids_bytes(uint32_t subrange, uint32_t words, uint32_t suspects)
{
    const uint32_t bids = (uint32_t)PERFECT_SUBRANGES * subrange * 4 + 2 * suspects * (uint32_t)sizeof(bid);
    const uint32_t order = words * 16 * 2;
    return whole_words(bids > order ? bids : order);
}

__host__ __device__ inline uint32_t codes_shared_bytes(uint32_t subrange, uint32_t words, uint32_t suspects)
{
    return words * 16 * (4 + 4 + 1) + whole_words(PERFECT_SUBRANGES * subrange) + bids_bytes(subrange, words, suspects);
}

inline uint32_t codes_threads(uint32_t shared_bytes)
{
    return shared_bytes > CODES_LARGE_BYTES ? 2 * CODES_THREADS : CODES_THREADS;
}

__device__ __forceinline__ codes_memory lay_out(unsigned char *memory, uint32_t subrange, uint32_t words)
{
    codes_memory m;
    m.counts = (uint32_t *)memory;
    m.codes = (uint8_t *)(m.counts + 2 * words * 16);
    m.fills = (uint32_t *)(m.codes + words * 16);
    m.bids = m.fills + whole_words(PERFECT_SUBRANGES * subrange) / 4;
    m.order = (uint16_t *)m.bids;
    m.suspects = (bid *)(m.bids + PERFECT_SUBRANGES * subrange);
    return m;
}

struct codes_block {
    codes_memory m;
    uint32_t subrange, words, salt;
    uint32_t suspects; /* cells that are listed for a half round, at most; others wait for the next one */
};

__device__ __forceinline__ uint32_t *counts_of(const codes_block &block, uint32_t mapping, uint32_t cell)
{
    return &block.m.counts[mapping * (block.words * 16) + cell];
}

__device__ __forceinline__ uint32_t fill_of(const codes_block &block, uint32_t bucket)
{
    return ((const volatile uint8_t *)block.m.fills)[bucket];
}

__device__ __forceinline__ void add_keys(const codes_block &block, uint32_t bucket, uint32_t keys)
{
    atomicAdd(&block.m.fills[bucket / 4], keys << 8 * (bucket % 4)); /* modulo 2^32: takes keys away, too */
}

/* All threads: counts, codes and fills become zero. */
__device__ __forceinline__ void clear_counters(const codes_block &block, unsigned char *memory)
{
    const uint32_t bytes = block.words * 16 * (4 + 4 + 1) + whole_words(PERFECT_SUBRANGES * block.subrange);
    for (uint32_t i = threadIdx.x; i < bytes / 16; i += blockDim.x)
        ((uint4 *)memory)[i] = make_uint4(0, 0, 0, 0);
}

/* The word of 15 codes; its salt is left zero. */
__device__ __forceinline__ uint64_t packed_codes(const codes_block &block, uint32_t word)
{
    const uint4 bytes = ((const uint4 *)block.m.codes)[word];
    const uint32_t four[4] = {bytes.x, bytes.y, bytes.z, bytes.w & 0x00ffffffu};
    uint64_t codes = 0;
#pragma unroll
    for (int k = 0; k < 4; k++) {
        uint32_t x = four[k] & 0x0f0f0f0fu;
        x = (x | x >> 4) & 0x00ff00ffu;
        x = (x | x >> 8) & 0x0000ffffu;
        codes |= (uint64_t)x << 16 * k;
    }
    return codes;
}

/* ---- Counters of 4 bits, and of a byte ---- */

/* By turn becomes by subrange, as the code has it. */
__device__ __forceinline__ uint32_t turned(uint32_t counts, uint32_t code)
{
    return __funnelshift_l(counts, counts, 4 * (code & 7));
}

__device__ __forceinline__ uint32_t nibble(uint32_t counts, uint32_t i)
{
    return counts >> 4 * i & 15;
}

/* The lower four counters, a byte each. */
__device__ __forceinline__ uint32_t lower_bytes(uint32_t counts)
{
    uint32_t x = counts & 0xffff;
    x = (x | x << 8) & 0x00ff00ff;
    return (x | x << 4) & 0x0f0f0f0f;
}

struct eight_bytes {
    uint32_t low, high;

    __device__ __forceinline__ void put(uint32_t i, uint32_t byte)
    {
        if (i < 4)
            low |= byte << 8 * i;
        else
            high |= byte << 8 * (i - 4);
    }
    /* Byte t of the result is byte (t + by) mod 8. */
    __device__ __forceinline__ eight_bytes back(uint32_t by) const
    {
        const uint32_t bits = 8 * (by & 3), first = by & 4 ? high : low, second = by & 4 ? low : high;
        return {__funnelshift_r(first, second, bits), __funnelshift_r(second, first, bits)};
    }
};

__device__ __forceinline__ eight_bytes expanded(uint32_t counts)
{
    return {lower_bytes(counts), lower_bytes(counts >> 16)};
}

__device__ __forceinline__ uint32_t sum_of(uint32_t four)
{
    return __dp4a(four, 0x01010101u, 0u);
}

/* Which of four bytes, of which none is above 128, are above `slots`? The lowest bit of each says so. */
__device__ __forceinline__ uint32_t above_of(uint32_t four, uint32_t slots)
{
    return ((four + (127 - slots) * 0x01010101u) & 0x80808080u) >> 7;
}

/* How much are they, together? */
__device__ __forceinline__ uint32_t overflow_of(uint32_t four, uint32_t slots)
{
    const uint32_t above = above_of(four, slots);
    return __dp4a((four + (127 - slots) * 0x01010101u) & 0x7f7f7f7fu, above, sum_of(above));
}

__device__ __forceinline__ uint32_t overflow_of(const eight_bytes &all, uint32_t slots)
{
    return overflow_of(all.low, slots) + overflow_of(all.high, slots);
}

/* Counts a key of the partition. */
__device__ __forceinline__ void count_key(const codes_block &block, perfect_place place)
{
    const uint32_t cell = perfect_cell(place);
    atomicAdd(counts_of(block, 0, cell), 1u << 4 * perfect_turn(place.rest, block.salt, 0));
    atomicAdd(counts_of(block, 1, cell), 1u << 4 * perfect_turn(place.rest, block.salt, 1));
}

__device__ __forceinline__ uint32_t sum_of_counters(uint32_t counts)
{
    return sum_of((counts & 0x0f0f0f0fu) + (counts >> 4 & 0x0f0f0f0fu));
}

/* All threads, when each has counted `mine` keys: has no counter overflowed? One that does makes the sum of all less, by 15 or 16, and
 * nothing makes it more. `sum` is a word of shared memory. */
__device__ __forceinline__ bool all_counted(const codes_block &block, uint32_t mine, uint32_t *sum)
{
    if (threadIdx.x == 0)
        *sum = 0;
    __syncthreads();
    uint32_t missing = 2 * mine;
    for (uint32_t i = threadIdx.x; i < 2 * block.words * 16; i += blockDim.x)
        missing -= sum_of_counters(block.m.counts[i]);
    missing = __reduce_add_sync(0xffffffffu, missing);
    if (threadIdx.x % 32 == 0)
        atomicAdd(sum, missing);
    __syncthreads();
    return *sum == 0;
}

/* ---- Rounds ---- */

/* In which subranges are keys of the cell in a bucket that is too full? Of those in `wanted`, the same for all threads. */
template <uint32_t slots>
__device__ __forceinline__ uint32_t trouble_of(const codes_block &block, uint32_t cell, uint32_t wanted)
{
    const uint32_t code = block.m.codes[cell] & 15, mapping = code >> 3;
    const uint32_t placed = turned(*counts_of(block, mapping, cell), code);
    uint32_t trouble = 0;
#pragma unroll
    for (uint32_t i = 0; i < PERFECT_SUBRANGES; i++)
        if (wanted >> i & 1) {
            const uint32_t fill = fill_of(block, perfect_bucket_in(cell, block.salt, mapping, i, block.subrange));
            trouble |= (uint32_t)((nibble(placed, i) != 0) & (fill > slots)) << i; /* no branch: lanes differ */
        }
    return trouble;
}

/* Half rounds are counted from 1 to 15 and again, so that they fit beside a code. */
__device__ __forceinline__ bool moved_lately(uint32_t moved, uint32_t now, uint32_t rest)
{
    return moved != 0 && (now - moved + 15) % 15 <= rest;
}

/* A bid's value: new overflow, relative to NO_WORSE, then chance, then cell and code. */
enum { NO_WORSE = 16, BID_WORSE_AT = 23, BID_CHANCE_AT = 20, BID_CELL_AT = 4 };

template <uint32_t slots>
__device__ __forceinline__ bid bid_for(const codes_block &block, uint32_t cell, uint32_t half, uint32_t now,
                                       uint32_t salt, bool stubborn)
{
    const uint32_t byte = block.m.codes[cell], code = byte & 15, mapping = code >> 3;
    const uint32_t placed = turned(*counts_of(block, mapping, cell), code);
    const bid none = {NO_BID, cell << BID_CELL_AT};
    if (moved_lately(byte >> 4, now, stubborn ? 6 : 2) || (half ? placed >> 16 : placed & 0xffff) == 0)
        return none;
    /* Keys in the cell's sixteen buckets without its own; and the fullest bucket that it should leave. */
    eight_bytes others[2] = {};
    uint32_t fullest = slots;
    bid best = {NO_BID, 0xffffffffu};
#pragma unroll
    for (uint32_t i = 0; i < PERFECT_SUBRANGES; i++) {
        const uint32_t a = perfect_bucket_in(cell, block.salt, 0, i, block.subrange);
        const uint32_t b = perfect_bucket_in(cell, block.salt, 1, i, block.subrange);
        const uint32_t own = nibble(placed, i), here = mapping ? b : a;
        const uint32_t fill_a = min(fill_of(block, a), 100u), fill_b = min(fill_of(block, b), 100u);
        const uint32_t fill = mapping ? fill_b : fill_a;
        if (i / 4 == half && own != 0 && fill > fullest) {
            fullest = fill;
            best.bucket = here;
        }
        others[0].put(i, a == here ? fill_a - min(own, fill_a) : fill_a);
        others[1].put(i, b == here ? fill_b - min(own, fill_b) : fill_b);
    }
    if (best.bucket == NO_BID)
        return none;
    const eight_bytes own = expanded(placed);
    const eight_bytes mine = mapping ? others[1] : others[0];
    const uint32_t now_over = overflow_of({mine.low + own.low, mine.high + own.high}, slots) - overflow_of(mine, slots);
#pragma unroll
    for (uint32_t phi = 0; phi < 2; phi++) {
        const eight_bytes keys = expanded(*counts_of(block, phi, cell));
        const uint32_t without = overflow_of(others[phi], slots);
#pragma unroll
        for (uint32_t offset = 0; offset < PERFECT_SUBRANGES; offset++) {
            const uint32_t other = phi << 3 | offset;
            if (other == PERFECT_STASHED || other == code)
                continue;
            const eight_bytes met = others[phi].back(offset);
            const uint32_t over = overflow_of({met.low + keys.low, met.high + keys.high}, slots) - without;
            const uint32_t chance = (cell << 4 | other) * 0x9e3779b1u ^ salt;
            const uint32_t drawn = chance * 0x85ebca77u;
            int worse = (int)over - (int)now_over + NO_WORSE + (stubborn && drawn >> 30 == 0);
            worse = worse < 0 ? 0 : worse > 2 * NO_WORSE - 1 ? 2 * NO_WORSE - 1 : worse;
            best.value = min(best.value, (uint32_t)worse << BID_WORSE_AT | (drawn >> 27 & 7) << BID_CHANCE_AT |
                                             cell << BID_CELL_AT | other);
        }
    }
    return best.value >> BID_WORSE_AT > (uint32_t)NO_WORSE + (stubborn ? BEARABLE : 0) ? none : best;
}

__device__ __forceinline__ void move_cell(const codes_block &block, uint32_t cell, uint32_t code, uint32_t now)
{
    const uint32_t before = block.m.codes[cell] & 15;
    const uint32_t leaving = turned(*counts_of(block, before >> 3, cell), before);
    const uint32_t coming = turned(*counts_of(block, code >> 3, cell), code);
#pragma unroll
    for (uint32_t i = 0; i < PERFECT_SUBRANGES; i++) {
        if (nibble(leaving, i) != 0)
            add_keys(block, perfect_bucket_in(cell, block.salt, before >> 3, i, block.subrange),
                     0 - nibble(leaving, i));
        if (nibble(coming, i) != 0)
            add_keys(block, perfect_bucket_in(cell, block.salt, code >> 3, i, block.subrange), nibble(coming, i));
    }
    block.m.codes[cell] = (uint8_t)(now << 4 | code);
}

struct repair_state {
    uint32_t listed[2]; /* suspects for each half */
    uint32_t wanted;    /* subranges that have buckets too full */
};

/* All threads: how many of them see buckets that are too full; state->wanted says where. */
template <uint32_t slots>
__device__ __forceinline__ uint32_t look_for_trouble(const codes_block &block, repair_state *state)
{
    const uint32_t lane = threadIdx.x % 32;
    uint32_t wanted = 0;
    if (threadIdx.x == 0)
        *state = repair_state{};
    __syncthreads();
    for (uint32_t four = threadIdx.x; four < whole_words(PERFECT_SUBRANGES * block.subrange) / 4; four += blockDim.x)
        for (uint32_t above = above_of(block.m.fills[four], slots); above != 0; above &= above - 1)
            wanted |= 1u << (4 * four + (__ffs((int)above) - 1) / 8) / block.subrange;
    const uint32_t of_warp = __reduce_or_sync(0xffffffffu, wanted);
    if (lane == 0 && of_warp != 0)
        atomicOr(&state->wanted, of_warp);
    return (uint32_t)__syncthreads_count(wanted != 0);
}

/* A cell with keys in buckets that are too full becomes a suspect, for the halves in which it has them. */
template <uint32_t slots>
__device__ __forceinline__ void consider_cell(const codes_block &block, repair_state *state, uint32_t cell,
                                              uint32_t wanted)
{
    const uint32_t trouble = trouble_of<slots>(block, cell, wanted);
#pragma unroll
    for (uint32_t half = 0; half < 2; half++)
        if (trouble >> 4 * half & 15) {
            const uint32_t at = atomicAdd(&state->listed[half], 1u);
            if (at < block.suspects)
                block.m.suspects[half * block.suspects + at].value = cell << BID_CELL_AT;
        }
}

/* Who lists suspects, in each round, and is told of cells that move: this one considers all cells. */
template <uint32_t slots> struct all_cells {
    /* All threads. */
    __device__ __forceinline__ void list(const codes_block &block, repair_state *state) const
    {
        const uint32_t wanted = state->wanted, lane = threadIdx.x % 32, cells = block.words * 16;
        for (uint32_t first = threadIdx.x - lane; first < cells; first += blockDim.x) {
            if (first + lane < cells)
                consider_cell<slots>(block, state, first + lane, wanted);
            __syncwarp(); /* or lanes that had nothing to list would go ahead, and each part of the warp by itself */
        }
        __syncthreads();
    }
    __device__ __forceinline__ void moved(uint32_t) const {}
};

/* All threads. Returns how many of them see buckets that are still too full; 0: there are none. */
template <uint32_t slots, class lister>
__device__ __forceinline__ uint32_t repair(const codes_block &block, repair_state *state, uint32_t rounds, lister cells)
{
    for (uint32_t i = threadIdx.x; i < PERFECT_SUBRANGES * block.subrange; i += blockDim.x)
        block.m.bids[i] = NO_BID;
    for (uint32_t round = 0;; round++) {
        const uint32_t seen = look_for_trouble<slots>(block, state);
        if (seen == 0 || round == rounds)
            return seen;
        cells.list(block, state);
        for (uint32_t half = 0; half < 2; half++) {
            const uint32_t now = (2 * round + half) % 15 + 1, salt = (2 * round + half) * 0xc2b2ae35u;
            const uint32_t count = min(state->listed[half], block.suspects);
            bid *suspects = block.m.suspects + half * block.suspects;
            if (count == 0) {
                __syncthreads(); /* all have seen it, before it becomes zero again */
                continue;
            }
            for (uint32_t i = threadIdx.x; i < count; i += blockDim.x) {
                const uint32_t cell = suspects[i].value >> BID_CELL_AT & 0xffff;
                const bid own = bid_for<slots>(block, cell, half, now, salt, seen <= STUBBORN);
                suspects[i] = own;
                if (own.bucket != NO_BID)
                    atomicMin(&block.m.bids[own.bucket], own.value);
            }
            __syncthreads();
            for (uint32_t i = threadIdx.x; i < count; i += blockDim.x) {
                const bid own = suspects[i];
                if (own.bucket == NO_BID || atomicCAS(&block.m.bids[own.bucket], own.value, NO_BID) != own.value)
                    continue; /* another cell's bid was better, and perhaps that one is done already */
                move_cell(block, own.value >> BID_CELL_AT & 0xffff, own.value & 15, now);
                cells.moved(own.value >> BID_CELL_AT & 0xffff);
            }
            __syncthreads();
        }
    }
}

#endif
