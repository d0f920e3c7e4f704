/* The primitives of core/lanes.h for teams on a GPU: a team is a thread block, and its own memory is shared memory. A
 * part of cuda_lanes.cuh, which includes it. */
#ifndef LOOM_CUDA_LANES_TEAM_CUH
#define LOOM_CUDA_LANES_TEAM_CUH

typedef struct lane_team {
    uint32_t rank, size;
} lane_team;

LOOM_LANE lane_team lane_own_team(void)
{
    lane_team team = {threadIdx.x, blockDim.x};
    return team;
}

LOOM_LANE uint32_t lane_team_rank(lane_team team)
{
    return team.rank;
}

LOOM_LANE uint32_t lane_team_size(lane_team team)
{
    return team.size;
}

LOOM_LANE void lane_team_wait(lane_team team)
{
    (void)team;
    __syncthreads();
}

LOOM_LANE uint64_t lane_team_load(const uint64_t *at)
{
    return *at;
}

LOOM_LANE void lane_team_store(uint64_t *at, uint64_t value)
{
    *at = value;
}

LOOM_LANE uint32_t lane_team_load_4(const uint32_t *at)
{
    return *at;
}

LOOM_LANE void lane_team_store_4(uint32_t *at, uint32_t value)
{
    *at = value;
}

LOOM_LANE uint32_t lane_team_draw(uint32_t *at, uint32_t n)
{
    return atomicAdd(at, n);
}

LOOM_LANE void lane_team_least(uint32_t *at, uint32_t value)
{
    atomicMin(at, value);
}

LOOM_LANE uint32_t lane_team_or(uint32_t *at, uint32_t bits)
{
    return atomicOr(at, bits);
}

LOOM_LANE uint32_t lane_team_swap(uint32_t *at, uint32_t expected, uint32_t wanted)
{
    return atomicCAS(at, expected, wanted);
}

LOOM_LANE uint32_t lane_team_load_1(const uint8_t *at)
{
    return *(const volatile uint8_t *)at;
}

LOOM_LANE void lane_team_store_1(uint8_t *at, uint32_t value)
{
    *at = (uint8_t)value;
}

LOOM_LANE void lane_team_add(lane_team team, uint32_t *at, uint32_t value)
{
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 800
    (void)team;
    atomicAdd(at, value);
#else
    const uint32_t sum = __reduce_add_sync(CUDA_FULL_MASK, value);
    if (team.rank % 32 == 0)
        atomicAdd(at, sum);
#endif
}

LOOM_LANE uint32_t lane_team_count(lane_team team, lane_truth mine)
{
    (void)team;
    return (uint32_t)__syncthreads_count(mine);
}

#endif
