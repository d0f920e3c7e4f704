/* A machine: where tables live and bulk work runs. The cpu machine is part of the library; others are modules that
 * supply the same tables of functions. `api` and the engines know machines only through this header.
 *
 * A machine's functions check nothing: the caller has checked the arguments and holds the handle's lock. */
#ifndef LOOM_CORE_MACHINE_H
#define LOOM_CORE_MACHINE_H

#include "core/access.h"
#include "core/key_sketch.h"
#include "core/operations.h"
#include "core/strings.h"
#include "loom/loom.h"

enum {
    /* Changes whenever this header, access.h, batch.h, combine.h, kernels.h, key_sketch.h, operations.h, strings.h,
     * totals.h, an engine's *_layout.h or a header that these include changes: their structs cross between the library
     * and a module. */
    LOOM__MACHINE_INTERFACE = 34
};

typedef struct loom__order loom__order;

typedef struct loom__machine {
    const struct loom__machine_ops *ops;
    loom_allocator allocator;
    uint64_t cache_bytes; /* of the cache that all threads working on a table share; 0: unknown */
} loom__machine;

typedef struct loom__machine_ops {
    uint32_t interface_version; /* LOOM__MACHINE_INTERFACE */
    loom_machine id;
    const char *name;

    /* OK if the machine can be opened here; otherwise NO_MACHINE and a sentence. */
    loom_status (*present)(void);

    /* `config` is complete. The caller has checked it, except for the fields that only the machine can check: device,
     * threads, simd. A config without an allocator gets the machine's own. */
    loom_status (*open)(const loom_context_config *config, loom__machine **machine);
    void (*close)(loom__machine *machine);
    void (*describe)(loom__machine *machine, loom_context_info *info);

    /* The machine's kernels for an engine: a loom__map_kernels, or a loom__filter_kernels for filters. NULL: not
     * offered. */
    const void *(*kernels)(const loom__machine *machine, uint32_t engine);

    /* OK, or UNSUPPORTED and a sentence; called only with values of loom_feature. */
    loom_status (*supports)(loom__machine *machine, loom_feature feature);

    /* OK if `stream` belongs to this machine; otherwise INVALID_ARGUMENT and a sentence. */
    loom_status (*check_stream)(loom__machine *machine, loom_stream stream);

    /* Whether the stream is being captured into a graph; check_stream then fails. NULL on machines without graphs. */
    int (*is_captured)(loom__machine *machine, loom_stream stream);

    /* For machines whose calls may return before their work is done: calls on one table that must not overlap run one
     * after the other, across all streams. All four are NULL on machines where a call has ended when it returns: the
     * handle's lock is enough there. If order_begin fails, order_end is not called. `ended`: the call has waited for
     * its work, so this work and all that order_begin ordered it behind have ended. order_destroy waits for the calls
     * in flight. */
    loom_status (*order_create)(loom__machine *machine, int concurrent_reads, loom__order **order);
    void (*order_destroy)(loom__order *order);
    loom_status (*order_begin)(loom__order *order, loom__access access, loom_stream stream);
    void (*order_end)(loom__order *order, int ended, loom_stream stream);

    /* Waits for everything that runs on the machine, in every stream, users' kernels included. If waiting fails,
     * nothing runs there any more. NULL on machines without users' kernels. */
    void (*drain)(loom__machine *machine);

    /* Copy table memory to the host, from the host, and to other table memory. Table memory lies where the machine
     * works, or in host memory that it reaches (LOOM_MEMORY_PINNED). They wait for the copy. */
    loom_status (*read_table)(loom__machine *machine, void *host, const void *table, size_t bytes, loom_stream stream);
    loom_status (*write_table)(loom__machine *machine, void *table, const void *host, size_t bytes, loom_stream stream);
    loom_status (*copy_table)(loom__machine *machine, void *to, const void *from, size_t bytes, loom_stream stream);

    /* Allocate and free pinned host memory. *memory is set only on success. Both are NULL on machines that work in host
     * memory. */
    loom_status (*pinned_create)(loom__machine *machine, size_t bytes, void **memory);
    void (*pinned_destroy)(loom__machine *machine, void *memory);

    /* Select, take and put rows of arrays by row number. select_rows waits; the others wait unless all arrays are where
     * the machine works.
     *   select_rows  writes to `rows` the numbers of the rows with status `wanted`, ascending, at most `room`. *count
     *                is how many rows have this status
     *   take_rows    to[i] = from[rows[i]]
     *   put_rows     to[rows[i]] = from[i]
     * Row numbers have `number_bytes` bytes, 4 or 8; those of select_rows 8. `status`, the `from` of take_rows and the
     * `to` of put_rows belong to a call and may lie wherever a call's arrays may. The other arrays are table or
     * temporary memory. */
    loom_status (*select_rows)(loom__machine *machine, const uint8_t *status, uint8_t wanted, uint64_t n,
                               uint64_t *rows, uint64_t room, uint64_t *count, loom_stream stream);
    loom_status (*take_rows)(loom__machine *machine, void *to, const void *from, uint32_t width, const void *rows,
                             uint32_t number_bytes, uint64_t count, loom_stream stream);
    loom_status (*put_rows)(loom__machine *machine, void *to, const void *from, uint32_t width, const void *rows,
                            uint32_t number_bytes, uint64_t count, loom_stream stream);

    /* Makes *sketch the sketch of n keys of any width; LOOM_VARIABLE: of n loom__string. The keys may lie wherever a
     * call's arrays may. Waits. */
    loom_status (*sketch_keys)(loom__machine *machine, const void *keys, uint32_t key_bytes, uint64_t n, uint64_t seed,
                               loom__key_sketch *sketch, loom_stream stream);

    /* Runs task(argument, 0 .. tasks - 1) on the host's threads, in any order, and waits. Never fails: without other
     * threads the calling thread runs every task. */
    void (*host_parallel)(loom__machine *machine, uint64_t tasks, void (*task)(void *argument, uint64_t index),
                          void *argument);

    loom_status (*measure_limit)(loom__machine *machine, loom_limit *limit);

    /* hashes[i] = the hash of key i under `seed`: core/hash.h for keys of 4 and 8 bytes, core/hash_bytes.h for others.
     * Both arrays belong to a call and may lie wherever a call's arrays may. Waits. */
    loom_status (*hash_keys)(loom__machine *machine, const void *keys, uint32_t key_bytes, uint64_t n, uint64_t seed,
                             uint64_t *hashes, loom_stream stream);

    /* Byte strings. The three wait.
     *   refer_strings  to[i] = a reference to the string from offsets[i] to offsets[i + 1], where `base` is the address
     *                  of offset 0. `to` may be NULL: then only *told is set
     *   place_strings  places[0 .. n]: where the strings lie one behind the other, from `at` on. *told: core/strings.h
     *   copy_strings   string i goes to to[places[i]]
     * `offsets` and the `to` of copy_strings belong to a call and may lie wherever a call's arrays may. References and
     * places are temporary memory. All strings that are copied lie in a table. */
    loom_status (*refer_strings)(loom__machine *machine, const uint64_t *offsets, uint64_t base, uint64_t n,
                                 uint64_t most, loom__string *to, loom__strings_told *told, loom_stream stream);
    loom_status (*place_strings)(loom__machine *machine, const loom__string *strings, uint64_t n, uint64_t at,
                                 uint64_t room, uint64_t *places, loom__places_told *told, loom_stream stream);
    loom_status (*copy_strings)(loom__machine *machine, const loom__string *strings, uint64_t n, const uint64_t *places,
                                void *to, loom_stream stream);

    /* Whether the machine reads this array of a call where it lies. If not, those of mixed batches and the bytes of
     * strings are copied to temporary memory first. Fails for arrays that no call may have. NULL: it reads all memory,
     * and temporary memory is host memory. */
    loom_status (*reaches)(loom__machine *machine, const char *name, const void *array, int *reached);

    /* Batches of operations (core/operations.h), of fewer than 2^32 rows.
     *   count_operations counts[k]: how many rows are of kind k. `counts` may be NULL: then the call does not wait.
     *                    `places`, if not NULL, is made as loom__kind_order needs it
     *   move_by_kind     brings the elements of 1 to LOOM__KIND_COLUMNS columns into the order of their kinds; with
     *                    `put` from there back to where they were. A column may overwrite `operations`. All places
     *                    are below 2^32. Does not wait
     *   sort_hashes      sorts n hashes, and writes to `rows` the numbers of their rows, ascending where hashes are
     *                    equal
     *   group_rows       numbers the keys of rows that are sorted by hash: groups[i] for the row at place i. firsts[g]:
     *                    the first row of key g. *distinct: how many there are. *collide: rows with equal hashes have
     *                    different keys; all else is undefined then
     *   run_sequences    answers all rows, and finds what is left to do. counts[s]: rows with status s
     * The last three wait. `operations` of count_operations may lie wherever a call's arrays may; counts, distinct and
     * collide are on the host. All other arrays lie where the machine works. */
    loom_status (*count_operations)(loom__machine *machine, const uint8_t *operations, uint64_t n, uint32_t *places,
                                    uint64_t counts[LOOM__KINDS], loom_stream stream);
    loom_status (*move_by_kind)(loom__machine *machine, const loom__kind_order *order, const loom__kind_column *columns,
                                uint32_t count, int put, loom_stream stream);
    loom_status (*sort_hashes)(loom__machine *machine, uint64_t *hashes, uint64_t n, uint32_t *rows,
                               loom_stream stream);
    loom_status (*group_rows)(loom__machine *machine, const uint64_t *hashes, const uint32_t *rows, const void *keys,
                              uint32_t key_bytes, uint64_t n, uint32_t *groups, uint32_t *firsts, uint64_t *distinct,
                              int *collide, loom_stream stream);
    loom_status (*run_sequences)(loom__machine *machine, const loom__sequences *all,
                                 uint64_t counts[LOOM__APPLIED_STATUSES], loom_stream stream);
} loom__machine_ops;

extern const loom__machine_ops loom__cpu_machine;

/* ---- Modules: machines that are loaded at run time ---- */

/* What the library lends to a module. A module links with nothing of the library. */
typedef struct loom__services {
    loom_status (*fail)(loom_status status, const char *format, ...);
    const loom__machine_ops *cpu;
} loom__services;

typedef struct loom__module {
    uint32_t interface_version; /* LOOM__MACHINE_INTERFACE; the library refuses any other before it calls `attach` */
    uint32_t library_version;   /* LOOM_VERSION when the module was built */
    const loom__machine_ops *(*attach)(const loom__services *services);
} loom__module;

/* The only symbol that a module exports, and its type. */
#define LOOM__MODULE_SYMBOL "loom__module_entry"
typedef const loom__module *loom__module_entry(void);

#endif
