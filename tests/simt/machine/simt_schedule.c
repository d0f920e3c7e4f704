#include "simt/machine/simt_schedule.h"

#include "core/hash.h"

uint64_t simt_schedule_number(simt_schedule *schedule)
{
    schedule->state += 0x9e3779b97f4a7c15u;
    return loom__mix64(schedule->state);
}

int simt_schedule_chance(simt_schedule *schedule, uint32_t in_256)
{
    return (simt_schedule_number(schedule) & 255) < in_256;
}

static uint32_t below(simt_schedule *schedule, uint32_t n)
{
    return (uint32_t)((simt_schedule_number(schedule) >> 32) * n >> 32);
}

void simt_schedule_random(simt_schedule *schedule, uint64_t seed)
{
    static const uint8_t stays[] = {0, 128, 224, 250}, stales[] = {0, 64, 128, 192}, drains[] = {4, 32, 128};
    schedule->kind = SIMT_RANDOM;
    schedule->state = seed;
    schedule->stay = stays[below(schedule, sizeof stays)];
    schedule->stale = stales[below(schedule, sizeof stales)];
    schedule->drain = drains[below(schedule, sizeof drains)];
    schedule->lowest = SIMT_MIDDLE_PRIORITY;
    schedule->highest = SIMT_MIDDLE_PRIORITY << 1;
}

void simt_schedule_priority(simt_schedule *schedule, uint64_t seed, uint32_t span)
{
    simt_schedule_random(schedule, seed);
    schedule->kind = SIMT_PRIORITY;
    uint32_t drops = below(schedule, SIMT_MOST_DROPS + 1);
    for (uint32_t i = 0; i < SIMT_MOST_DROPS; i++)
        schedule->drops[i] = i < drops ? 1 + below(schedule, span) : 0;
}

void simt_schedule_exhaustive(simt_schedule *schedule, uint32_t most_detours)
{
    schedule->kind = SIMT_EXHAUSTIVE;
    schedule->state = 0;
    schedule->most_detours = most_detours;
    schedule->detours = 0;
    schedule->length = schedule->at = 0;
}

int simt_schedule_next(simt_schedule *schedule)
{
    while (schedule->length > 0 &&
           schedule->chosen[schedule->length - 1] + 1 == schedule->choices[schedule->length - 1])
        schedule->length--;
    if (schedule->length == 0)
        return 0;
    schedule->chosen[schedule->length - 1]++;
    schedule->at = 0;
    schedule->detours = 0;
    return 1;
}

uint32_t simt_schedule_choose(simt_schedule *schedule, uint32_t n, int detour)
{
    if (n <= 1)
        return 0;
    if (schedule->kind != SIMT_EXHAUSTIVE)
        return below(schedule, n);
    if (detour && schedule->detours == schedule->most_detours)
        return 0;
    if (schedule->at == schedule->length) {
        if (schedule->length == SIMT_LONGEST_PATH)
            return 0; /* the step limit will end the run */
        schedule->chosen[schedule->length] = 0;
        schedule->choices[schedule->length++] = (uint16_t)n;
    }
    uint32_t choice = schedule->chosen[schedule->at++];
    schedule->detours += detour && choice > 0;
    return choice;
}
