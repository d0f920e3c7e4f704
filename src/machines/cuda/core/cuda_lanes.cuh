/* The lane primitives of core/lanes.h on a GPU, for groups of CUDA_LANES lanes. The including file sets CUDA_LANES to
 * 1, 2, 4 or 8.
 *
 * A lane holds 8 / CUDA_LANES words of a line in registers. Sets of slots are predicates, not bits, and every loop over
 * them has a literal trip count: otherwise the words would go to local memory. The groups of a warp take their turns
 * together. A vote is a ballot of the whole warp with a literal full mask, from which each group takes its own bits. A
 * group *apart* runs code that the rest of its warp does not run. A group apart votes alone, and the compiler
 * serialises the groups of a warp in that code. */
#ifndef LOOM_CUDA_LANES_CUH
#define LOOM_CUDA_LANES_CUH

#include "core/combine.h"
#include "core/portable.h"
#include "core/word_loads.h"

#ifndef CUDA_LANES
#error "define CUDA_LANES: the lanes of a group"
#endif

#define CUDA_FULL_MASK 0xffffffffu

/* The table lies in global memory. If the including file defines CUDA_SHARED_TABLE, one partition at a time lies in the
 * shared memory of the thread block instead, together with everything that the view struct points to. */
#ifdef CUDA_SHARED_TABLE
#define CUDA_SCOPE  ".cta"
#define CUDA_SPACE  ".cta.shared"
#define CUDA_AT(at) __cvta_generic_to_shared(at)
#else
#define CUDA_SCOPE  ".gpu"
#define CUDA_SPACE  ".gpu.global"
#define CUDA_AT(at) (at)
#endif

/* Macros that the including file may define for loads of lines from global memory:
 *   CUDA_OWNED_TABLE     `shared` is 0, since only the kernel's own thread blocks write the table. They write what the
 *                        kernel reads, so loads stay coherent
 *   CUDA_STREAMED_LINES  lines that nobody writes are the first to leave the L2 cache, in favour of data that should
 *                        stay there. Exception: lines whose values follow directly (a span of 128 bytes) are loaded as
 *                        usual. Otherwise the values would be evicted before they are read (8 + 8 bytes, hits: 17
 *                        instead of 27 G/s)
 *   CUDA_KEPT_LINES      lines that others may write are the last to leave the L2 cache: the lane will write most of
 *                        them itself, a few microseconds later (cuda_open_lanes.cuh)
 * and for ORs without a result:
 *   CUDA_PASSING_ORS     the line is the first to leave the L2 cache: the lane does not need it again
 *                        (cuda_filter_lanes.cuh) */

enum { LANE_WORDS = 8 / CUDA_LANES };

typedef bool lane_truth;

typedef struct lane_group {
    uint32_t lane;     /* number of this lane in its group */
    uint32_t own;      /* bit of this lane in its warp */
    uint32_t mask;     /* bits of the group's lanes */
    uint32_t together; /* bits of the lanes that take turns together: the whole warp, or only the group */
} lane_group;

typedef struct lane_line {
    uint64_t words[LANE_WORDS];
    uint32_t first; /* number of words[0] in the line */
} lane_line;

typedef struct lane_slots {
    bool low[LANE_WORDS];  /* the slot in the lower half of the word, or the word's only slot */
    bool high[LANE_WORDS]; /* with slots of 4 bytes: the slot in the upper half */
    uint32_t tags;         /* with slots of 2 bytes: one bit for each slot of this lane */
    uint32_t first;
} lane_slots;

typedef uint32_t lane_votes; /* the group's bits of a warp's ballot, at their positions in the warp */

LOOM_LANE lane_group lane_group_at(uint32_t in_warp)
{
    lane_group group;
    group.lane = in_warp % CUDA_LANES;
    group.own = 1u << in_warp;
    group.mask = ((1u << CUDA_LANES) - 1) << (in_warp - group.lane);
    group.together = CUDA_FULL_MASK;
    return group;
}

/* The library's own thread blocks have one dimension. Reading %laneid instead costs find_kernel three more registers
 * (4 + 4 bytes, sm_90, nvcc 13.0): 40 instead of 37. */
LOOM_LANE lane_group lane_own_group(void)
{
    return lane_group_at(threadIdx.x % 32);
}

/* The lane's number in its warp, for users' kernels, whose thread blocks may have any shape. Not volatile: the number
 * is the same everywhere in a thread. */
LOOM_LANE uint32_t lane_in_warp(void)
{
    uint32_t lane;
    asm("mov.u32 %0, %%laneid;" : "=r"(lane));
    return lane;
}

/* A group whose lanes stay together, whatever the rest of the warp does. */
LOOM_LANE lane_group lane_group_apart(uint32_t in_warp)
{
    lane_group group = lane_group_at(in_warp);
    group.together = group.mask;
    return group;
}

LOOM_LANE void lane_prefetch(const void *at)
{
    (void)at; /* not needed: a load into registers is in flight as soon as it is issued */
}

LOOM_LANE void lane_prefetch_to_write(const void *at)
{
    (void)at;
}

/* Not volatile: one cache policy serves all loads of a kernel. */
#ifdef CUDA_KEPT_LINES
LOOM_LANE uint64_t lane_kept(void)
{
    uint64_t policy;
    asm("createpolicy.fractional.L2::evict_last.b64 %0, 1.0;" : "=l"(policy));
    return policy;
}
#endif

#if defined(CUDA_STREAMED_LINES) || defined(CUDA_PASSING_ORS)
LOOM_LANE uint64_t lane_streamed(void)
{
    uint64_t policy;
    asm("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(policy));
    return policy;
}
#endif

#ifdef CUDA_STREAMED_LINES
/* A lane that loads its share in several pieces keeps the line in the L1 cache for the next piece. */
#if CUDA_LANES >= 4
#define CUDA_STREAM "ld.global.nc.L1::no_allocate.L2::cache_hint"
#else
#define CUDA_STREAM "ld.global.nc.L2::cache_hint"
#endif
#endif

/* Loads two words. Neither word tears: each element of a vector load is a single access. */
LOOM_LANE void lane_load_two(const unsigned char *at, int shared, uint32_t span, uint64_t *a, uint64_t *b)
{
#ifdef CUDA_STREAMED_LINES
    if (!shared && span != 128) {
        asm volatile(CUDA_STREAM ".v2.u64 {%0, %1}, [%2], %3;" : "=l"(*a), "=l"(*b) : "l"(at), "l"(lane_streamed()));
        return;
    }
#endif
#ifdef CUDA_KEPT_LINES
    if (shared && span != 128) {
        asm volatile("ld.relaxed.gpu.global.L2::cache_hint.v2.u64 {%0, %1}, [%2], %3;"
                     : "=l"(*a), "=l"(*b)
                     : "l"(at), "l"(lane_kept())
                     : "memory");
        return;
    }
#endif
#ifndef CUDA_SHARED_TABLE
    if (shared && span == 128)
        asm volatile("ld.relaxed.gpu.global.L2::128B.v2.u64 {%0, %1}, [%2];" : "=l"(*a), "=l"(*b) : "l"(at) : "memory");
    else if (span == 128)
        asm volatile("ld.global.nc.L2::128B.v2.u64 {%0, %1}, [%2];" : "=l"(*a), "=l"(*b) : "l"(at));
    else if (!shared)
        asm volatile("ld.global.nc.v2.u64 {%0, %1}, [%2];" : "=l"(*a), "=l"(*b) : "l"(at));
    else
#endif
        asm volatile("ld.relaxed" CUDA_SPACE ".v2.u64 {%0, %1}, [%2];"
                     : "=l"(*a), "=l"(*b)
                     : "l"(CUDA_AT(at))
                     : "memory");
}

LOOM_LANE void lane_load_one(const unsigned char *at, int shared, uint32_t span, uint64_t *a)
{
#ifdef CUDA_STREAMED_LINES
    if (!shared && span != 128) {
        asm volatile(CUDA_STREAM ".u64 %0, [%1], %2;" : "=l"(*a) : "l"(at), "l"(lane_streamed()));
        return;
    }
#endif
#ifdef CUDA_KEPT_LINES
    if (shared && span != 128) {
        asm volatile("ld.relaxed.gpu.global.L2::cache_hint.u64 %0, [%1], %2;"
                     : "=l"(*a)
                     : "l"(at), "l"(lane_kept())
                     : "memory");
        return;
    }
#endif
#ifndef CUDA_SHARED_TABLE
    if (!shared)
        asm volatile("ld.global.nc.u64 %0, [%1];" : "=l"(*a) : "l"(at));
    else
#endif
        asm volatile("ld.relaxed" CUDA_SPACE ".u64 %0, [%1];" : "=l"(*a) : "l"(CUDA_AT(at)) : "memory");
}

LOOM_LANE void lane_take(lane_group group, lane_line *line, const unsigned char *at, int shared, lane_truth active,
                         uint32_t span)
{
#ifdef CUDA_OWNED_TABLE
    shared = 1;
#endif
    line->first = group.lane * LANE_WORDS;
    at += line->first * 8;
    if (active) { /* otherwise the words keep their old values, which costs nothing */
        if (LANE_WORDS == 1) {
            lane_load_one(at, shared, span, &line->words[0]);
        } else {
#pragma unroll
            for (int i = 0; i + 1 < LANE_WORDS; i += 2)
                lane_load_two(at + 8 * i, shared, span, &line->words[i], &line->words[i + 1]);
        }
    }
}

/* The slots of 2 bytes that hold `tag`, one bit each. Predicates for up to 28 slots would not fit a lane's registers,
 * so two slots are compared at a time: of x = two slots xor two tags, the highest bit of each half of ~(s | x) tells
 * whether this half is zero, where s carries into that bit if any lower bit is set. */
LOOM_LANE uint32_t lane_match_tags(const lane_line *line, uint32_t slots, uint32_t tag)
{
    const uint32_t twice = tag | tag << 16;
    uint32_t found = 0;
#pragma unroll
    for (int block = 0; block < (LANE_WORDS + 3) / 4; block++) {
        uint32_t even = 0; /* bit 2 i: the lower slot of pair i of the block; bit 16 + 2 i: its upper slot */
#pragma unroll
        for (int i = 0; i < (LANE_WORDS < 4 ? 2 * LANE_WORDS : 8); i++) {
            const uint32_t x = (uint32_t)(line->words[4 * block + i / 2] >> i % 2 * 32) ^ twice;
            const uint32_t s = (x & 0x7fff7fffu) + 0x7fff7fffu;
            even |= (~(s | x) & 0x80008000u) >> (15 - 2 * i);
        }
        found |= ((even & 0x5555u) | (even >> 15 & 0xaaaau)) << 16 * block;
    }
    /* The line's last word may hold no slot. Only the last word of the last lane can be the line's last word. */
    const bool is_last = slots * 2 != 64 && line->first + LANE_WORDS == 8;
    return is_last ? found & (uint32_t)((1ull << 4 * (LANE_WORDS - 1)) - 1) : found;
}

/* Whether the lower (byte 0) or upper half (byte 4) of this lane's word i belongs to the slots, which fill `bytes`
 * bytes of the line. */
LOOM_LANE bool lane_is_slot(const lane_line *line, int i, uint32_t byte, uint32_t bytes)
{
    if (bytes == 64)
        return true;
    if (bytes == 56) /* all but the last word. Only the last word of the last lane can be the line's last word */
        return i + 1 < LANE_WORDS || line->first + i != 7;
    return (line->first + i) * 8 + byte < bytes;
}

LOOM_LANE lane_slots lane_match(const lane_line *line, uint32_t key_bytes, uint32_t stride, uint32_t slots,
                                uint64_t key)
{
    lane_slots set;
    set.first = line->first;
    set.tags = key_bytes == 2 ? lane_match_tags(line, slots, (uint32_t)key) : 0;
#pragma unroll
    for (int i = 0; i < LANE_WORDS; i++) {
        const bool low_slot = lane_is_slot(line, i, 0, slots * stride),
                   high_slot = lane_is_slot(line, i, 4, slots * stride);
        if (key_bytes == 8) {
            set.low[i] = low_slot && line->words[i] == key;
            set.high[i] = false;
        } else if (key_bytes == 2) {
            set.low[i] = set.high[i] = false;
        } else {
            set.low[i] = low_slot && (uint32_t)line->words[i] == (uint32_t)key;
            set.high[i] = stride == 4 && high_slot && (uint32_t)(line->words[i] >> 32) == (uint32_t)key;
        }
    }
    return set;
}

LOOM_LANE lane_truth lane_any(lane_slots set)
{
    bool any = set.tags != 0;
#pragma unroll
    for (int i = 0; i < LANE_WORDS; i++)
        any = any || set.low[i] || set.high[i];
    return any;
}

LOOM_LANE uint32_t lane_first(lane_slots set, uint32_t stride)
{
    uint32_t slot = 0;
    if (stride == 2)
        return 4 * set.first + (set.tags != 0 ? loom__lowest_bit(set.tags) : 0);
#pragma unroll
    for (int i = LANE_WORDS - 1; i >= 0; i--) {
        if (stride == 4) {
            slot = set.high[i] ? 2 * i + 1 : slot;
            slot = set.low[i] ? 2 * i : slot;
        } else {
            slot = set.low[i] ? i : slot;
        }
    }
    return slot + (stride == 4 ? 2 * set.first : set.first);
}

LOOM_LANE lane_slots lane_rest(lane_slots set, uint32_t stride)
{
    bool before = false; /* a slot of the set was passed */
    (void)stride;
    set.tags &= set.tags - 1;
#pragma unroll
    for (int i = 0; i < LANE_WORDS; i++) {
        const bool low = set.low[i], high = set.high[i];
        set.low[i] = low && before;
        before = before || low;
        set.high[i] = high && before;
        before = before || high;
    }
    return set;
}

LOOM_LANE uint64_t lane_word(const lane_line *line, lane_slots set, uint32_t slot)
{
    uint64_t word = line->words[0];
    (void)slot;
#pragma unroll
    for (int i = LANE_WORDS - 1; i > 0; i--)
        word = set.low[i] ? line->words[i] : word;
    return word;
}

LOOM_LANE uint32_t lane_words(lane_group group)
{
    (void)group;
    return LANE_WORDS;
}

LOOM_LANE uint32_t lane_first_word(lane_group group)
{
    return CUDA_LANES == 1 ? 0 : group.lane * LANE_WORDS;
}

LOOM_LANE uint64_t lane_own_word(const lane_line *line, uint32_t i)
{
    return line->words[i];
}

LOOM_LANE uint64_t lane_line_word(const lane_line *line, uint32_t i)
{
    uint64_t word = line->words[0];
#pragma unroll
    for (uint32_t at = 1; at < LANE_WORDS; at++)
        word = i == at ? line->words[at] : word;
    return word;
}

LOOM_LANE lane_truth lane_filter(lane_group group, const lane_line *line, uint32_t at, uint32_t bit)
{
    const uint64_t word = line->words[at / 8 % LANE_WORDS];
    const uint32_t bits = at % 8 == 0 ? (uint32_t)(word >> bit) : (uint32_t)(word >> 32) >> bit;
    return group.lane == at / 8 / LANE_WORDS && (bits & 1) != 0;
}

LOOM_LANE uint32_t lane_four_bytes(lane_group group, const lane_line *line, uint32_t at)
{
    const uint32_t own = (uint32_t)(line->words[at / 8 % LANE_WORDS] >> at % 8 * 8);
    const uint32_t first = (uint32_t)__ffs((int)group.mask) - 1;
    return CUDA_LANES == 1 ? own : __shfl_sync(group.together, own, (int)(first + at / 8 / LANE_WORDS));
}

LOOM_LANE lane_votes lane_poll(lane_group group, lane_truth mine)
{
    return CUDA_LANES == 1 ? (lane_votes)mine : __ballot_sync(group.together, mine) & group.mask;
}

LOOM_LANE lane_truth lane_some(lane_votes votes)
{
    return votes != 0;
}

LOOM_LANE lane_truth lane_chosen(lane_group group, lane_votes votes)
{
    return CUDA_LANES == 1 ? votes != 0 : (votes & (2 * group.own - 1)) == group.own; /* this lane, and no lower one */
}

LOOM_LANE uint32_t lane_count(lane_votes votes)
{
    return __popc(votes);
}

LOOM_LANE uint64_t lane_sum(lane_group group, uint64_t mine)
{
#pragma unroll
    for (int i = 1; i < CUDA_LANES; i *= 2)
        mine += __shfl_xor_sync(group.together, (unsigned long long)mine, i);
    return mine;
}

LOOM_LANE uint32_t lane_least(lane_group group, uint32_t mine)
{
#pragma unroll
    for (int i = 1; i < CUDA_LANES; i *= 2)
        mine = min(mine, __shfl_xor_sync(group.together, mine, i));
    return mine;
}

LOOM_LANE lane_truth lane_leads(lane_group group)
{
    return group.lane == 0;
}

LOOM_LANE lane_truth lane_going(lane_group group, lane_truth mine)
{
    return __any_sync(group.together, mine);
}

LOOM_LANE void lane_join(lane_group group, int shared)
{
    if (CUDA_LANES > 1 && shared)
        __syncwarp(group.together);
}

LOOM_LANE void lane_sync(lane_group group, int shared)
{
    (void)shared;
    if (CUDA_LANES > 1)
        __syncwarp(group.mask);
}

LOOM_LANE uint64_t lane_load_8(const uint64_t *at)
{
    uint64_t value;
    asm volatile("ld.relaxed" CUDA_SPACE ".u64 %0, [%1];" : "=l"(value) : "l"(CUDA_AT(at)) : "memory");
    return value;
}

LOOM_LANE uint32_t lane_load_4(const uint32_t *at)
{
    uint32_t value;
    asm volatile("ld.relaxed" CUDA_SPACE ".u32 %0, [%1];" : "=r"(value) : "l"(CUDA_AT(at)) : "memory");
    return value;
}

LOOM_LANE void lane_store_8(uint64_t *at, uint64_t value)
{
    asm volatile("st.relaxed" CUDA_SPACE ".u64 [%0], %1;" ::"l"(CUDA_AT(at)), "l"(value) : "memory");
}

LOOM_LANE void lane_store_4(uint32_t *at, uint32_t value)
{
    asm volatile("st.relaxed" CUDA_SPACE ".u32 [%0], %1;" ::"l"(CUDA_AT(at)), "r"(value) : "memory");
}

/* Lines that nobody writes were taken through the L1 cache, and may still be there. */
LOOM_LANE uint64_t lane_reload_8(const uint64_t *at, int shared)
{
#if !defined(CUDA_SHARED_TABLE) && !defined(CUDA_OWNED_TABLE)
    if (!shared) {
        uint64_t value;
        asm volatile("ld.global.nc.u64 %0, [%1];" : "=l"(value) : "l"(at));
        return value;
    }
#endif
    (void)shared;
    return lane_load_8(at);
}

LOOM_LANE uint32_t lane_reload_4(const uint32_t *at, int shared)
{
#if !defined(CUDA_SHARED_TABLE) && !defined(CUDA_OWNED_TABLE)
    if (!shared) {
        uint32_t value;
        asm volatile("ld.global.nc.u32 %0, [%1];" : "=r"(value) : "l"(at));
        return value;
    }
#endif
    (void)shared;
    return lane_load_4(at);
}

/* Rows: a lane moves the widest words that divide the number of bytes and both addresses. The other address may lie
 * in any memory. */
LOOM_LANE uint64_t lane_load(const uint64_t *at)
{
    return lane_load_8(at);
}

LOOM_LANE uint32_t lane_load(const uint32_t *at)
{
    return lane_load_4(at);
}

LOOM_LANE uint8_t lane_load(const uint8_t *at)
{
    uint32_t value;
    asm volatile("ld.relaxed" CUDA_SPACE ".u8 %0, [%1];" : "=r"(value) : "l"(CUDA_AT(at)) : "memory");
    return (uint8_t)value;
}

LOOM_LANE void lane_store(uint64_t *at, uint64_t value)
{
    lane_store_8(at, value);
}

LOOM_LANE void lane_store(uint32_t *at, uint32_t value)
{
    lane_store_4(at, value);
}

LOOM_LANE void lane_store(uint8_t *at, uint8_t value)
{
    asm volatile("st.relaxed" CUDA_SPACE ".u8 [%0], %1;" ::"l"(CUDA_AT(at)), "r"((uint32_t)value) : "memory");
}

/* Calls work(w), where w is a word of 8, 4 or 1 bytes. */
template <class work_type>
static __device__ __forceinline__ auto lane_by_words(const void *a, const void *b, uint32_t n, work_type work)
{
    const uint64_t together = (uintptr_t)a | (uintptr_t)b | n;
    return together % 8 == 0 ? work((uint64_t)0) : together % 4 == 0 ? work((uint32_t)0) : work((uint8_t)0);
}

LOOM_LANE lane_truth lane_same_bytes(const unsigned char *at, const unsigned char *bytes, uint32_t n)
{
    return lane_by_words(at, bytes, n, [&](auto word) {
        typedef decltype(word) type;
        bool same = true;
        for (uint32_t i = 0; same && i < n / sizeof(type); i++)
            same = lane_load((const type *)at + i) == ((const type *)bytes)[i];
        return same;
    });
}

LOOM_LANE void lane_read_bytes(unsigned char *to, const unsigned char *at, uint32_t n)
{
    lane_by_words(to, at, n, [&](auto word) {
        typedef decltype(word) type;
#pragma unroll 4
        for (uint32_t i = 0; i < n / sizeof(type); i++)
            ((type *)to)[i] = lane_load((const type *)at + i);
    });
}

LOOM_LANE void lane_write_bytes(unsigned char *at, const unsigned char *from, uint32_t n)
{
    lane_by_words(at, from, n, [&](auto word) {
        typedef decltype(word) type;
#pragma unroll 4
        for (uint32_t i = 0; i < n / sizeof(type); i++)
            lane_store((type *)at + i, ((const type *)from)[i]);
    });
}

/* Strings: whole words of the table, and words at any address of the other array. */
#define LANE_HAS_STRINGS

LOOM_LANE lane_truth lane_same_string(const unsigned char *at, const unsigned char *bytes, uint32_t n)
{
    bool same = true;
    for (uint32_t i = 0; same && i < n; i += 8) {
        const uint32_t some = n - i < 8 ? n - i : 8; /* the string's last word may have other bytes behind it */
        const uint64_t differs = lane_load_8((const uint64_t *)(at + i)) ^ loom__load_bytes(bytes + i, some);
        same = differs << (64 - 8 * some) == 0;
    }
    return same;
}

LOOM_LANE void lane_write_string(unsigned char *at, const unsigned char *from, uint32_t n)
{
    for (uint32_t i = 0; i < n; i += 8)
        lane_store_8((uint64_t *)(at + i), loom__load_bytes(from + i, n - i < 8 ? n - i : 8));
}

LOOM_LANE uint64_t lane_swap_8(uint64_t *at, uint64_t expected, uint64_t wanted, int shared)
{
    uint64_t old;
    (void)shared;
    asm volatile("atom.relaxed" CUDA_SPACE ".cas.b64 %0, [%1], %2, %3;"
                 : "=l"(old)
                 : "l"(CUDA_AT(at)), "l"(expected), "l"(wanted)
                 : "memory");
    return old;
}

LOOM_LANE uint32_t lane_swap_4(uint32_t *at, uint32_t expected, uint32_t wanted, int shared)
{
    uint32_t old;
    (void)shared;
    asm volatile("atom.relaxed" CUDA_SPACE ".cas.b32 %0, [%1], %2, %3;"
                 : "=r"(old)
                 : "l"(CUDA_AT(at)), "r"(expected), "r"(wanted)
                 : "memory");
    return old;
}

LOOM_LANE void lane_or_8(uint64_t *at, uint64_t bits, int shared)
{
    (void)shared;
#ifdef CUDA_PASSING_ORS
    asm volatile("red.relaxed.gpu.global.or.L2::cache_hint.b64 [%0], %1, %2;" ::"l"(at), "l"(bits), "l"(lane_streamed())
                 : "memory");
#else
    asm volatile("red.relaxed" CUDA_SPACE ".or.b64 [%0], %1;" ::"l"(CUDA_AT(at)), "l"(bits) : "memory");
#endif
}

LOOM_LANE void lane_or_4(uint32_t *at, uint32_t bits, int shared)
{
    (void)shared;
    asm volatile("red.relaxed" CUDA_SPACE ".or.b32 [%0], %1;" ::"l"(CUDA_AT(at)), "r"(bits) : "memory");
}

LOOM_LANE uint32_t lane_and_4(uint32_t *at, uint32_t bits, int shared)
{
    uint32_t old;
    (void)shared;
    asm volatile("atom.relaxed" CUDA_SPACE ".and.b32 %0, [%1], %2;"
                 : "=r"(old)
                 : "l"(CUDA_AT(at)), "r"(bits)
                 : "memory");
    return old;
}

LOOM_LANE uint64_t lane_fetch_or_8(uint64_t *at, uint64_t bits, int shared)
{
    uint64_t old;
    (void)shared;
    asm volatile("atom.relaxed" CUDA_SPACE ".or.b64 %0, [%1], %2;"
                 : "=l"(old)
                 : "l"(CUDA_AT(at)), "l"(bits)
                 : "memory");
    return old;
}

LOOM_LANE uint64_t lane_and_8(uint64_t *at, uint64_t bits, int shared)
{
    uint64_t old;
    (void)shared;
    asm volatile("atom.relaxed" CUDA_SPACE ".and.b64 %0, [%1], %2;"
                 : "=l"(old)
                 : "l"(CUDA_AT(at)), "l"(bits)
                 : "memory");
    return old;
}

/* Lanes of a warp that add to the same place at this moment do so by one atomic addition. The lowest of them makes it,
 * and the others get their parts in the order of the lanes. Single additions to one place would wait for each other.
 * Each lane sums up what the lanes before it add: at first its own part, then the sum of the lane before it joins, then
 * that of the lane two places before, four, and so on: at most 5 rounds. */
LOOM_LANE uint64_t lane_draw_8(uint64_t *at, uint64_t n, int shared)
{
    const uint32_t same = __match_any_sync(__activemask(), (unsigned long long)at);
    const uint32_t lowest = (uint32_t)__ffs((int)same) - 1, highest = 31 - (uint32_t)__clz((int)same);
    const uint32_t lane = lane_in_warp(), lower = same & ((1u << lane) - 1);
    int before = lower != 0 ? 31 - __clz((int)lower) : -1; /* the last lane whose part the sum lacks; -1: none */
    unsigned long long sum = n, old = 0;
    (void)shared;
    for (uint32_t reach = 1; reach < (uint32_t)__popc(same); reach *= 2) {
        const int from = before >= 0 ? before : (int)lane;
        const unsigned long long its = __shfl_sync(same, sum, from);
        const int next = __shfl_sync(same, before, from);
        sum += before >= 0 ? its : 0;
        before = before >= 0 ? next : -1;
    }
    const unsigned long long all = __shfl_sync(same, sum, (int)highest);
    if (lane == lowest)
        asm volatile("atom.relaxed" CUDA_SPACE ".add.u64 %0, [%1], %2;"
                     : "=l"(old)
                     : "l"(CUDA_AT(at)), "l"(all)
                     : "memory");
    return __shfl_sync(same, old, (int)lowest) + sum - n;
}

/* Floats have no atomic minimum or maximum: a CAS loop combines them. Each failed CAS means that another lane has
 * combined. */
LOOM_LANE void lane_combine_8(uint64_t *at, loom__combine_rule rule, uint64_t value, int shared)
{
    switch (rule) {
    case LOOM__ADD:
        asm volatile("red.relaxed" CUDA_SPACE ".add.u64 [%0], %1;" ::"l"(CUDA_AT(at)), "l"(value) : "memory");
        break;
    case LOOM__MIN_UNSIGNED:
        asm volatile("red.relaxed" CUDA_SPACE ".min.u64 [%0], %1;" ::"l"(CUDA_AT(at)), "l"(value) : "memory");
        break;
    case LOOM__MAX_UNSIGNED:
        asm volatile("red.relaxed" CUDA_SPACE ".max.u64 [%0], %1;" ::"l"(CUDA_AT(at)), "l"(value) : "memory");
        break;
    case LOOM__MIN_SIGNED:
        asm volatile("red.relaxed" CUDA_SPACE ".min.s64 [%0], %1;" ::"l"(CUDA_AT(at)), "l"(value) : "memory");
        break;
    case LOOM__MAX_SIGNED:
        asm volatile("red.relaxed" CUDA_SPACE ".max.s64 [%0], %1;" ::"l"(CUDA_AT(at)), "l"(value) : "memory");
        break;
    case LOOM__ADD_FLOAT:
        asm volatile("red.relaxed" CUDA_SPACE ".add.f64 [%0], %1;" ::"l"(CUDA_AT(at)),
                     "d"(__longlong_as_double((long long)value))
                     : "memory");
        break;
    default:
        uint64_t seen, old = lane_load_8(at);
        do {
            seen = old;
            old = lane_swap_8(at, seen, loom__combine_8(rule, seen, value), shared);
        } while (old != seen);
    }
}

LOOM_LANE void lane_combine_4(uint32_t *at, loom__combine_rule rule, uint32_t value, int shared)
{
    switch (rule) {
    case LOOM__ADD:
        asm volatile("red.relaxed" CUDA_SPACE ".add.u32 [%0], %1;" ::"l"(CUDA_AT(at)), "r"(value) : "memory");
        break;
    case LOOM__MIN_UNSIGNED:
        asm volatile("red.relaxed" CUDA_SPACE ".min.u32 [%0], %1;" ::"l"(CUDA_AT(at)), "r"(value) : "memory");
        break;
    case LOOM__MAX_UNSIGNED:
        asm volatile("red.relaxed" CUDA_SPACE ".max.u32 [%0], %1;" ::"l"(CUDA_AT(at)), "r"(value) : "memory");
        break;
    case LOOM__MIN_SIGNED:
        asm volatile("red.relaxed" CUDA_SPACE ".min.s32 [%0], %1;" ::"l"(CUDA_AT(at)), "r"(value) : "memory");
        break;
    case LOOM__MAX_SIGNED:
        asm volatile("red.relaxed" CUDA_SPACE ".max.s32 [%0], %1;" ::"l"(CUDA_AT(at)), "r"(value) : "memory");
        break;
    case LOOM__ADD_FLOAT:
        asm volatile("red.relaxed" CUDA_SPACE ".add.f32 [%0], %1;" ::"l"(CUDA_AT(at)), "f"(__uint_as_float(value))
                     : "memory");
        break;
    default:
        uint32_t seen, old = lane_load_4(at);
        do {
            seen = old;
            old = lane_swap_4(at, seen, loom__combine_4(rule, seen, value), shared);
        } while (old != seen);
    }
}

/* Compilers that know one-sided fences use them. These fences do half the work: a release does not invalidate the L1
 * cache, and an acquire does not wait for stores. */
#if __CUDACC_VER_MAJOR__ > 12 || (__CUDACC_VER_MAJOR__ == 12 && __CUDACC_VER_MINOR__ >= 8)
#define CUDA_RELEASE "fence.release" CUDA_SCOPE ";"
#define CUDA_ACQUIRE "fence.acquire" CUDA_SCOPE ";"
#else
#define CUDA_RELEASE "fence.acq_rel" CUDA_SCOPE ";"
#define CUDA_ACQUIRE "fence.acq_rel" CUDA_SCOPE ";"
#endif

LOOM_LANE void lane_release(int shared)
{
    if (shared)
        asm volatile(CUDA_RELEASE ::: "memory");
}

LOOM_LANE void lane_acquire(int shared)
{
    if (shared)
        asm volatile(CUDA_ACQUIRE ::: "memory");
}

#include "machines/cuda/core/cuda_lanes_team.cuh"

#endif
