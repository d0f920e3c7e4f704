/* A disk in memory that keeps what was synced apart from what was only written. After a power failure any part of the
 * latter may be there or not, in sectors of 512 bytes, in any order: it loses, tears and reorders writes. */
#ifndef LOOM_TESTS_MODEL_DISK_H
#define LOOM_TESTS_MODEL_DISK_H

#include "durable/disk.h"

typedef struct model_disk model_disk;

/* What this disk does wrong: a durable map on it must lose something. */
typedef enum model_fault {
    MODEL_SOUND = 0,
    MODEL_JOURNAL_SYNC_DOES_NOTHING = 1,
    MODEL_SNAPSHOT_SYNC_DOES_NOTHING = 2, /* as if the rename came before the sync */
    MODEL_NAMES_SYNC_DOES_NOTHING = 4
} model_fault;

/* What of the unsynced writes survives. */
typedef enum model_survival {
    MODEL_NONE,    /* nothing */
    MODEL_ALL,     /* all of it */
    MODEL_ANY,     /* each sector by chance, each rename up to a point by chance */
    MODEL_ALL_BUT, /* all but one sector */
    MODEL_ONLY,    /* one sector */
    MODEL_SURVIVALS
} model_survival;

model_disk *model_create(void);
void model_destroy(model_disk *model);
model_disk *model_copy(const model_disk *model);

/* The interface of the library to it. `destroy` of that interface leaves the model as it is. */
loom__disk *model_interface(model_disk *model);

void model_set_faults(model_disk *model, unsigned faults);

/* Operations that change the disk, syncs included. After `most` of them every further one fails, as if the process had
 * been killed. 0: no limit. */
void model_stop_after(model_disk *model, uint64_t most);
void model_stop(model_disk *model); /* before the next one */

/* Operation number `at` fails, and the disk goes on. If it is a sync, what it should have synced is never written:
 * later syncs do not know of it. 0: none fails. Counts as model_stop_after does, from now on. */
void model_fail_at(model_disk *model, uint64_t at);
uint64_t model_operations(const model_disk *model); /* so far */

/* The power fails: what was not synced is gone, or not. *random is a state of a generator. Nothing is unsynced
 * afterwards. */
void model_power_failure(model_disk *model, model_survival survival, uint64_t *random);

/* The next number of a generator, below `below`. */
uint64_t model_draw(uint64_t *random, uint64_t below);

/* The contents of a file as a process sees them; NULL: there is none. */
unsigned char *model_contents(model_disk *model, const char *name, uint64_t *bytes);

#endif
