/* Lookups in tables with rows: a tile of keys, and the step that searches lines for their tags. cuda_rows_find.cu tells
 * the steps of a lookup. Included after the lane primitives. */
#ifndef LOOM_CUDA_ROWS_SEARCH_CUH
#define LOOM_CUDA_ROWS_SEARCH_CUH

#include "engines/open/open_items.h"
#include "machines/cuda/core/cuda_item_queue.cuh"
#include "machines/cuda/core/cuda_items.cuh"

enum { LINES_AT_ONCE = 2 /* lines that a group has in flight */ };

/* The keys of a warp. Those that are not settled each stand at one line of their probe sequence. */
struct search_tile {
    uint32_t lines[TILE_ITEMS]; /* number of the line, counted over the table */
    uint32_t lower[TILE_ITEMS]; /* lower half of the hash */
    uint16_t tags[TILE_ITEMS];
    uint16_t depths[TILE_ITEMS];
    __align__(4) uint8_t status[TILE_ITEMS];
    uint8_t slots[TILE_ITEMS];   /* of listed keys: the slot with their tag */
    uint8_t from[TILE_ITEMS];    /* slots below hold other keys with the same tag */
    uint8_t listed[TILE_ITEMS];  /* keys whose tag is in their line */
    uint8_t pending[TILE_ITEMS]; /* keys for the next round */
};

/* Appends the items of the lanes that say `mine` to a list. All lanes of the warp call this. */
__device__ __forceinline__ void append(uint8_t *list, uint32_t *count, lane_group group, uint32_t item, bool mine)
{
    const uint32_t adding = __ballot_sync(CUDA_FULL_MASK, mine);
    if (mine)
        list[*count + __popc(adding & (group.own - 1))] = (uint8_t)item;
    *count += __popc(adding);
}

/* Stores what step 2 needs of a key. */
__device__ __forceinline__ void put_hash(const loom__open_view &lines, uint64_t hash, search_tile *tile, uint32_t item)
{
    const uint32_t lower = (uint32_t)hash;
    tile->lines[item] = (uint32_t)loom__multiply_wide(loom__hash_partition(hash, lines.partitions), lines.buckets) +
                        loom__hash_bucket(lower, lines.buckets);
    tile->lower[item] = lower;
    tile->tags[item] = (uint16_t)open_tag(hash);
    tile->depths[item] = 0;
    tile->from[item] = 0;
    tile->status[item] = LOOM_NOT_FOUND;
}

/* Step 2, for the keys pending[0 .. pending - 1], in the first round for all keys. Returns the number of keys that go
 * on to their next line; *listed counts keys whose tag was found. */
__device__ __forceinline__ uint32_t search_lines(const loom__open_view &lines, const tile_range &range,
                                                 search_tile *tile, uint32_t pending, bool first_round,
                                                 uint32_t *listed, lane_group group)
{
    uint32_t onward = 0;
    *listed = 0;
    for (uint32_t first = 0; first < pending; first += GROUPS * LINES_AT_ONCE) {
        lane_line line[LINES_AT_ONCE];
        uint32_t item[LINES_AT_ONCE];
#pragma unroll
        for (uint32_t k = 0; k < LINES_AT_ONCE; k++) {
            const uint32_t wanted = first + k * GROUPS + range.lane / CUDA_LANES;
            const bool active = wanted < pending; /* otherwise loads any line rather than none */
            item[k] = !active ? 0 : first_round ? wanted : tile->pending[wanted];
            lane_take(group, &line[k], lines.base + loom__multiply_wide(tile->lines[item[k]], OPEN_LINE_BYTES), 0, 1,
                      OPEN_LINE_BYTES);
        }
        __syncwarp(); /* before keys that go on take the places of keys that were read */
#pragma unroll
        for (uint32_t k = 0; k < LINES_AT_ONCE; k++) {
            const bool active = first + k * GROUPS + range.lane / CUDA_LANES < pending;
            /* Groups without a key read nothing that the leader of another group writes. */
            const uint32_t lower = tile->lower[item[k]];
            const uint32_t depth = active ? tile->depths[item[k]] : 0, from = active ? tile->from[item[k]] : 0;
            lane_slots tagged = lane_match(&line[k], slot_key_bytes(SLOT_TAG), slot_stride(SLOT_TAG),
                                           open_slots(SLOT_TAG), tile->tags[item[k]]);
            while (lane_any(tagged) && lane_first(tagged, slot_stride(SLOT_TAG)) < from)
                tagged = lane_rest(tagged, slot_stride(SLOT_TAG));
            const lane_votes holders = lane_poll(group, active && lane_any(tagged));
            const lane_votes bits = lane_poll(
                group, active && lane_filter(group, &line[k], OPEN_WORD_OFFSET, open_filter_bit(SLOT_TAG, lower)));
            const bool further = !lane_some(holders) && lane_some(bits) && depth + 1 < lines.buckets;
            __syncwarp(); /* all lanes of a group have read what its leader overwrites */
            if (lane_chosen(group, holders))
                tile->slots[item[k]] = (uint8_t)lane_first(tagged, slot_stride(SLOT_TAG));
            if (further && lane_leads(group)) {
                const uint32_t bucket = tile->lines[item[k]] % lines.buckets; /* few keys come here */
                tile->lines[item[k]] += open_next_bucket(&lines, lower, bucket) - bucket;
                tile->depths[item[k]] = (uint16_t)(depth + 1);
                tile->from[item[k]] = 0;
            }
            append(tile->listed, listed, group, item[k], lane_some(holders) && lane_leads(group));
            append(tile->pending, &onward, group, item[k], further && lane_leads(group));
        }
    }
    __syncwarp();
    return onward;
}

#endif
