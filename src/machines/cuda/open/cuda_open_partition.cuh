/* Steps on one partition, which most often lies in the shared memory of a thread block. Filling from records, refilling
 * from another table and clearing share these steps.
 *
 * A key takes the next place of a bucket from a counter of 16 bits, two per word. A key counts at most once in each
 * bucket, so no counter exceeds the number of keys. There are at most as many keys as slots, and a partition has at
 * most 48,986 slots. A refill that meets more keys discards its partition. The including file defines CUDA_LANES as 1
 * and, if it runs the lane algorithms in shared memory, CUDA_SHARED_TABLE. */
#ifndef LOOM_CUDA_OPEN_PARTITION_CUH
#define LOOM_CUDA_OPEN_PARTITION_CUH

#define LOOM_LANES_HEADER "machines/cuda/core/cuda_lanes.cuh"
#include "engines/open/open_items.h"
#include "machines/cuda/core/cuda_partition.cuh"
#include "machines/cuda/open/cuda_open_bulk.cuh"

enum {
    WHOLE_THREADS = 1024,    /* of a thread block that has an SM for itself */
    HALF_THREADS = 640,      /* of a block that shares an SM with one other */
    QUARTER_THREADS = 320,   /* of a block that shares an SM with three others: small partitions */
    PARTITION_REGISTERS = 48 /* of a thread: the most that all of those numbers of threads allow */
};

/* Writes a partition without keys, or copies the existing one if `from` is given. All threads of the block call
 * this. */
template <loom__slot_kind kind>
__device__ __forceinline__ void begin_partition(uint4 *to, const uint4 *from, uint32_t bytes, uint64_t empty)
{
    constexpr uint32_t stride = bulk_columns<kind>::slot_stride;
    const uint64_t pattern = stride == 4 ? empty << 32 | empty : empty;
    const uint32_t slots_end = open_slots(kind) * stride, low = (uint32_t)pattern, high = (uint32_t)(pattern >> 32);
    for (uint32_t i = threadIdx.x; i < bytes / 16; i += blockDim.x) {
        if (from != NULL) {
            to[i] = from[i];
            continue;
        }
        const uint32_t at = i * 16 % open_line_stride(kind);
        to[i] = make_uint4(at < slots_end ? low : 0, at + 4 < slots_end ? high : 0, at + 8 < slots_end ? low : 0,
                           at + 12 < slots_end ? high : 0);
    }
}

/* The addresses of a slot's head, and of its value if the head does not hold it. */
template <loom__slot_kind kind>
__device__ __forceinline__ typename bulk_columns<kind>::head *head_at(unsigned char *lines, uint32_t bucket,
                                                                      uint32_t slot)
{
    return (typename bulk_columns<kind>::head *)(lines + bucket * open_line_stride(kind) + slot * slot_stride(kind));
}

template <loom__slot_kind kind>
__device__ __forceinline__ typename bulk_columns<kind>::value *value_at(unsigned char *lines, uint32_t bucket,
                                                                        uint32_t slot)
{
    return (typename bulk_columns<kind>::value *)(lines + bucket * open_line_stride(kind) +
                                                  open_value_place(kind, slot));
}

/* Stores a key and its value in a slot. */
template <loom__slot_kind kind>
__device__ __forceinline__ void place(unsigned char *lines, uint32_t bucket, uint32_t slot,
                                      typename bulk_columns<kind>::head one, uint64_t value)
{
    *head_at<kind>(lines, bucket, slot) = one;
    if constexpr (bulk_columns<kind>::has_tail)
        *value_at<kind>(lines, bucket, slot) = (typename bulk_columns<kind>::value)value;
}

/* Moves a key and its value to another slot of the bucket. */
template <loom__slot_kind kind>
__device__ __forceinline__ void move_slot(unsigned char *lines, uint32_t bucket, uint32_t from, uint32_t to)
{
    uint64_t value = 0;
    if constexpr (bulk_columns<kind>::has_tail)
        value = *value_at<kind>(lines, bucket, from);
    place<kind>(lines, bucket, to, *head_at<kind>(lines, bucket, from), value);
}

/* Returns the slot of a key in a bucket, or open_slots(kind) if the key is not there. Runs on one lane. */
template <loom__slot_kind kind>
__device__ __forceinline__ uint32_t slot_of(unsigned char *lines, uint32_t bucket, uint64_t sought)
{
    uint32_t slot = 0;
    while (slot < open_slots(kind) && bulk_columns<kind>::key_of(*head_at<kind>(lines, bucket, slot)) != sought)
        slot++;
    return slot;
}

/* Sets the bit in a bucket's word. Returns whether it was set before. */
template <loom__slot_kind kind> __device__ __forceinline__ bool set_bit(unsigned char *line, uint32_t bit)
{
    uint32_t *half = (uint32_t *)(line + open_word_offset(kind)) + bit / 32, one = 1u << bit % 32;
    return (atomicOr(half, one) & one) != 0;
}

template <loom__slot_kind kind> __device__ __forceinline__ bool has_bit(const unsigned char *line, uint32_t bit)
{
    return *((const uint32_t *)(line + open_word_offset(kind)) + bit / 32) >> bit % 32 & 1;
}

/* Sets the ready bits of a set of slots. The bucket belongs to this lane. */
template <loom__slot_kind kind> __device__ __forceinline__ void set_ready(unsigned char *line, uint32_t slots)
{
    *(uint32_t *)(line + open_word_offset(kind)) |= slots;
}

/* Whether the key is in this line. Lanes begin with different quarters, which lie in different banks. */
template <loom__slot_kind kind> __device__ __forceinline__ bool holds(const unsigned char *line, uint64_t sought)
{
    typedef typename bulk_columns<kind>::key key;
    constexpr int apart = bulk_columns<kind>::slot_stride / sizeof(key), slots = 16 / bulk_columns<kind>::slot_stride;
    bool found = false;
#pragma unroll
    for (int k = 0; k < 4; k++) {
        uint32_t part = (threadIdx.x + k) % 4;
        uint4 quarter = load_quarter(line + part * 16);
        const key *keys = (const key *)&quarter;
#pragma unroll
        for (int i = 0; i < slots; i++)
            found |= keys[i * apart] == (key)sought && part * slots + i < open_slots(kind);
    }
    return found;
}

/* Removes the slot's key and value. Other lanes may remove keys from other slots of the bucket. */
template <loom__slot_kind kind>
__device__ __forceinline__ void empty_slot(unsigned char *lines, uint32_t bucket, uint32_t slot, uint64_t empty)
{
    place<kind>(lines, bucket, slot, (typename bulk_columns<kind>::head)empty, 0);
    if (slot_values_apart(kind))
        atomicAnd((uint32_t *)(lines + bucket * open_line_stride(kind) + open_word_offset(kind)), ~(1u << slot));
}

/* Finishes one bucket, which belongs to this lane, after all keys have their places. Sets ready bits. Of equal keys,
 * the one in the lowest slot a remains. It takes over the value of an equal key in slot b if takes_over(a, b). Returns
 * how many keys were removed. */
template <loom__slot_kind kind, class chooser>
__device__ __forceinline__ uint32_t finish_bucket(unsigned char *lines, uint32_t bucket, uint32_t taken, uint64_t empty,
                                                  chooser takes_over)
{
    typedef typename bulk_columns<kind>::key key;
    constexpr int stride = bulk_columns<kind>::slot_stride, words = OPEN_LINE_BYTES / stride;
    constexpr uint64_t NOBODYS = 0x9e3779b97f4a7c15u; /* for empty slots; equals a key or a word only by chance */
    unsigned char *line = lines + bucket * open_line_stride(kind);
    if (slot_values_apart(kind))
        set_ready<kind>(line, (1u << (taken < open_slots(kind) ? taken : open_slots(kind))) - 1);
    /* Reads quarters in a sequence in which neighbouring lanes use different banks. The filter word of 8 bytes, or the
     * stand-in for empty slots, may equal a key. Such a match only costs the second search below. */
    key keys[words];
#pragma unroll
    for (int k = 0; k < 4; k++) {
        const uint32_t part = (bucket / 2 + k) % 4;
        uint4 quarter = load_quarter(line + part * 16);
        const key *parts = (const key *)&quarter;
#pragma unroll
        for (int i = 0; i < words / 4; i++) {
            const key one = parts[i * (int)(stride / sizeof(key))];
            const bool is_value = open_has_narrow_word(kind) && part * (words / 4) + i >= open_slots(kind);
            keys[k * (words / 4) + i] = one == (key)empty || is_value ? (key)(NOBODYS + k * (words / 4) + i) : one;
        }
    }
    bool suspect = false;
#pragma unroll
    for (int i = 1; i < words; i++)
#pragma unroll
        for (int j = 0; j < i; j++)
            suspect = suspect || keys[i] == keys[j];
    uint32_t went = 0;
    for (uint32_t i = 1; suspect && i < open_slots(kind); i++) {
        key one = *(const key *)(line + i * stride);
        for (uint32_t j = 0; j < i && one != (key)empty; j++)
            if (*(const key *)(line + j * stride) == one) {
                if (takes_over(j, i))
                    move_slot<kind>(lines, bucket, i, j);
                empty_slot<kind>(lines, bucket, i, empty);
                went++;
                break;
            }
    }
    return went;
}

/* Moves the keys of one bucket to its first slots. Returns how many keys there are. */
template <loom__slot_kind kind>
__device__ __forceinline__ uint32_t gather_bucket(unsigned char *lines, uint32_t bucket, uint64_t empty)
{
    typedef typename bulk_columns<kind>::key key;
    constexpr int stride = bulk_columns<kind>::slot_stride, slots = 16 / stride;
    unsigned char *line = lines + bucket * open_line_stride(kind);
    uint32_t full = 0;
#pragma unroll
    for (int k = 0; k < 4; k++) { /* in a sequence in which neighbouring lanes use different banks */
        const uint32_t part = (bucket / 2 + k) % 4;
        uint4 quarter = load_quarter(line + part * 16);
        const key *keys = (const key *)&quarter;
#pragma unroll
        for (int i = 0; i < slots; i++)
            full |= (uint32_t)(keys[i * (int)(stride / sizeof(key))] != (key)empty) << (part * slots + i);
    }
    full &= (1u << open_slots(kind)) - 1;
    const uint32_t count = __popc(full), first_ones = (1u << count) - 1;
    if (full == first_ones)
        return count;
    for (uint32_t last = 31 - __clz(full); full != first_ones; last = 31 - __clz(full)) { /* each round moves one key */
        const uint32_t hole = __ffs(~full) - 1;
        move_slot<kind>(lines, bucket, last, hole);
        empty_slot<kind>(lines, bucket, last, empty);
        full = (full | 1u << hole) & ~(1u << last);
    }
    if (slot_values_apart(kind))
        set_ready<kind>(line, first_ones); /* of the moved keys */
    return count;
}

/* Threads of a thread block with so much shared memory. */
inline uint32_t threads_for_shared(uint32_t bytes)
{
    return bytes > BULK_HALF_BYTES ? WHOLE_THREADS : bytes > BULK_HALF_BYTES / 2 ? HALF_THREADS : QUARTER_THREADS;
}

inline uint32_t partition_threads(const loom__open_view *view)
{
    return threads_for_shared(bulk_shared_bytes(view));
}

#endif
