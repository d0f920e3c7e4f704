#define LOOM_LANES_HEADER \
    "machines/cpu/core/cpu_lanes_scalar.h" /* for a table at rest: before, between and after runs */
#include "simt/sim_perfect_table.h"

#include "engines/perfect/perfect_recode.h"
#include "engines/perfect/perfect_room.h"
#include "engines/perfect/perfect_survey.h"
#include "simt/machine/simt.h"

#include <stdlib.h>
#include <string.h>

sim_perfect_table sim_perfect;
_Alignas(64) unsigned char sim_perfect_memory[SIMT_MOST_WORDS * 8];

static const lane_team no_team;
static const lane_group alone;

static perfect_owner own(uint32_t partition)
{
    return perfect_own(&sim_perfect.view, partition, no_team, alone, 0);
}

/* The next `bytes` of the memory, aligned to `to`. */
static void *take(size_t bytes, size_t to)
{
    size_t at = (sim_perfect.bytes + to - 1) / to * to;
    sim_perfect.bytes = (at + bytes + 7) / 8 * 8;
    if (sim_perfect.bytes > sizeof sim_perfect_memory)
        abort(); /* a case that asks for more than there is */
    return sim_perfect_memory + at;
}

void sim_perfect_make(loom__slot_kind kind, uint32_t subrange, uint32_t words, uint64_t seed, int for_team)
{
    const loom__perfect_shape shape = {.kind = kind, .partitions = 2, .subrange = subrange, .words = words};
    sim_perfect = (sim_perfect_table){.kind = kind};
    memset(sim_perfect_memory, 0, sizeof sim_perfect_memory);
    loom__perfect_view *view = &sim_perfect.view;
    *view = loom__perfect_view_make(&shape, seed);
    view->base = take(2 * (size_t)view->partition_bytes, PERFECT_LINE_BYTES);
    view->codes = take(2 * words * sizeof *view->codes, 8);
    view->totals = take(sizeof *view->totals, 8);
    view->marks = take(2 * sizeof *view->marks, 8);
    if (for_team) {
        sim_perfect.scratch = take(perfect_scratch_bytes(subrange), 8);
        sim_perfect.spare = take(view->partition_bytes + words * (size_t)8, 8);
    }
    for (uint32_t partition = 0; partition < 2; partition++)
        sim_perfect_set_codes(partition, 0, NULL);
}

void *sim_perfect_take(size_t bytes)
{
    return take(bytes, 16);
}

void sim_perfect_set_codes(uint32_t partition, uint32_t salt, const uint64_t *codes)
{
    perfect_owner owner = own(partition);
    perfect_empty_partition(sim_perfect.kind, &owner, salt);
    for (uint32_t i = 0; i < sim_perfect.view.words && codes != NULL; i++)
        owner.words[i] = codes[i] << 4 >> 4 | (uint64_t)salt << 60;
}

uint32_t sim_perfect_partition_of(uint64_t key)
{
    return perfect_start(sim_perfect.kind, &sim_perfect.view, key).partition_index;
}

uint32_t sim_perfect_bucket_of(uint64_t key)
{
    return perfect_seek_key(sim_perfect.kind, &sim_perfect.view, key).bucket;
}

uint32_t sim_perfect_used(uint32_t partition, uint32_t bucket)
{
    perfect_owner owner = own(partition);
    return perfect_used(sim_perfect.kind, &owner, bucket);
}

int sim_perfect_in_stash(uint64_t key)
{
    return sim_perfect_bucket_of(key) == perfect_stash(&sim_perfect.view);
}

/* The best code of a cell with a new key `comes`, or, if this is NULL, the best code that leaves the subrange `leaves`.
 * PERFECT_NOWHERE: no code will do. */
static uint32_t code_for(const perfect_owner *owner, uint32_t cell, const perfect_place *comes, uint32_t leaves)
{
    const loom__slot_kind kind = sim_perfect.kind;
    const uint32_t code = perfect_code_of(owner, cell);
    if (code == PERFECT_STASHED)
        return PERFECT_NOWHERE;
    perfect_reading reading = perfect_read_cell(kind, owner, NULL, cell, code, 0, 1);
    if (comes != NULL)
        perfect_add_key(reading.counts, comes->remainder, owner->salt);
    const uint32_t best = perfect_judge(kind, owner, &reading, cell, 0, code, leaves, 0);
    return best >> 24 == 0 && reading.keys < PERFECT_MOST_COPIES ? best & 15 : (uint32_t)PERFECT_NOWHERE;
}

sim_perfect_way sim_perfect_way_of(uint64_t key)
{
    const loom__slot_kind kind = sim_perfect.kind;
    const perfect_seek seek = perfect_seek_key(kind, &sim_perfect.view, key);
    const perfect_owner owner = own(seek.partition_index);
    const uint32_t own_cell = perfect_cell(seek.place);
    if (perfect_code_of(&owner, own_cell) == PERFECT_STASHED)
        return SIM_ANY_WAY;
    if (perfect_used(kind, &owner, seek.bucket) < perfect_slots(kind))
        return SIM_BUCKET_HAS_ROOM;
    if (code_for(&owner, own_cell, &seek.place, PERFECT_SUBRANGES) != PERFECT_NOWHERE)
        return SIM_CELL_CAN_MOVE;
    for (uint32_t slot = 0; slot < perfect_slots(kind); slot++) {
        const uint64_t other = slot_key(kind, perfect_line(kind, seek.partition, seek.bucket), slot);
        const uint32_t cell = perfect_cell(perfect_place_of_key(kind, &sim_perfect.view, other));
        if (cell == own_cell)
            continue;
        const uint32_t code = code_for(&owner, cell, NULL, seek.bucket / sim_perfect.view.subrange);
        if (code == PERFECT_NOWHERE)
            continue;
        /* With the other mapping its keys may come to the same bucket again, since there are few buckets. */
        return code >> 3 == perfect_code_of(&owner, cell) >> 3 ? SIM_CELL_CAN_MOVE : SIM_ANY_WAY;
    }
    return SIM_ANY_WAY;
}

int sim_perfect_store(uint64_t key, uint64_t value, int make_room)
{
    const loom__slot_kind kind = sim_perfect.kind;
    static struct {
        perfect_scratch scratch;
        uint32_t shift[PERFECT_SUBRANGES * 2 + 1];
    } own_scratch; /* all zero between calls, as perfect_room.h asks for */
    for (;; make_room = 0) {
        perfect_seek seek = perfect_seek_key(kind, &sim_perfect.view, key);
        perfect_outcome outcome =
            perfect_insert_alone(kind, SLOT_KEEP, LOOM__ADD, 0, alone, &sim_perfect.view, &seek, &value);
        if (outcome == PERFECT_DONE)
            sim_perfect.view.totals->size++;
        if (outcome != PERFECT_OVERFLOW || !make_room)
            return outcome == PERFECT_DONE;
        perfect_owner owner = own(seek.partition_index);
        if (!perfect_make_room(kind, &owner, &own_scratch.scratch, key))
            return 0;
    }
}

void sim_perfect_remove(uint64_t key)
{
    perfect_seek seek = perfect_seek_key(sim_perfect.kind, &sim_perfect.view, key);
    if (perfect_erase(sim_perfect.kind, 0, alone, &sim_perfect.view, &seek, 1) == PERFECT_DONE)
        sim_perfect.view.totals->size--;
}

sim_state sim_perfect_read(uint64_t key)
{
    const loom__slot_kind kind = sim_perfect.kind;
    perfect_seek seek = perfect_seek_key(kind, &sim_perfect.view, key);
    perfect_look look = perfect_find(kind, 0, alone, &seek, 1);
    uint64_t value = 0;
    if (look.found && kind == SLOT_PAIR_4_4)
        value = look.pair >> 32;
    if (look.found && slot_values_apart(kind))
        value = slot_load_value(kind, perfect_value(kind, &sim_perfect.view, seek.partition, seek.bucket, look.slot));
    return (sim_state){(int)look.found, value};
}

void sim_perfect_judge(uint64_t size)
{
    const loom__perfect_view *view = &sim_perfect.view;
    perfect_sums sums = {0};
    for (uint32_t partition = 0; partition < 2; partition++) {
        if (!perfect_salts_agree(view, partition))
            simt_fail("partition %u has words with different salts (P3)", partition);
        for (uint32_t bucket = 0; bucket < perfect_buckets(view->subrange); bucket++)
            perfect_survey_bucket(sim_perfect.kind, alone, view, partition, bucket, &sums);
    }
    uint64_t bad = ~sums.lowest_bad_inverted;
    uint32_t buckets = perfect_buckets(view->subrange);
    if (sums.lowest_bad_inverted != 0)
        simt_fail(
            "bucket %u of partition %u holds a key that does not belong there, or twice (P1), or a value in a free "
            "slot (P2)",
            (unsigned)(bad % buckets), (unsigned)(bad / buckets));
    if (sums.size != size)
        simt_fail("%llu keys lie in the table, and it should hold %llu", (unsigned long long)sums.size,
                  (unsigned long long)size);
}

void sim_perfect_judge_scratch(void)
{
    for (uint32_t bucket = 0; bucket < perfect_buckets(sim_perfect.view.subrange); bucket += 2)
        if (*perfect_shift_word(sim_perfect.scratch, bucket) != 0)
            simt_fail("a plan has left its shift of bucket %u or %u on the scratch", bucket, bucket + 1);
    if (sim_perfect.scratch->touches != 0 || sim_perfect.scratch->lifted != 0 || sim_perfect.scratch->stashed != 0)
        simt_fail("a plan has left its counters on the scratch");
}

static int name_in_partition(uint32_t partition, uint64_t inside, char *text, size_t bytes)
{
    const loom__slot_kind kind = sim_perfect.kind;
    const uint64_t stride = perfect_line_stride(kind);
    const uint64_t rows = perfect_value_offset(kind, perfect_buckets(sim_perfect.view.subrange));
    if (kind == SLOT_KEY_8_VALUE_4 && inside >= rows)
        return snprintf(text, bytes, "p%u b%u values %u, %u", partition, (unsigned)((inside - rows) / 32),
                        (unsigned)((inside - rows) % 32 / 4), (unsigned)((inside - rows) % 32 / 4 + 1));
    if (inside % stride >= PERFECT_LINE_BYTES)
        return snprintf(text, bytes, "p%u b%u value %u", partition, (unsigned)(inside / stride),
                        (unsigned)((inside % stride - PERFECT_LINE_BYTES) / 8));
    if (slot_stride(kind) == 4)
        return snprintf(text, bytes, "p%u b%u keys %u, %u", partition, (unsigned)(inside / stride),
                        (unsigned)(inside % stride / 4), (unsigned)(inside % stride / 4 + 1));
    return snprintf(text, bytes, "p%u b%u slot %u", partition, (unsigned)(inside / stride),
                    (unsigned)(inside % stride / 8));
}

void sim_perfect_name_word(const void *at, char *text, size_t bytes)
{
    const loom__perfect_view *view = &sim_perfect.view;
    const unsigned char *here = at;
    const uint64_t offset = (uint64_t)(here - sim_perfect_memory);
    if (offset < 2 * (uint64_t)view->partition_bytes)
        name_in_partition((uint32_t)(offset / view->partition_bytes), offset % view->partition_bytes, text, bytes);
    else if (here < (const unsigned char *)view->totals)
        snprintf(text, bytes, "p%u codes %u", (unsigned)(((const uint64_t *)at - view->codes) / view->words),
                 (unsigned)(((const uint64_t *)at - view->codes) % view->words));
    else if (here < (const unsigned char *)view->marks)
        snprintf(text, bytes, "size");
    else if (here < (const unsigned char *)(view->marks + 2))
        snprintf(text, bytes, "marks");
    else if (sim_perfect.scratch == NULL)
        snprintf(text, bytes, "team + %u", (unsigned)(here - (const unsigned char *)(view->marks + 2)));
    else if (here >= sim_perfect.spare)
        snprintf(text, bytes, "spare %u", (unsigned)((here - sim_perfect.spare) / 8));
    else if (here >= (const unsigned char *)(sim_perfect.scratch + 1))
        snprintf(text, bytes, "shift of b%u to b%u",
                 (unsigned)(here - (const unsigned char *)(sim_perfect.scratch + 1)) / 2,
                 (unsigned)(here - (const unsigned char *)(sim_perfect.scratch + 1)) / 2 + 3);
    else
        snprintf(text, bytes, "scratch + %u", (unsigned)(here - (const unsigned char *)sim_perfect.scratch));
}
