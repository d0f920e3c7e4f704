/* Copies pairs out of tables that loom__table_slots describes. */
#include "core/call_parts.h"
#include "machines/cuda/core/cuda_retrieve.cuh"

namespace
{

/* The same table, with its kind as a literal. */
template <loom__slot_kind kind> __device__ __forceinline__ loom__table_slots of_kind(const loom__table_slots &given)
{
    loom__table_slots table = given;
    table.kind = kind;
    return table;
}

template <loom__slot_kind kind>
__global__ void __launch_bounds__(RETRIEVE_THREADS)
    count_kernel(const loom__table_slots given, const loom__position from, unsigned long long *counts)
{
    count_pairs(of_kind<kind>(given), from, counts);
}

template <loom__slot_kind kind>
__global__ void __launch_bounds__(RETRIEVE_THREADS)
    copy_kernel(const loom__table_slots given, const loom__position from, const unsigned long long *offsets, void *keys,
                void *values, uint64_t room, retrieve_end *end)
{
    visit_pairs(of_kind<kind>(given), from, offsets, room, end,
                [&](uint64_t rank, uint32_t, uint32_t, uint32_t, uint64_t key, uint64_t value) {
                    put_number(slot_key_bytes(kind), keys, rank, key);
                    if (values != NULL)
                        put_number(slot_value_bytes(kind), values, rank, value);
                });
}

/* For a table with rows: lists the numbers of the rows. Also copies the keys, unless the rows hold them. */
template <loom__slot_kind kind>
__global__ void __launch_bounds__(RETRIEVE_THREADS)
    list_kernel(const loom__table_slots given, const loom__position from, const unsigned long long *offsets, void *keys,
                uint64_t *rows, uint64_t room, retrieve_end *end)
{
    const loom__table_slots table = of_kind<kind>(given);
    visit_pairs(table, from, offsets, room, end,
                [&](uint64_t rank, uint32_t partition, uint32_t bucket, uint32_t slot, uint64_t key, uint64_t) {
                    rows[rank] = cuda_slot_row(table, partition, bucket, slot);
                    if (table.row_key_bytes == 0) /* otherwise the row holds it */
                        put_number(slot_key_bytes(kind), keys, rank, key);
                });
}

/* Copies the pairs of a window. */
cudaError_t launch_copy(const loom__table_slots *table, const retrieve_window &of, cudaStream_t stream)
{
    if (!loom__slots_have_rows(table)) {
        cuda_for_any_kind(table->kind, [&](auto kind) {
            copy_kernel<kind()><<<of.segments, RETRIEVE_THREADS, 0, stream>>>(*table, of.from, of.counts, of.keys,
                                                                              of.values, of.room, of.end);
        });
        return cudaGetLastError();
    }
    cuda_for_any_kind(table->kind, [&](auto kind) {
        list_kernel<kind()><<<of.segments, RETRIEVE_THREADS, 0, stream>>>(*table, of.from, of.counts, of.keys, of.rows,
                                                                          of.room, of.end);
    });
    RETURN_IF_CUDA_FAILED(cudaGetLastError());
    RETURN_IF_CUDA_FAILED(
        cuda_gather_rows(of.keys, table->rows, table->row_key_bytes, table->row_key_stride, of.rows, of.count, stream));
    if (table->row_variable & LOOM__VARIABLE_KEYS)
        RETURN_IF_CUDA_FAILED(cuda_resolve_strings(of.keys, of.count, table->heap, stream));
    if (of.values == NULL)
        return cudaSuccess;
    RETURN_IF_CUDA_FAILED(cuda_gather_rows(of.values, table->row_values, table->row_value_bytes,
                                           table->row_value_stride, of.rows, of.count, stream));
    return table->row_variable & LOOM__VARIABLE_VALUES ? cuda_resolve_strings(of.values, of.count, table->heap, stream)
                                                       : cudaSuccess;
}

} // namespace

loom_status cuda_retrieve(cuda_state *cuda, const loom__table_slots *table, loom__position *position, void *keys,
                          void *values, uint64_t room, uint64_t *got, cudaStream_t stream)
{
    const retrieve_shape shape = {(uint64_t)table->partitions * table->buckets, table->slots,
                                  loom__slots_have_rows(table) != 0, loom__slots_key_bytes(table),
                                  loom__slots_value_bytes(table)};
    return cuda_retrieve_by(
        cuda, shape, position, keys, values, room, got, stream,
        [&](const retrieve_window &of) {
            cuda_for_any_kind(table->kind, [&](auto kind) {
                count_kernel<kind()><<<of.segments, RETRIEVE_THREADS, 0, stream>>>(*table, of.from, of.counts);
            });
        },
        [&](const retrieve_window &of) { return launch_copy(table, of, stream); });
}
