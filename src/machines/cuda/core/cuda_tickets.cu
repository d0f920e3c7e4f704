/* Tickets: where a call in flight counts its outcomes.
 *
 * The first streams that come keep a ticket each. A call needs no event to wait for an earlier call of its own stream.
 * Further streams share the other tickets: a call waits, in its stream, for the last call that used its ticket. */
#include "machines/cuda/core/cuda_state.cuh"

/* Returns NULL if there is none. The caller holds the lock. */
static cuda_ticket *find_free_ticket(cuda_state *cuda, unsigned long long stream)
{
    cuda_ticket *found = NULL;
    for (uint32_t i = 0; i < COUNT_TICKETS; i++) {
        cuda_ticket *next = &cuda->tickets[(cuda->next_ticket + i) % COUNT_TICKETS];
        if (!next->taken && next->kept && next->stream == stream)
            return next;
        if (!next->taken && !next->kept && found == NULL)
            found = next;
    }
    cuda->next_ticket++;
    return found;
}

static bool stream_has_ticket(const cuda_state *cuda, unsigned long long stream)
{
    for (const cuda_ticket &ticket : cuda->tickets)
        if (ticket.kept && ticket.stream == stream)
            return true;
    return false;
}

static void put_ticket_back(cuda_state *cuda, cuda_ticket *ticket)
{
    pthread_mutex_lock(&cuda->tickets_lock);
    ticket->taken = 0;
    pthread_cond_broadcast(&cuda->ticket_given); /* not every waiter can use it */
    pthread_mutex_unlock(&cuda->tickets_lock);
}

loom_status cuda_take_ticket(cuda_state *cuda, cudaStream_t stream, cuda_ticket **taken)
{
    cuda_ticket *ticket;
    unsigned long long id = 0;
    CUDA_TRY(cudaStreamGetId(stream, &id));
    pthread_mutex_lock(&cuda->tickets_lock);
    while ((ticket = find_free_ticket(cuda, id)) == NULL) /* ends: a call gives its ticket back when it returns */
        pthread_cond_wait(&cuda->ticket_given, &cuda->tickets_lock);
    ticket->taken = 1;
    pthread_mutex_unlock(&cuda->tickets_lock);
    cudaError_t error = cudaSuccess;
    if (ticket->stream != id)
        error = cudaStreamWaitEvent(stream, ticket->free, 0);
    if (error == cudaSuccess && ticket->unclear)
        error = cuda_step(cudaMemsetAsync(ticket->counts, 0, COUNT_BYTES, stream));
    if (error != cudaSuccess) {
        put_ticket_back(cuda, ticket);
        return cuda_status(error, "waiting for an earlier call");
    }
    ticket->stream = id;
    ticket->unclear = 0;
    *taken = ticket;
    return LOOM_OK;
}

/* Whether the ticket belongs to its stream from now on. */
static bool keep_ticket(cuda_state *cuda, cuda_ticket *ticket)
{
    pthread_mutex_lock(&cuda->tickets_lock);
    if (!ticket->kept && cuda->kept_tickets < KEPT_TICKETS && !stream_has_ticket(cuda, ticket->stream)) {
        ticket->kept = 1;
        cuda->kept_tickets++;
    }
    pthread_mutex_unlock(&cuda->tickets_lock);
    return ticket->kept;
}

void cuda_give_ticket(cuda_state *cuda, cudaStream_t stream, cuda_ticket *ticket, int counted)
{
    ticket->unclear = !counted;
    if (!keep_ticket(cuda, ticket))
        cudaEventRecord(ticket->free, stream); /* if this fails the device is lost; the next step reports it */
    put_ticket_back(cuda, ticket);
}

cudaError_t cuda_tickets_create(cuda_state *cuda)
{
    size_t bytes = (size_t)COUNT_BYTES * COUNT_TICKETS;
    RETURN_IF_CUDA_FAILED(cudaMalloc(&cuda->ticket_memory, bytes));
    RETURN_IF_CUDA_FAILED(cudaMemset(cuda->ticket_memory, 0, bytes));
    RETURN_IF_CUDA_FAILED(cudaStreamSynchronize(NULL)); /* calls in streams of any kind use it */
    RETURN_IF_CUDA_FAILED(cudaMallocHost(&cuda->ticket_results, sizeof(loom_result) * COUNT_TICKETS));
    for (int i = 0; i < COUNT_TICKETS; i++) {
        cuda->tickets[i].counts = cuda->ticket_memory + i * COUNT_COPIES;
        cuda->tickets[i].result = cuda->ticket_results + i;
        RETURN_IF_CUDA_FAILED(cudaEventCreateWithFlags(&cuda->tickets[i].free, cudaEventDisableTiming));
    }
    return cudaSuccess;
}

void cuda_tickets_destroy(cuda_state *cuda)
{
    for (int i = 0; i < COUNT_TICKETS; i++)
        if (cuda->tickets[i].free != NULL)
            cudaEventDestroy(cuda->tickets[i].free);
    cudaFree(cuda->ticket_memory);
    cudaFreeHost(cuda->ticket_results);
    pthread_cond_destroy(&cuda->ticket_given);
    pthread_mutex_destroy(&cuda->tickets_lock);
}
