#include "cuckoo_reference.h"

#include "bench_array.h"
#include "bench_keys.h"
#include "bench_threads.h"

#include <stdatomic.h>
#include <stdlib.h>

enum { FUNCTIONS = 4, IN_FLIGHT = 16, LEAST_ROWS = 4096 };

/* 8 + 8 bytes. While a thread swaps the pair, `key` is the table's `busy` key: a lock of the slot. */
typedef struct wide_slot {
    _Atomic uint64_t key;
    uint64_t value;
} wide_slot;

struct cuckoo_table {
    union {
        void *slots;
        _Atomic uint64_t *narrow; /* 4 + 4 bytes: the key in the upper half */
        wide_slot *wide;
    };
    uint64_t slot_count;
    uint64_t empty, busy; /* keys that no pair has */
    uint32_t threads;
    bool is_wide;
};

typedef struct cuckoo_pair {
    uint64_t key, value;
} cuckoo_pair;

/* ---- Slots ---------------------------------------------------------------------------------------------- */

/* The slot of a key by one of its functions. */
static uint64_t slot_of(const cuckoo_table *table, uint64_t key, uint32_t function)
{
    const uint64_t hash = bench_mix64(key + (function + 1) * UINT64_C(0x9e3779b97f4a7c15));
    return (hash >> 32) * table->slot_count >> 32;
}

/* The slot where a pair goes that was evicted from `at`: that of the function after the one that brought it there. */
static uint64_t next_slot(const cuckoo_table *table, uint64_t key, uint64_t at)
{
    uint32_t function = 0;
    while (function + 1 < FUNCTIONS && slot_of(table, key, function) != at)
        function++;
    return slot_of(table, key, (function + 1) % FUNCTIONS);
}

static void prefetch(const cuckoo_table *table, uint64_t at)
{
    __builtin_prefetch(table->is_wide ? (const void *)&table->wide[at] : (const void *)&table->narrow[at]);
}

static cuckoo_pair read_slot(const cuckoo_table *table, uint64_t at)
{
    if (table->is_wide)
        return (cuckoo_pair){atomic_load_explicit(&table->wide[at].key, memory_order_relaxed), table->wide[at].value};
    const uint64_t word = atomic_load_explicit(&table->narrow[at], memory_order_relaxed);
    return (cuckoo_pair){word >> 32, word & UINT32_MAX};
}

static void write_key(cuckoo_table *table, uint64_t at, uint64_t key)
{
    if (table->is_wide)
        atomic_store_explicit(&table->wide[at].key, key, memory_order_release);
    else
        atomic_store_explicit(&table->narrow[at], key << 32, memory_order_relaxed);
}

static cuckoo_pair swap_slot(cuckoo_table *table, uint64_t at, cuckoo_pair in)
{
    if (!table->is_wide) {
        const uint64_t word =
            atomic_exchange_explicit(&table->narrow[at], in.key << 32 | in.value, memory_order_relaxed);
        return (cuckoo_pair){word >> 32, word & UINT32_MAX};
    }
    wide_slot *slot = &table->wide[at];
    cuckoo_pair out;
    do { /* ends: a thread that found another key stores one at once */
        out.key = atomic_exchange_explicit(&slot->key, table->busy, memory_order_acquire);
    } while (out.key == table->busy);
    out.value = slot->value;
    slot->value = in.value;
    write_key(table, at, in.key);
    return out;
}

/* ---- Batches, one thread ----------------------------------------------------------------------------------- */

typedef struct cuckoo_work {
    cuckoo_table *table;
    const cuckoo_batch *batch;
    const void *values;
    void *found;
    uint8_t *status;
    _Atomic uint64_t lost;
} cuckoo_work;

/* A key in flight. */
typedef struct flight {
    cuckoo_pair pair; /* insertions: the one in hand; otherwise its key alone */
    uint64_t at;      /* the slot that is prefetched */
    uint64_t row;     /* lookups and erasures */
    uint32_t tries;   /* slots that were looked at */
} flight;

/* Takes the next row that is the batch's. False: there is none before `end`. */
static bool take_row(const cuckoo_work *work, uint64_t *next, uint64_t end, flight *taken)
{
    const cuckoo_batch *batch = work->batch;
    const uint32_t width = work->table->is_wide ? 8 : 4;
    while (*next < end && batch->operations && batch->operations[*next] != batch->only)
        ++*next;
    if (*next == end)
        return false;
    taken->row = (*next)++;
    taken->pair.key = bench_get(batch->keys, taken->row, width);
    taken->pair.value = work->values ? bench_get(work->values, taken->row, width) : 0;
    taken->tries = 0;
    taken->at = slot_of(work->table, taken->pair.key, 0);
    prefetch(work->table, taken->at);
    return true;
}

/* One step for a key in flight. False: it is done. */
typedef bool (*step_function)(cuckoo_work *work, flight *key);

/* Gives the keys in flight a step each, and takes a new one where one is done, until all rows are. */
static inline void run_rows(cuckoo_work *work, uint64_t begin, uint64_t end, step_function step)
{
    flight keys[IN_FLIGHT];
    uint32_t count = 0;
    do { /* ends: every step is one of at most CUCKOO_MOST_MOVES of its key */
        uint32_t left = 0;
        while (count < IN_FLIGHT && take_row(work, &begin, end, &keys[count]))
            count++;
        for (uint32_t i = 0; i < count; i++) {
            flight key = keys[i];
            if (step(work, &key))
                keys[left++] = key;
        }
        count = left;
    } while (count > 0 || begin < end);
}

static inline bool step_insert(cuckoo_work *work, flight *key)
{
    cuckoo_table *table = work->table;
    key->pair = swap_slot(table, key->at, key->pair);
    if (key->pair.key == table->empty)
        return false;
    if (++key->tries == CUCKOO_MOST_MOVES) {
        atomic_fetch_add(&work->lost, 1);
        return false;
    }
    key->at = next_slot(table, key->pair.key, key->at);
    prefetch(table, key->at);
    return true;
}

/* Whether the key's search goes on, in another slot. */
static inline bool search_on(const cuckoo_table *table, flight *key)
{
    if (++key->tries == FUNCTIONS)
        return false;
    key->at = slot_of(table, key->pair.key, key->tries);
    prefetch(table, key->at);
    return true;
}

static inline bool step_find(cuckoo_work *work, flight *key)
{
    const cuckoo_pair pair = read_slot(work->table, key->at);
    const bool found = pair.key == key->pair.key;
    if (!found && search_on(work->table, key))
        return true;
    bench_put(work->found, key->row, work->table->is_wide ? 8 : 4, found ? pair.value : 0);
    return false;
}

static inline bool step_erase(cuckoo_work *work, flight *key)
{
    const bool found = read_slot(work->table, key->at).key == key->pair.key;
    if (!found && search_on(work->table, key))
        return true;
    if (found)
        write_key(work->table, key->at, work->table->empty);
    work->status[key->row] = found ? LOOM_OK : LOOM_NOT_FOUND;
    return false;
}

static void insert_rows(void *work, uint64_t begin, uint64_t end)
{
    run_rows(work, begin, end, step_insert);
}

static void find_rows(void *work, uint64_t begin, uint64_t end)
{
    run_rows(work, begin, end, step_find);
}

static void erase_rows(void *work, uint64_t begin, uint64_t end)
{
    run_rows(work, begin, end, step_erase);
}

/* ---- Calls ---------------------------------------------------------------------------------------------- */

/* The same number of rows for each thread, unless they are so few that starting one takes longer. */
static void run_batch(cuckoo_work *work, bench_range_function rows)
{
    const uint64_t n = work->batch->n, share = n / work->table->threads + 1;
    bench_in_parallel(n, share < LEAST_ROWS ? LEAST_ROWS : share, rows, work);
}

uint64_t cuckoo_insert(cuckoo_table *table, const cuckoo_batch *batch, const void *values)
{
    cuckoo_work work = {.table = table, .batch = batch, .values = values};
    run_batch(&work, insert_rows);
    return work.lost;
}

void cuckoo_find(cuckoo_table *table, const cuckoo_batch *batch, void *found)
{
    cuckoo_work work = {.table = table, .batch = batch, .found = found};
    run_batch(&work, find_rows);
}

void cuckoo_erase(cuckoo_table *table, const cuckoo_batch *batch, uint8_t *status)
{
    cuckoo_work work = {.table = table, .batch = batch, .status = status};
    run_batch(&work, erase_rows);
}

bool cuckoo_has(uint32_t key_bytes, uint32_t value_bytes)
{
    return key_bytes == value_bytes && (key_bytes == 4 || key_bytes == 8);
}

cuckoo_table *cuckoo_new(uint32_t key_bytes, uint32_t value_bytes, uint64_t slots, const uint64_t unused[2],
                         uint32_t threads)
{
    cuckoo_table *table =
        cuckoo_has(key_bytes, value_bytes) && slots >= 1 && slots <= UINT64_C(1) << 32 ? malloc(sizeof *table) : NULL;
    if (!table)
        return NULL;
    *table = (cuckoo_table){.slots = bench_array_new(slots, 2 * key_bytes),
                            .slot_count = slots,
                            .empty = unused[0],
                            .busy = unused[1],
                            .threads = threads > 0 ? threads : 1,
                            .is_wide = key_bytes == 8};
    if (!table->slots) {
        free(table);
        return NULL;
    }
    cuckoo_clear(table);
    return table;
}

void cuckoo_free(cuckoo_table *table)
{
    if (table)
        bench_array_free(table->slots);
    free(table);
}

static void clear_slots(void *work, uint64_t begin, uint64_t end)
{
    for (uint64_t at = begin; at < end; at++)
        write_key(work, at, ((cuckoo_table *)work)->empty);
}

void cuckoo_clear(cuckoo_table *table)
{
    bench_in_parallel(table->slot_count, BENCH_GRAIN, clear_slots, table);
}

uint64_t cuckoo_size(const cuckoo_table *table)
{
    uint64_t size = 0;
    for (uint64_t at = 0; at < table->slot_count; at++)
        size += read_slot(table, at).key != table->empty;
    return size;
}
