#include "simt/machine/simt_memory.h"

#include <stdlib.h>
#include <string.h>

static void *grow(void *array, size_t bytes)
{
    void *larger = realloc(array, bytes);
    if (larger == NULL)
        abort(); /* a test tool out of memory */
    return larger;
}

void simt_memory_join(const simt_memory *memory, simt_view *to, const simt_view *from)
{
    for (uint32_t word = 0; word < memory->word_count; word++)
        to->at[word] = to->at[word] > from->at[word] ? to->at[word] : from->at[word];
}

static void copy_view(const simt_memory *memory, simt_view *to, const simt_view *from)
{
    memcpy(to->at, from->at, memory->word_count * sizeof to->at[0]);
}

/* Views that values carry live until the run ends. The pool is never moved while pointers into it are about. */
static simt_view *new_view(simt_memory *memory)
{
    if (memory->pool_used == SIMT_MOST_VIEWS) {
        memory->spent = 1;
        memory->pool_used--;
    }
    return &memory->pool[memory->pool_used++];
}

void simt_memory_begin(simt_memory *memory, void *shared, size_t bytes)
{
    if (memory->pool == NULL)
        memory->pool = grow(NULL, SIMT_MOST_VIEWS * sizeof *memory->pool);
    for (uint32_t i = 0; i < memory->changed_count; i++)
        memory->history[memory->changed[i]].count = 0;
    memory->changed_count = 0;
    memory->pool_used = 0;
    memory->spent = 0;
    memory->words = shared;
    memory->word_count = (uint32_t)(bytes / 8);
    memset(&memory->finished, 0, sizeof memory->finished);
}

int64_t simt_memory_word(const simt_memory *memory, const void *at, uint32_t bytes)
{
    uintptr_t offset = (uintptr_t)at - (uintptr_t)memory->words;
    if ((uintptr_t)at < (uintptr_t)memory->words || offset % bytes != 0 || offset / 8 >= memory->word_count)
        return -1;
    return (int64_t)(offset / 8);
}

void simt_memory_lane_begin(simt_memory *memory, simt_memory_lane *lane)
{
    copy_view(memory, &lane->seen, &memory->finished);
    memset(lane->pending.at, 0, memory->word_count * sizeof lane->pending.at[0]);
    lane->released = NULL;
    lane->buffered = 0;
}

void simt_memory_lane_end(simt_memory *memory, simt_memory_lane *lane)
{
    simt_memory_acquire(memory, lane);
    simt_memory_join(memory, &memory->finished, &lane->seen);
}

static simt_history *history_of(simt_memory *memory, uint32_t word)
{
    simt_history *history = &memory->history[word];
    if (history->count == 0) {
        if (history->room == 0) {
            history->room = 16;
            history->values = grow(NULL, history->room * sizeof *history->values);
        }
        history->values[0] = (simt_value){memory->words[word], {NULL, NULL}};
        history->count = 1;
        memory->changed[memory->changed_count++] = word;
    }
    return history;
}

uint32_t simt_memory_choices(const simt_memory *memory, const simt_memory_lane *lane, uint32_t word)
{
    uint32_t count = memory->history[word].count;
    return count == 0 ? 1 : count - lane->seen.at[word];
}

static uint64_t part_mask(simt_part part)
{
    return (part.bytes == 8 ? ~(uint64_t)0 : ((uint64_t)1 << 8 * part.bytes) - 1) << part.shift;
}

static int has_half(simt_part part, uint32_t half)
{
    return part.bytes == 8 || part.shift / 32 == half;
}

static uint64_t overlay(uint64_t whole, const simt_buffered *entry)
{
    if (entry->adds_bits)
        return whole | entry->value << entry->part.shift;
    uint64_t mask = part_mask(entry->part);
    return (whole & ~mask) | (entry->value << entry->part.shift & mask);
}

uint64_t simt_memory_load(simt_memory *memory, simt_memory_lane *lane, simt_part part, uint32_t age)
{
    simt_history *history = history_of(memory, part.word);
    uint32_t position = history->count - 1 - age;
    const simt_value *read = &history->values[position];
    uint64_t value = read->value;
    lane->seen.at[part.word] = (uint16_t)position;
    for (uint32_t half = 0; half < 2; half++)
        if (has_half(part, half) && read->carries[half] != NULL)
            simt_memory_join(memory, &lane->pending, read->carries[half]);
    for (uint32_t i = 0; i < lane->buffered; i++)
        if (lane->buffer[i].part.word == part.word)
            value = overlay(value, &lane->buffer[i]);
    return value;
}

/* Every value becomes visible here. The part gets `carries`. The other half keeps the view that it carries. */
static void append(simt_memory *memory, simt_memory_lane *lane, simt_part part, uint64_t value,
                   const simt_view *carries)
{
    simt_history *history = history_of(memory, part.word);
    if (history->count == SIMT_MOST_VALUES) {
        memory->spent = 1;
        history->count--;
    }
    if (history->count == history->room) {
        history->room *= 2;
        history->values = grow(history->values, history->room * sizeof *history->values);
    }
    const simt_value *before = &history->values[history->count - 1];
    simt_value after = {value, {before->carries[0], before->carries[1]}};
    for (uint32_t half = 0; half < 2; half++)
        if (has_half(part, half))
            after.carries[half] = carries;
    lane->seen.at[part.word] = (uint16_t)history->count;
    history->values[history->count++] = after;
    memory->words[part.word] = value;
}

static void buffer(simt_memory *memory, simt_memory_lane *lane, simt_buffered entry)
{
    if (lane->buffered == SIMT_BUFFER)
        simt_memory_drain(memory, lane, 0);
    lane->buffer[lane->buffered++] = entry;
}

void simt_memory_store(simt_memory *memory, simt_memory_lane *lane, simt_part part, uint64_t value)
{
    buffer(memory, lane, (simt_buffered){part, value, 0, lane->released});
}

void simt_memory_add_bits(simt_memory *memory, simt_memory_lane *lane, simt_part part, uint64_t bits)
{
    buffer(memory, lane, (simt_buffered){part, bits, 1, lane->released});
}

static const simt_view *joined(simt_memory *memory, const simt_view *one, const simt_view *other)
{
    if (one == NULL || other == NULL || one == other)
        return one != NULL ? one : other;
    simt_view *both = new_view(memory);
    copy_view(memory, both, one);
    simt_memory_join(memory, both, other);
    return both;
}

/* What a read-modify-write appends carries on what the value before it carried, with either half that it is about. */
static const simt_view *carried_on(simt_memory *memory, simt_part part, const simt_view *own)
{
    const simt_history *history = history_of(memory, part.word);
    const simt_value *before = &history->values[history->count - 1];
    for (uint32_t half = 0; half < 2; half++)
        if (has_half(part, half))
            own = joined(memory, own, before->carries[half]);
    return own;
}

int simt_memory_may_drain(const simt_memory_lane *lane, uint32_t index)
{
    for (uint32_t i = 0; i < index; i++)
        if (lane->buffer[i].part.word == lane->buffer[index].part.word)
            return 0;
    return 1;
}

uint32_t simt_memory_drain(simt_memory *memory, simt_memory_lane *lane, uint32_t index)
{
    simt_buffered entry = lane->buffer[index];
    lane->buffered--;
    memmove(&lane->buffer[index], &lane->buffer[index + 1], (lane->buffered - index) * sizeof entry);
    const simt_history *history = history_of(memory, entry.part.word);
    append(memory, lane, entry.part, overlay(history->values[history->count - 1].value, &entry),
           entry.adds_bits ? carried_on(memory, entry.part, entry.carries) : entry.carries);
    return entry.part.word;
}

void simt_memory_drain_all(simt_memory *memory, simt_memory_lane *lane)
{
    while (lane->buffered > 0)
        simt_memory_drain(memory, lane, 0);
}

uint64_t simt_memory_newest(simt_memory *memory, simt_memory_lane *lane, simt_part part)
{
    for (uint32_t i = 0; i < lane->buffered;)
        if (lane->buffer[i].part.word == part.word)
            simt_memory_drain(memory, lane, i);
        else
            i++;
    return simt_memory_load(memory, lane, part, 0);
}

void simt_memory_append(simt_memory *memory, simt_memory_lane *lane, simt_part part, uint64_t value)
{
    append(memory, lane, part, value, carried_on(memory, part, lane->released));
}

void simt_memory_release(simt_memory *memory, simt_memory_lane *lane)
{
    simt_memory_drain_all(memory, lane);
    simt_view *view = new_view(memory);
    copy_view(memory, view, &lane->seen);
    lane->released = view;
}

void simt_memory_acquire(simt_memory *memory, simt_memory_lane *lane)
{
    simt_memory_join(memory, &lane->seen, &lane->pending);
}
