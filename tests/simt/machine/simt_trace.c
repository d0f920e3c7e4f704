/* What a failed run looked like, for people. */
#include "simt/machine/simt.h"

#include <string.h>

static const char *const op_names[] = {
    [SIMT_START] = "starts",  [SIMT_LOAD] = "load",       [SIMT_STORE] = "store",       [SIMT_DRAIN] = "  (visible)",
    [SIMT_SWAP] = "swap",     [SIMT_OR] = "or",           [SIMT_FETCH_OR] = "fetch or", [SIMT_AND] = "and",
    [SIMT_ADD] = "add",       [SIMT_COMBINE] = "combine", [SIMT_RELEASE] = "release",   [SIMT_ACQUIRE] = "acquire",
    [SIMT_BALLOT] = "ballot", [SIMT_SHUFFLE] = "shuffle", [SIMT_SYNC] = "sync",         [SIMT_BARRIER] = "barrier",
    [SIMT_END] = "ends",
};

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash != NULL ? slash + 1 : path;
}

static void print_place(FILE *out, const simt_site *site)
{
    if (site != NULL)
        fprintf(out, "  %s:%d %s", base_name(site->file), site->line, site->function);
}

static void print_who(FILE *out, const simt_call *call, uint32_t lane, uint32_t item)
{
    char who[64];
    if (item != UINT32_MAX)
        snprintf(who, sizeof who, "%s[%u].%u", call->name, item, lane % simt.config.group_lanes);
    else
        snprintf(who, sizeof who, "%s lane %u", call->name, lane);
    fprintf(out, "%-22s", who);
}

static void print_event(FILE *out, const simt_event *event)
{
    char name[80] = "";
    fprintf(out, "%6llu  ", (unsigned long long)event->step);
    print_who(out, event->call, event->lane, event->item);
    fprintf(out, " %-11s", op_names[event->op]);
    if (event->word >= 0) {
        const uint64_t *at = simt.memory.words + event->word;
        if (simt.name_word != NULL)
            simt.name_word(at, name, sizeof name);
        else
            snprintf(name, sizeof name, "word %lld", (long long)event->word);
        fprintf(out, " %-26s %#llx", name, (unsigned long long)event->value);
        if (event->op == SIMT_SWAP)
            fprintf(out, event->stale ? " (fails)" : " -> %#llx", (unsigned long long)event->wanted);
        else if (event->op == SIMT_FETCH_OR || event->op == SIMT_AND || event->op == SIMT_ADD ||
                 event->op == SIMT_COMBINE)
            fprintf(out, " -> %#llx", (unsigned long long)event->wanted);
        else if (event->stale)
            fprintf(out, " (an old value)");
    } else if (event->op == SIMT_BALLOT) {
        fprintf(out, " %08x", (unsigned)event->value);
    }
    print_place(out, event->site);
    fprintf(out, "\n");
}

static int matters(uint64_t step)
{
    return simt.matters == NULL || simt.matters(&simt.trace[step % SIMT_TRACE]);
}

void simt_print(FILE *out, uint32_t steps)
{
    uint64_t remembered = simt.traced < SIMT_TRACE ? simt.traced : SIMT_TRACE, first = simt.traced, found = 0;
    while (first > simt.traced - remembered && found < steps)
        found += (uint64_t)matters(--first);
    fprintf(out, "  the last %llu steps%s:\n", (unsigned long long)found, simt.matters != NULL ? " that matter" : "");
    for (; first < simt.traced; first++)
        if (matters(first))
            print_event(out, &simt.trace[first % SIMT_TRACE]);
    int shown = 0;
    for (uint32_t i = 0; i < simt.used_lanes; i++) {
        const simt_lane *lane = &simt.lanes[i];
        if (lane->state == SIMT_ENDED || lane->item == UINT32_MAX)
            continue;
        if (!shown++)
            fprintf(out, "  lanes that have not ended:\n");
        fprintf(out, "        ");
        print_who(out, lane->call, lane->index, lane->item);
        fprintf(out, " %s %s", lane->state == SIMT_WAITING ? "waits at" : "stands before", op_names[lane->op]);
        print_place(out, lane->site);
        if (lane->memory.buffered > 0)
            fprintf(out, "  (%u stores not visible yet)", lane->memory.buffered);
        fprintf(out, "\n");
    }
}
