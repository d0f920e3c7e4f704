/* The cuda machine: declarations that its files share.
 *
 *   cuda_lanes.cuh       the lane primitives
 *   cuda_tile.cuh        moves keys and answers of one warp between its shared memory and the batch
 *   cuda_items.cuh       widths and tiles of bulk calls on tables
 *   cuda_item_queue.cuh  gives the items of a tile to groups of lanes
 *   cuda_merge.cuh       merges equal keys of a thread block
 *   cuda_finish.cuh      turns a call's counts into its result
 *   cuda_outcomes.cuh    counts the outcomes of a thread block's keys
 *   cuda_open_lanes.cuh  kernels of the open engine, for one width of lane groups; compiled by cuda_open_{1,2,4,8}.cu
 *   cuda_call.cuh        the arrays of bulk calls; host arrays pass in overlapping chunks; cuda_call.cu
 *   cuda_map_call.cuh    the steps of bulk calls on tables that engines share; cuda_map_call.cu
 *   cuda_together.cu     lookups that are waited for; several threads share a launch
 *   cuda_open.cu         bulk calls of the open engine: launches kernels, writes results
 *   cuda_split.cuh       scatters records into regions
 *   cuda_split_passes.cuh  splits batches in one pass or two: memory, kernels
 *   cuda_bulk.cuh        records on their way into a table by partition; cuda_bulk.cu
 *   cuda_partition.cuh   one partition in shared memory
 *   cuda_open_bulk.cuh   batches that go into open tables by partition: plans and kernels
 *   cuda_open_partition.cuh  one partition of an open table: what build, refill and clear have in common
 *   cuda_open_counts.cuh counts the outcomes of a thread block's keys in an open table
 *   cuda_open_build.cu   builds tables by partition
 *   cuda_open_refill.cu  fills a table with the keys of another one
 *   cuda_open_spill.cu   inserts the spill of a split
 *   cuda_open_combine.cu combines rows with equal keys before they go to the table
 *   cuda_open_scan.cu    reads or writes whole tables: clear, survey
 *   cuda_open_upkeep.cu  upkeep of partitions
 *   cuda_open_views.cuh  view structs with and without rows, as arguments of kernels
 *   cuda_perfect.cuh     the perfect engine, and the list of its files
 *   cuda_multi.cuh       multimaps, and the list of their files
 *   cuda_rows_engine.cuh the rows engine, and the list of its files
 *   cuda_board.cuh       the ticket engine, and the list of its files
 *   cuda_copy_lists.cuh  copies lists of any lengths
 *   cuda_sort.cuh        sorts the keys of a batch with their positions; cuda_sort.cu
 *   cuda_in_order.cu     inserts batches in order (LOOM_IN_ORDER): sorts the keys, inserts one of equal keys
 *   cuda_whole.cuh       reads or writes whole tables: sums, pairs
 *   cuda_retrieve.cuh    copies pairs out of tables; cuda_retrieve.cu
 *   cuda_erase_if.cuh    erases the pairs whose values lie in a range
 *   cuda_filter.cuh      filters, and the list of their files
 *   cuda_stage.cu        staging memory for host arrays, scratch memory for scans
 *   cuda_rows.cu         selects, takes and puts back rows of arrays, of any width
 *   cuda_operations.cu   batches that mix operations
 *   cuda_row_rates.cu    how fast rows in host memory are reached
 *   cuda_row_staging.cuh temporary memory of calls that reach them
 *   cuda_measure.cuh     what measurements of the link share
 *   cuda_sketch.cu       sketches the keys of a batch
 *   cuda_hash.cu         hashes of keys
 *   cuda_strings.cu      references to byte strings; copies of strings
 *   cuda_trial.cu        functions for tests
 *   cuda_order.cu        orders calls on one table across streams
 *   cuda_kept_streams.h  remembers the last call of each stream
 *   cuda_tickets.cu      where calls in flight count their outcomes
 *   cuda_memory.cu       device memory from pools
 *   cuda_limits.cu       measures the highest rates that the device can reach
 *   cuda_machine.cu      the machine, and the module's entry */
#ifndef LOOM_CUDA_STATE_CUH
#define LOOM_CUDA_STATE_CUH

#include "core/batch.h"
#include "core/error.h"
#include "core/kernels.h"
#include "core/machine.h"
#include "core/row_plan.h"
#include "core/table_slots.h"
#include "engines/open/open_layout.h"
#include "engines/perfect/perfect_layout.h"

#include <cuda_runtime.h>
#include <pthread.h>
#include <stdint.h>
#include <type_traits>
#include <unistd.h>

/* The library's services; set when the module is attached. The module is not linked with the library, so the macros of
 * core/error.h report failures through the services. */
extern const loom__services *cuda_services;
#define loom__fail cuda_services->fail

/* Turns a CUDA error into a status: OK, OUT_OF_MEMORY, NO_MACHINE or DEVICE. Unless it is OK, sets the sentence for
 * loom_last_error. */
loom_status cuda_status(cudaError_t error, const char *what);

/* For tests. If this is n > 0, the n-th step of the machine from now on fails, and all later steps, as if the device
 * were lost. 0: no step fails. A step is every error code that passes through cuda_step. */
extern uint64_t cuda_steps_until_lost;
cudaError_t cuda_step(cudaError_t error);

#define CUDA_TRY(call) RETURN_IF_FAILED(cuda_status(cuda_step(call), #call))

/* CUDA_TRY for functions that return a cudaError_t. Does not count as a step. */
#define RETURN_IF_CUDA_FAILED(call)          \
    do {                                     \
        cudaError_t error_of_call_ = (call); \
        if (error_of_call_ != cudaSuccess)   \
            return error_of_call_;           \
    } while (0)

/* Returns work(k), where k() is the kind as a literal. */
template <class work_type> auto cuda_for_kind(loom__slot_kind kind, work_type work)
{
#define CALL(kind) return work(std::integral_constant<loom__slot_kind, kind>())
    SLOT_FOR_KIND(kind, CALL)
#undef CALL
    return work(std::integral_constant<loom__slot_kind, SLOT_PAIR_4_4>()); /* never reached */
}

/* The same, for kernels that know tags, too. */
template <class work_type> auto cuda_for_any_kind(loom__slot_kind kind, work_type work)
{
    if (slot_has_tag(kind)) /* rows of strings are found as any other */
        return work(std::integral_constant<loom__slot_kind, SLOT_TAG>());
    return cuda_for_kind(kind, work);
}

/* Arrays in workspaces begin at multiples of 256 bytes. */
inline uint64_t cuda_aligned(uint64_t bytes)
{
    return (bytes + 255) / 256 * 256;
}

/* Arrays one behind the other in a workspace. */
struct cuda_layout {
    uint64_t bytes; /* so far */

    /* Returns where an array of so many bytes lies. */
    uint64_t add(uint64_t more)
    {
        bytes += cuda_aligned(more);
        return bytes - cuda_aligned(more);
    }
};

/* ---- Counts of a call ---- */

enum {
    COUNT_COPIES = 32, /* thread blocks add to different copies, since they would wait for each other at one address */
    /* The most calls in flight: one more call waits, in its stream, for the oldest. Also the most host threads that
     * make calls at the same time: one more thread waits until another thread's call returns. */
    COUNT_TICKETS = 64,
    KEPT_TICKETS = COUNT_TICKETS / 2 /* at most; streams that come later share the others */
};

typedef struct cuda_counts {
    unsigned long long ok, exists, not_found, full;
    uint32_t arrived; /* of the first copy: cuda_finish */
    uint32_t unused;
    unsigned long long packed; /* likewise */
    unsigned long long too_long;
    unsigned long long unused_too;
} cuda_counts;

enum { COUNT_BYTES = COUNT_COPIES * sizeof(cuda_counts) };
static_assert(sizeof(cuda_counts) == 64, "half a cache line of the device");

typedef struct cuda_ticket {
    cudaEvent_t free;          /* recorded when the call that used the ticket has ended, unless the ticket is kept */
    cuda_counts *counts;       /* [COUNT_COPIES] on the device; zero between calls, except after a failed one */
    loom_result *result;       /* pinned: for results that the device cannot reach */
    unsigned long long stream; /* id of the stream of the last call that used the ticket */
    int taken;                 /* a call that is being launched uses the ticket */
    int kept;                  /* only calls in `stream` use the ticket: they need no event to wait for each other */
    int unclear;               /* the last call failed half way: counts are undefined */
} cuda_ticket;

/* ---- Staging ---- */

enum {
    STAGE_BUFFERS = 2,
    STAGE_BYTES = 16 << 20,      /* bytes of each buffer of a large stage, on the device and pinned */
    SMALL_STAGE_BYTES = 1 << 20, /* of a small stage: calls with few keys need not wait for large ones */
    LARGE_STAGES = 2,
    SMALL_STAGES = 16,
    SCRATCH_BYTES = 1 << 20 /* of a large stage, on the device, for scans of whole tables */
};

/* Staging memory of one call at a time. */
typedef struct cuda_stage {
    int ready;      /* memory is allocated */
    int taken;      /* a call uses it */
    uint64_t bytes; /* of each buffer */
    unsigned char *device[STAGE_BUFFERS], *pinned[STAGE_BUFFERS];
    cudaStream_t stream[STAGE_BUFFERS];
    cudaEvent_t done[STAGE_BUFFERS];
    cudaEvent_t begun;
    unsigned char *scratch; /* NULL in a small stage */
} cuda_stage;

/* ---- The machine ---- */

enum {
    MOST_BELLS = 64,
    CUDA_BELL_BYTES = 128, /* no two bells in one cache line */
    MOST_ROUNDS = 2        /* kernels in flight with lookups of the list */
};

/* What a lookup rings when it is done (cuda_together.cu). */
typedef struct cuda_bell {
    uint32_t number;   /* of its current lookup */
    uint32_t *rung;    /* in host memory: the number of the last lookup that is done */
    uint32_t *arrived; /* on the device: thread blocks that are done; zero between lookups */
} cuda_bell;

typedef struct cuda_together {
    pthread_mutex_t lock;
    struct cuda_lookup *first; /* lookups in the default stream that nobody has launched, in the order of arrival */
    struct cuda_lookup *last;  /* undefined if there is none */
    uint32_t launching;        /* a thread is launching lookups of the list */
    /* Round r is over when rounds[r % MOST_ROUNDS].bell has rung for that number. Only the launching thread uses
     * these. */
    struct {
        const cuda_bell *bell;
        uint32_t number;
    } rounds[MOST_ROUNDS];
    uint32_t next_round;
    uint32_t free_bells;
    cuda_bell *free[MOST_BELLS];
    cuda_bell bells[MOST_BELLS];
    void *host_memory, *device_memory;
} cuda_together;

cudaError_t cuda_together_create(cuda_together *together);
void cuda_together_destroy(cuda_together *together);

typedef struct cuda_state {
    loom__machine base;
    int device;
    pid_t process; /* the process that created the state: a forked child cannot use the device */
    int multiprocessors;
    int shared_bytes; /* most shared memory that a thread block may have */
    uint32_t lanes;   /* of a group, as configured; 0: the library chooses */
    loom__machine *host;
    cudaMemPool_t tables, temporary; /* NULL: the device has no pools, or the caller supplies memory; cuda_memory.cu */
    cudaStream_t memory_stream;      /* of allocations from `tables` */
    uint64_t kept_bytes;             /* most that `tables` keeps beside what is in use */
    uint64_t slice_keys; /* most keys of a slice: a larger batch goes by partition in several slices. Tests lower it */
    pthread_mutex_t tickets_lock;
    pthread_cond_t ticket_given; /* signalled when a ticket is given back */
    cuda_ticket tickets[COUNT_TICKETS];
    uint32_t next_ticket, kept_tickets;
    cuda_counts *ticket_memory;
    loom_result *ticket_results;
    pthread_mutex_t stages_lock;
    pthread_cond_t stage_given;                     /* signalled when a stage is given back */
    cuda_stage stages[LARGE_STAGES + SMALL_STAGES]; /* the large ones first */
    /* Tables with rows in host memory: what is measured (cuda_row_rates.cu), and the most temporary memory of one
     * call for rows on their way, unless the table has a bound of its own. Tests lower the latter. */
    pthread_mutex_t rates_lock;
    loom__row_rates rates;
    uint64_t rates_bytes; /* rows of the table with which they were measured; 0: they are the usual ones */
    uint64_t row_staging_bytes, row_chunk; /* bytes of buffers; keys whose rows the host gathers at a time */
    bool may_ring;                         /* the host may touch managed memory while a kernel runs */
    cuda_together together;
} cuda_state;

/* Makes the state's device the current device of the thread while the scope lives. `status` tells whether that
 * failed. */
struct cuda_device_scope {
    int before;
    loom_status status;
    explicit cuda_device_scope(const cuda_state *cuda);
    ~cuda_device_scope();
};

#define ON_DEVICE(cuda)             \
    cuda_device_scope scope_(cuda); \
    RETURN_IF_FAILED(scope_.status)

/* Where an array lies. */
typedef enum cuda_place {
    PLACE_NONE,     /* NULL */
    PLACE_DEVICE,   /* device or managed memory: kernels use it directly */
    PLACE_PINNED,   /* pinned host memory, which the device can copy and access by itself */
    PLACE_PAGEABLE, /* other host memory */
} cuda_place;

loom_status cuda_locate(const cuda_state *cuda, const char *name, const void *at, cuda_place *place);

/* Waits on the host while other threads hold all tickets. This cannot deadlock: a thread has at most one ticket, and
 * takes none while it has a stage. While it has a ticket, it waits only for a stage and for the table of its own
 * call. */
loom_status cuda_take_ticket(cuda_state *cuda, cudaStream_t stream, cuda_ticket **ticket);
void cuda_give_ticket(cuda_state *cuda, cudaStream_t stream, cuda_ticket *ticket, int counted);

cudaError_t cuda_tickets_create(cuda_state *cuda);
void cuda_tickets_destroy(cuda_state *cuda);

/* The pools of the own allocator, for contexts without an allocator of the caller's (cuda_memory.cu). */
extern const loom_allocator cuda_own_allocator;
cudaError_t cuda_pools_create(cuda_state *cuda);
void cuda_pools_destroy(cuda_state *cuda);

/* Has a stage while the scope lives, unless the status tells a failure. Waits while other calls have all stages. Once a
 * scope succeeded, later ones do not fail for lack of memory. `small`: a small stage is enough. */
struct cuda_stage_scope {
    cuda_state *cuda;
    cuda_stage *stage;
    loom_status status;
    explicit cuda_stage_scope(cuda_state *cuda, bool small = false);
    ~cuda_stage_scope();
};

#define ON_STAGE(cuda)                  \
    cuda_stage_scope on_stage_(cuda);   \
    RETURN_IF_FAILED(on_stage_.status); \
    cuda_stage *const stage = on_stage_.stage

void cuda_stages_free(cuda_state *cuda);

/* ---- Batches ---- */

/* One batch as kernels see it. All arrays are on the device. */
typedef struct cuda_batch {
    const void *keys, *values;
    void *found_values;
    uint8_t *found; /* insertions into filters: `added` of loom__batch */
    uint8_t *status;
    uint64_t n;
    uint32_t tile;           /* items per warp */
    loom__combine_rule rule; /* for OP_COMBINE */
    loom__widening widening; /* for OP_COMBINE */
    cuda_counts *counts;     /* NULL: not wanted */
    uint64_t absent;         /* for OP_FIND: the value of absent keys */
    uint32_t read_beside;    /* lookups may overlap a call that writes */
} cuda_batch;

/* The spill: records that a split could not place. Only the device knows their number. */
typedef struct cuda_spill {
    const uint32_t *spilled;
    uint32_t room; /* if more records spilled, the split gave up, and the spill is the whole batch */
    const void *keys, *values;
} cuda_spill;

/* The operations: those of LOOM__WRITE_…, lookup, and erase_if. */
typedef enum cuda_op {
    OP_KEEP = LOOM__WRITE_KEEP,
    OP_OVERWRITE = LOOM__WRITE_OVERWRITE,
    OP_FETCH = LOOM__WRITE_FETCH,
    OP_COMBINE = LOOM__WRITE_COMBINE,
    OP_UPDATE = LOOM__WRITE_UPDATE,
    OP_ERASE = LOOM__WRITE_ERASE,
    OP_FIND,
    OP_ERASE_IF
} cuda_op;

enum { MOST_TO_PACK = 1 << 14 };

/* How a call's counts become its result (cuda_finish.cuh). If both pointers are NULL, the kernel leaves that to
 * another. */
typedef struct cuda_finish {
    cuda_counts *counts; /* [COUNT_COPIES] */
    /* Not NULL: the warps of the kernel add their counts here, and the last warp finishes the call. For at most
     * MOST_TO_PACK keys. Zero between calls. */
    unsigned long long *packed;
    uint64_t *size; /* of the table; NULL: it keeps no size */
    loom_result *result;
    uint64_t n;
    cuda_op op;
    bool replaced;       /* the call's keys are the table's only keys */
    loom_status outcome; /* the status of the result, unless a key was refused */
    uint32_t *arrived;   /* thread blocks that are done; the last one finishes the call; zero at first */
} cuda_finish;

enum { MOST_PARTS = 16 };

/* One of several lookups that share a kernel. Its last thread block writes `number` to *rung. */
typedef struct cuda_part {
    cuda_batch batch;
    uint32_t *arrived, *rung;
    uint32_t number;
} cuda_part;

/* Part i has thread blocks first_block[i] .. first_block[i + 1] - 1. */
typedef struct cuda_parts {
    uint32_t count;
    uint32_t first_block[MOST_PARTS + 1];
    cuda_part part[MOST_PARTS];
} cuda_parts;

/* Sets first_block for thread blocks of so many threads. Returns the shape of the launch. A launch with
 * cudaLaunchKernelEx tells its own error; cudaGetLastError could tell an older one, and others would believe that their
 * lookups were not launched. */
inline cudaLaunchConfig_t cuda_parts_place(cuda_parts *parts, uint32_t threads, cudaStream_t stream)
{
    cudaLaunchConfig_t shape = {};
    parts->first_block[0] = 0;
    for (uint32_t i = 0; i < parts->count; i++) {
        const cuda_batch *batch = &parts->part[i].batch;
        const uint64_t items = (uint64_t)batch->tile * (threads / 32);
        parts->first_block[i + 1] = parts->first_block[i] + (uint32_t)((batch->n + items - 1) / items);
    }
    shape.gridDim = dim3(parts->first_block[parts->count]);
    shape.blockDim = dim3(threads);
    shape.stream = stream;
    return shape;
}

/* ---- The open engine ---- */

/* Launches the batch with lane groups of one width. */
typedef cudaError_t cuda_launch(const loom__open_view *view, const cuda_batch *batch, cuda_op op,
                                const cuda_finish *finish, cudaStream_t stream);
cuda_launch cuda_open_launch_1, cuda_open_launch_2, cuda_open_launch_4, cuda_open_launch_8;

/* Launches the batch, of at least one key, with groups of the width that the machine is configured for. */
cudaError_t cuda_open_launch(const cuda_state *cuda, const loom__open_view *view, const cuda_batch *batch, cuda_op op,
                             const cuda_finish *finish, cudaStream_t stream);

/* Looks up several batches, by groups of the width that the library chooses. Places the parts. */
cudaError_t cuda_open_launch_parts(const loom__open_view *view, cuda_parts *parts, cudaStream_t stream);

/* Inserts the spill of a batch, or any other list whose length only the device knows. If `finish` is not NULL, the last
 * thread block finishes the call; the batch must then have keys. */
cudaError_t cuda_open_launch_spill(const cuda_state *cuda, const loom__open_view *view, const cuda_batch *batch,
                                   const cuda_spill *spill, bool overwrite, const cuda_finish *finish,
                                   cudaStream_t stream);

/* Copies pairs out of any table, as `retrieve` of the engines' kernels does. */
loom_status cuda_retrieve(cuda_state *cuda, const loom__table_slots *table, loom__position *position, void *keys,
                          void *values, uint64_t room, uint64_t *got, cudaStream_t stream);

loom_status cuda_open_reset_totals(loom__machine *machine, const void *any_view, const loom__totals *totals,
                                   loom_stream stream);
loom_status cuda_open_clear(loom__machine *machine, const void *any_view, loom_stream stream);
loom_status cuda_open_refill(loom__machine *machine, const void *any_from, const void *any_to, uint64_t *refused,
                             loom_stream stream);
loom_status cuda_open_upkeep(loom__machine *machine, const void *any_view, int sweep, loom_stream stream);
/* Also of tables with rows. */
loom_status cuda_open_fold_size(loom__machine *machine, const void *view, loom_stream stream);
loom_status cuda_open_erase_if(loom__machine *machine, const void *any_view, const loom__value_range *range,
                               loom_result *result, loom_stream stream);
loom_status cuda_open_survey(loom__machine *machine, const void *any_view, loom__survey *survey, loom_stream stream);
loom_status cuda_open_count_accesses(loom__machine *machine, const void *any_view, const void *keys, uint64_t n,
                                     uint64_t *accesses, loom_stream stream);
extern const loom__map_kernels cuda_open_kernels;
extern const loom__map_kernels cuda_perfect_kernels; /* cuda_perfect.cuh */
extern const loom__map_kernels cuda_rows_kernels;    /* cuda_rows_engine.cuh */
extern const loom__map_kernels cuda_tickets_kernels; /* cuda_board.cuh */

loom_status cuda_order_create(loom__machine *machine, int concurrent_reads, loom__order **order);
void cuda_order_destroy(loom__order *order);
loom_status cuda_order_begin(loom__order *order, loom__access access, loom_stream stream);
void cuda_order_end(loom__order *order, int ended, loom_stream stream);

loom_status cuda_select_rows(loom__machine *machine, const uint8_t *status, uint8_t wanted, uint64_t n, uint64_t *rows,
                             uint64_t room, uint64_t *count, loom_stream stream);
/* take_rows (`put` = false) and put_rows of the machine. */
template <bool put>
loom_status cuda_move_rows(loom__machine *machine, void *to, const void *from, uint32_t width, const void *rows,
                           uint32_t number_bytes, uint64_t count, loom_stream stream);

/* to[i] = the row at from + rows[i] * unit bytes. `width` and `unit` may be anything. All arrays are on the device. */
cudaError_t cuda_gather_rows(void *to, const void *from, uint32_t width, uint32_t unit, const uint64_t *rows,
                             uint64_t count, cudaStream_t stream);
enum { CUDA_WINDOW_ALIGNMENT = 256 };

struct cuda_row_staging;

/* The rates with which rows are reached that lie in host memory, at `rows`, `bytes` of them. Measures them if they are
 * not yet known, the table is large, and the call's memory is enough for it. */
loom__row_rates cuda_row_rates(cuda_row_staging *staging, const unsigned char *rows, uint64_t bytes);

/* Takes the elements of some items out of an array, to[i] = from[items[i]], or puts them back, to[items[i]] = from[i].
 * Both arrays are on the device; if one of them is NULL, does nothing. */
template <bool put>
cudaError_t cuda_move_items(void *to, const void *from, uint32_t width, const uint32_t *items, uint64_t count,
                            cudaStream_t stream);
loom_status cuda_sketch_keys(loom__machine *machine, const void *keys, uint32_t key_bytes, uint64_t n, uint64_t seed,
                             loom__key_sketch *sketch, loom_stream stream);
loom_status cuda_refer_strings(loom__machine *machine, const uint64_t *offsets, uint64_t base, uint64_t n,
                               uint64_t most, loom__string *to, loom__strings_told *told, loom_stream stream);
loom_status cuda_place_strings(loom__machine *machine, const loom__string *strings, uint64_t n, uint64_t at,
                               uint64_t room, uint64_t *places, loom__places_told *told, loom_stream stream);
loom_status cuda_copy_strings(loom__machine *machine, const loom__string *strings, uint64_t n, const uint64_t *places,
                              void *to, loom_stream stream);
loom_status cuda_reaches(loom__machine *machine, const char *name, const void *array, int *reached);
loom_status cuda_count_operations(loom__machine *machine, const uint8_t *operations, uint64_t n, uint32_t *places,
                                  uint64_t counts[LOOM__KINDS], loom_stream stream);
loom_status cuda_move_by_kind(loom__machine *machine, const loom__kind_order *order, const loom__kind_column *columns,
                              uint32_t count, int put, loom_stream stream);
loom_status cuda_sort_hashes(loom__machine *machine, uint64_t *hashes, uint64_t n, uint32_t *rows, loom_stream stream);
loom_status cuda_group_rows(loom__machine *machine, const uint64_t *hashes, const uint32_t *rows, const void *keys,
                            uint32_t key_bytes, uint64_t n, uint32_t *groups, uint32_t *firsts, uint64_t *distinct,
                            int *collide, loom_stream stream);
loom_status cuda_run_sequences(loom__machine *machine, const loom__sequences *all,
                               uint64_t counts[LOOM__APPLIED_STATUSES], loom_stream stream);
/* Turns n references of rows (open_stored) into references of a batch, in place. */
cudaError_t cuda_resolve_strings(void *references, uint64_t n, const unsigned char *heap, cudaStream_t stream);
loom_status cuda_measure_limit(loom__machine *machine, loom_limit *limit);
loom_status cuda_hash_keys(loom__machine *machine, const void *keys, uint32_t key_bytes, uint64_t n, uint64_t seed,
                           uint64_t *hashes, loom_stream stream);

#endif
