/* A cuckoo hash table with four functions, to compare tables with: the design that the paper on Stadium Hashing compares
 * itself with (Alcantara, Volkov, Sengupta, Mitzenmacher, Owens, Amenta, "Building an Efficient Hash Table on the GPU",
 * GPU Computing Gems Jade Edition, 2011), on host threads.
 *
 *   - A pair lies in one of four slots, one for each function. An insertion swaps its pair with what its slot holds, and
 *     goes on with the evicted pair, in the slot of the next function, until it gets an empty slot.
 *   - A lookup reads the slots one after the other until it finds its key: up to four, and four for an absent key.
 *   - There are no filter bits, no tickets and no growth. Keys of a batch must be different, and absent if they are
 *     inserted: equal keys are stored twice.
 *   - Calls use several threads, but only one call runs at a time: an evicted pair is in nobody's slot until it is stored
 *     again, so lookups beside insertions would miss it. A mixed batch takes one pass for each kind of operation.
 *   - Each thread keeps sixteen keys in flight and prefetches their slots, as the library's own lookups do. Without that
 *     the comparison would be one of memory latencies. */
#ifndef CUCKOO_REFERENCE_H
#define CUCKOO_REFERENCE_H

#include <loom/loom.h>
#include <stdbool.h>
#include <stdint.h>

typedef struct cuckoo_table cuckoo_table;

/* Creates an empty table. NULL: no memory, or a form that it does not have (cuckoo_has).
 *   slots     1 to 2^32
 *   unused    two keys that no call has
 *   threads   most threads of a call */
cuckoo_table *cuckoo_new(uint32_t key_bytes, uint32_t value_bytes, uint64_t slots, const uint64_t unused[2],
                         uint32_t threads);
void cuckoo_free(cuckoo_table *table); /* NULL is fine */

/* Pairs of 4 + 4 bytes, which lie in one word and are swapped by one exchange, and of 8 + 8. */
bool cuckoo_has(uint32_t key_bytes, uint32_t value_bytes);

void cuckoo_clear(cuckoo_table *table);
uint64_t cuckoo_size(const cuckoo_table *table); /* counts the pairs */

/* The rows of a batch whose operation is `only`; all rows if `operations` is NULL. */
typedef struct cuckoo_batch {
    const uint8_t *operations; /* [n], or NULL */
    uint8_t only;
    const void *keys; /* [n] */
    uint64_t n;
} cuckoo_batch;

/* Returns how many pairs found no place after CUCKOO_MOST_MOVES evictions. They are lost, and may be others than those
 * of the batch: the table is of no use any more. */
uint64_t cuckoo_insert(cuckoo_table *table, const cuckoo_batch *batch, const void *values);

/* Writes the value of each key, 0 if it is absent. */
void cuckoo_find(cuckoo_table *table, const cuckoo_batch *batch, void *found);

/* Writes LOOM_OK or LOOM_NOT_FOUND for each key. */
void cuckoo_erase(cuckoo_table *table, const cuckoo_batch *batch, uint8_t *status);

/* Far beyond what a table of any load that it can hold needs. */
enum { CUCKOO_MOST_MOVES = 10000 };

#endif
