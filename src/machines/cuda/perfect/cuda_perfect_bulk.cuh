/* Builds perfect tables by partition: splits the batch (cuda_bulk.cuh), finds the codes of each partition
 * (cuda_perfect_codes.cu), and writes whole partitions (cuda_perfect_place.cu). Records whose bucket has no room are
 * left over; the caller inserts them. */
#ifndef LOOM_CUDA_PERFECT_BULK_CUH
#define LOOM_CUDA_PERFECT_BULK_CUH

#include "engines/perfect/perfect_layout.h"
#include "machines/cuda/core/cuda_bulk.cuh"

enum {
    PERFECT_STATIC_BYTES = 1024, /* bound of the static shared memory of a kernel */
    /* Blocks that find or repair the codes of a partition in shared memory (perfect_codes.h): */
    CODES_THREADS = 256,          /* per block … */
    CODES_LARGE_BYTES = 76 << 10, /* … and twice as many if a block has more shared memory: few blocks fit then */
    CODES_REGISTERS = 48          /* per thread, so that five blocks fit on a multiprocessor */
};

inline uint32_t codes_threads(uint32_t shared_bytes)
{
    return shared_bytes > CODES_LARGE_BYTES ? 2 * CODES_THREADS : CODES_THREADS;
}

/* Launches a kernel with `shared` bytes of shared memory per block. `most`: what a block may have. */
template <class work_type>
cudaError_t launch_shared(void (*kernel)(work_type), uint32_t most, uint32_t blocks, uint32_t threads, uint32_t shared,
                          const work_type &work, cudaStream_t stream)
{
    const cudaError_t error = allow_shared(kernel, most);
    if (error != cudaSuccess)
        return error;
    kernel<<<blocks, threads, shared, stream>>>(work);
    return cudaGetLastError();
}

/* Cuts memory into arrays aligned to 256 bytes. Without memory it only adds up their bytes. */
struct array_cutter {
    unsigned char *memory;
    uint64_t bytes;

    template <class element> element *cut(uint64_t count)
    {
        unsigned char *at = memory != NULL ? memory + bytes : NULL;
        bytes += cuda_aligned(count * sizeof(element));
        return (element *)at;
    }
};

/* Records that are left over. If statuses are wanted, their places in the batch are stored, too. */
struct perfect_leftovers {
    uint8_t *spoiled; /* [partitions] whether codes could not be found: all records of the partition are left over */
    uint32_t *count;  /* number of records left over, including those beyond `room`; zero at first */
    uint32_t room;
    void *keys, *values;
    uint32_t *index; /* places in the batch; NULL: not wanted */
    uint8_t *status; /* [room] for the insertion of these records, if there is an index */
};

/* The leftovers lie behind the split's memory. */
struct perfect_bulk_plan {
    bulk_plan split;
    loom__slot_kind kind;
    uint32_t partitions, leftover_room;
    uint64_t bytes;
};

inline uint32_t perfect_most_shared(const cuda_state *cuda)
{
    return (uint32_t)cuda->shared_bytes - PERFECT_STATIC_BYTES;
}

/* The shared memory of a block that finds codes. */
uint32_t cuda_perfect_codes_bytes(const loom__perfect_view *view);

/* False: the kernels cannot build this table. `with_index`: statuses are wanted. */
bool cuda_perfect_bulk_plan(const cuda_state *cuda, const loom__perfect_view *view, uint64_t n, bool with_index,
                            perfect_bulk_plan *plan);

perfect_leftovers cuda_perfect_leftovers(const perfect_bulk_plan *plan, unsigned char *workspace);

/* A build launches in one stream, in this order: a memset of the leftovers' count; split_begin; cuda_bulk_split;
 * cuda_bulk_split_further; codes; place, which also counts the outcomes. */
cudaError_t cuda_perfect_bulk_codes(const cuda_state *cuda, const loom__perfect_view *view,
                                    const perfect_bulk_plan *plan, unsigned char *workspace, cudaStream_t stream);
cudaError_t cuda_perfect_bulk_place(const cuda_state *cuda, const loom__perfect_view *view, const cuda_batch *batch,
                                    const perfect_bulk_plan *plan, unsigned char *workspace, bool overwrite,
                                    cudaStream_t stream);

#endif
