#include "durable/model_disk.h"
#include "core/error.h"

#include <stdlib.h>
#include <string.h>

enum { SECTOR = 512, MOST_INODES = 64, MOST_NAMES = 4, MOST_RENAMES = 64, NAME_ROOM = 32 };

/* A write that is not synced yet, or a truncation if `data` is NULL. */
typedef struct unsynced {
    unsigned char *data;
    uint64_t offset, bytes;
    struct unsynced *next;
} unsynced;

typedef struct inode {
    unsigned char *synced, *seen; /* what survives, and what processes see */
    uint64_t synced_bytes, seen_bytes;
    unsynced *first, *last;
} inode;

/* What the names stand for. */
typedef struct directory {
    char names[MOST_NAMES][NAME_ROOM];
    int inodes[MOST_NAMES];
    int count;
} directory;

struct model_disk {
    loom__disk disk; /* first: the interface points to it */
    inode inodes[MOST_INODES];
    int inode_count;
    /* states[0] is what survives; each of the following is what one more creation or rename made of it. */
    directory states[MOST_RENAMES];
    int state_count;
    unsigned faults;
    uint64_t operations, most, fails_at;
};

typedef struct model_file {
    loom__disk_file file;
    int inode;
} model_file;

static model_disk *model_of(loom__disk *disk)
{
    return (model_disk *)disk;
}

static inode *inode_of(loom__disk_file *file)
{
    return &model_of(file->disk)->inodes[((model_file *)file)->inode];
}

static directory *seen_names(model_disk *model)
{
    return &model->states[model->state_count - 1];
}

static void *copy_of(const void *data, uint64_t bytes)
{
    unsigned char *copy = malloc(bytes > 0 ? bytes : 1);
    if (copy == NULL)
        abort();
    if (bytes > 0)
        memcpy(copy, data, bytes);
    return copy;
}

/* ---- operations ---- */

/* Counts an operation. Behind the last one the process is dead, and nothing reaches the disk. */
static loom_status count_operation(model_disk *model)
{
    RETURN_ERROR_IF(model->most > 0 && model->operations >= model->most, LOOM_IO, "the model disk was stopped");
    RETURN_ERROR_IF(++model->operations == model->fails_at, LOOM_IO, "the model disk failed once");
    return LOOM_OK;
}

static int find_name(const directory *names, const char *name)
{
    for (int i = 0; i < names->count; i++)
        if (strcmp(names->names[i], name) == 0)
            return i;
    return -1;
}

/* Begins a state of the names that is not synced. */
static directory *change_names(model_disk *model)
{
    if (model->state_count == MOST_RENAMES) /* more than tests make: the oldest change counts as synced */
        memmove(model->states, model->states + 1, (size_t)--model->state_count * sizeof *model->states);
    model->states[model->state_count] = *seen_names(model);
    model->state_count++;
    return seen_names(model);
}

static void set_name(directory *names, const char *name, int number)
{
    int at = find_name(names, name);
    if (at < 0) {
        at = names->count++;
        if (at >= MOST_NAMES)
            abort();
        strcpy(names->names[at], name);
    }
    names->inodes[at] = number;
}

static loom_status model_open(loom__disk *disk, const char *name, int create, loom__disk_file **file)
{
    model_disk *model = model_of(disk);
    int at = find_name(seen_names(model), name);
    if (at < 0 && !create)
        return LOOM_NOT_FOUND;
    if (at < 0) {
        RETURN_IF_FAILED(count_operation(model));
        if (model->inode_count == MOST_INODES)
            abort();
        set_name(change_names(model), name, model->inode_count++);
        at = find_name(seen_names(model), name);
    }
    const model_file made = {{disk, name}, seen_names(model)->inodes[at]};
    *file = copy_of(&made, sizeof made);
    return LOOM_OK;
}

static void model_close(loom__disk_file *file)
{
    free(file);
}

static loom_status model_size(loom__disk_file *file, uint64_t *bytes)
{
    *bytes = inode_of(file)->seen_bytes;
    return LOOM_OK;
}

static loom_status model_read(loom__disk_file *file, void *data, uint64_t bytes, uint64_t offset)
{
    const inode *of = inode_of(file);
    RETURN_ERROR_IF(offset + bytes > of->seen_bytes, LOOM_BAD_FILE, "%s of the model disk is too short", file->name);
    memcpy(data, of->seen + offset, bytes);
    return LOOM_OK;
}

static void write_to(unsigned char **contents, uint64_t *length, const void *data, uint64_t bytes, uint64_t offset)
{
    if (offset + bytes > *length) {
        unsigned char *longer = calloc(1, offset + bytes);
        if (longer == NULL)
            abort();
        if (*length > 0)
            memcpy(longer, *contents, *length);
        free(*contents);
        *contents = longer;
        *length = offset + bytes;
    }
    memcpy(*contents + offset, data, bytes);
}

static void note_unsynced(inode *of, const void *data, uint64_t bytes, uint64_t offset)
{
    const unsynced write = {data != NULL ? copy_of(data, bytes) : NULL, offset, bytes, NULL};
    unsynced *made = copy_of(&write, sizeof write);
    if (of->last != NULL)
        of->last->next = made;
    else
        of->first = made;
    of->last = made;
}

static void forget_unsynced(inode *of)
{
    for (unsynced *write = of->first, *next; write != NULL; write = next) {
        next = write->next;
        free(write->data);
        free(write);
    }
    of->first = of->last = NULL;
}

static loom_status model_write(loom__disk_file *file, const void *data, uint64_t bytes, uint64_t offset)
{
    inode *of = inode_of(file);
    RETURN_IF_FAILED(count_operation(model_of(file->disk)));
    write_to(&of->seen, &of->seen_bytes, data, bytes, offset);
    note_unsynced(of, data, bytes, offset);
    return LOOM_OK;
}

static loom_status model_truncate(loom__disk_file *file, uint64_t bytes)
{
    inode *of = inode_of(file);
    RETURN_IF_FAILED(count_operation(model_of(file->disk)));
    if (bytes < of->seen_bytes)
        of->seen_bytes = bytes;
    note_unsynced(of, NULL, 0, bytes);
    return LOOM_OK;
}

/* Brings a write to what survives, or a part of it. */
static void keep(inode *of, const unsynced *write, uint64_t at, uint64_t bytes)
{
    if (write->data != NULL)
        write_to(&of->synced, &of->synced_bytes, write->data + at, bytes, write->offset + at);
    else if (write->offset < of->synced_bytes)
        of->synced_bytes = write->offset;
}

static void keep_all(inode *of)
{
    for (const unsynced *write = of->first; write != NULL; write = write->next)
        keep(of, write, 0, write->bytes);
    forget_unsynced(of);
}

static loom_status model_sync(loom__disk_file *file)
{
    model_disk *model = model_of(file->disk);
    const unsigned fault =
        strcmp(file->name, "journal") == 0 ? MODEL_JOURNAL_SYNC_DOES_NOTHING : MODEL_SNAPSHOT_SYNC_DOES_NOTHING;
    const loom_status status = count_operation(model);
    if (status != LOOM_OK && model->operations == model->fails_at)
        forget_unsynced(inode_of(file));
    else if (status == LOOM_OK && !(model->faults & fault))
        keep_all(inode_of(file));
    return status;
}

static loom_status model_rename(loom__disk *disk, const char *from, const char *to)
{
    model_disk *model = model_of(disk);
    RETURN_IF_FAILED(count_operation(model));
    directory *names = change_names(model);
    const int at = find_name(names, from), number = names->inodes[at];
    names->count--;
    names->inodes[at] = names->inodes[names->count];
    memmove(names->names[at], names->names[names->count], NAME_ROOM);
    set_name(names, to, number);
    return LOOM_OK;
}

static void keep_names(model_disk *model, int state)
{
    model->states[0] = model->states[state];
    model->state_count = 1;
}

static loom_status model_sync_names(loom__disk *disk)
{
    model_disk *model = model_of(disk);
    RETURN_IF_FAILED(count_operation(model));
    if (!(model->faults & MODEL_NAMES_SYNC_DOES_NOTHING))
        keep_names(model, model->state_count - 1);
    return LOOM_OK;
}

static void model_leave(loom__disk *disk)
{
    (void)disk;
}

static const loom__disk_ops model_ops = {
    .open = model_open,
    .close = model_close,
    .size = model_size,
    .read = model_read,
    .write = model_write,
    .truncate = model_truncate,
    .sync = model_sync,
    .rename = model_rename,
    .sync_names = model_sync_names,
    .destroy = model_leave,
};

/* ---- the model ---- */

model_disk *model_create(void)
{
    model_disk *model = calloc(1, sizeof *model);
    if (model == NULL)
        abort();
    model->disk = (loom__disk){&model_ops, "model"};
    model->state_count = 1;
    return model;
}

void model_destroy(model_disk *model)
{
    for (int i = 0; i < model->inode_count; i++) {
        forget_unsynced(&model->inodes[i]);
        free(model->inodes[i].synced);
        free(model->inodes[i].seen);
    }
    free(model);
}

model_disk *model_copy(const model_disk *model)
{
    model_disk *copy = copy_of(model, sizeof *model);
    for (int i = 0; i < copy->inode_count; i++) {
        const inode *from = &model->inodes[i];
        inode *to = &copy->inodes[i];
        to->synced = copy_of(from->synced, from->synced_bytes);
        to->seen = copy_of(from->seen, from->seen_bytes);
        to->first = to->last = NULL;
        for (const unsynced *write = from->first; write != NULL; write = write->next)
            note_unsynced(to, write->data, write->bytes, write->offset);
    }
    return copy;
}

loom__disk *model_interface(model_disk *model)
{
    return &model->disk;
}

void model_set_faults(model_disk *model, unsigned faults)
{
    model->faults = faults;
}

void model_stop_after(model_disk *model, uint64_t most)
{
    model->most = most;
    model->operations = 0;
}

void model_fail_at(model_disk *model, uint64_t at)
{
    model->operations = model->most = 0;
    model->fails_at = at;
}

void model_stop(model_disk *model)
{
    model->most = model->operations = 1;
}

uint64_t model_operations(const model_disk *model)
{
    return model->operations;
}

unsigned char *model_contents(model_disk *model, const char *name, uint64_t *bytes)
{
    const int at = find_name(seen_names(model), name);
    if (at < 0)
        return NULL;
    inode *of = &model->inodes[seen_names(model)->inodes[at]];
    *bytes = of->seen_bytes;
    return of->seen;
}

/* ---- power failures ---- */

/* SplitMix64. */
uint64_t model_draw(uint64_t *random, uint64_t below)
{
    uint64_t x = *random += 0x9e3779b97f4a7c15u;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return (x ^ (x >> 31)) % below;
}

static uint64_t sectors_of(const unsynced *write)
{
    return write->data == NULL ? 1 : (write->bytes + SECTOR - 1) / SECTOR;
}

/* Of all unsynced sectors of the disk, number `chosen` is the one that MODEL_ALL_BUT and MODEL_ONLY are about. */
typedef struct fate {
    model_survival survival;
    uint64_t chosen, seen;
    uint64_t *random;
} fate;

static int survives(fate *of)
{
    const uint64_t number = of->seen++;
    switch (of->survival) {
    case MODEL_NONE:
        return 0;
    case MODEL_ALL:
        return 1;
    case MODEL_ALL_BUT:
        return number != of->chosen;
    case MODEL_ONLY:
        return number == of->chosen;
    default:
        return model_draw(of->random, 2) == 0;
    }
}

/* Writes the sectors that survive. All offsets are multiples of a sector. */
static void strike_inode(inode *of, fate *all)
{
    for (const unsynced *write = of->first; write != NULL; write = write->next) {
        if (write->data == NULL && survives(all))
            keep(of, write, 0, 0);
        for (uint64_t at = 0; at < write->bytes; at += SECTOR) {
            const uint64_t left = write->bytes - at;
            if (survives(all))
                keep(of, write, at, left < SECTOR ? left : SECTOR);
        }
    }
    forget_unsynced(of);
    free(of->seen);
    of->seen = copy_of(of->synced, of->synced_bytes);
    of->seen_bytes = of->synced_bytes;
}

void model_power_failure(model_disk *model, model_survival survival, uint64_t *random)
{
    uint64_t sectors = 0;
    for (int i = 0; i < model->inode_count; i++)
        for (const unsynced *write = model->inodes[i].first; write != NULL; write = write->next)
            sectors += sectors_of(write);
    fate all = {survival, sectors > 0 ? model_draw(random, sectors) : 0, 0, random};
    for (int i = 0; i < model->inode_count; i++)
        strike_inode(&model->inodes[i], &all);
    const int last = model->state_count - 1;
    keep_names(model, survival == MODEL_NONE  ? 0
                      : survival == MODEL_ALL ? last
                                              : (int)model_draw(random, (uint64_t)last + 1));
    model->most = model->fails_at = 0;
}
