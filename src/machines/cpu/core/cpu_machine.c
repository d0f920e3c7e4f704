/* The cpu machine: always present and complete. Tests compare every other machine with it. */
#define _GNU_SOURCE
#include "core/error.h"
#include "core/memory.h"
#include "machines/cpu/core/cpu_hash.h"
#include "machines/cpu/core/cpu_limits.h"
#include "machines/cpu/core/cpu_memory.h"
#include "machines/cpu/core/cpu_operations.h"
#include "machines/cpu/core/cpu_rows.h"
#include "machines/cpu/core/cpu_sketch.h"
#include "machines/cpu/core/cpu_strings.h"
#include "machines/cpu/filter/cpu_filter.h"
#include "machines/cpu/multi/cpu_multi.h"
#include "machines/cpu/open/cpu_open.h"
#include "machines/cpu/perfect/cpu_perfect.h"
#include "machines/cpu/rows/cpu_rows_engine.h"
#include "machines/cpu/tickets/cpu_tickets.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "tables and files are little-endian");

enum { MOST_THREADS = 1024 };

typedef loom__cpu_machine_state cpu_state;

static loom_status present(void)
{
    return LOOM_OK;
}

static uint32_t usable_cores(void)
{
    cpu_set_t set;
    int count = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : (int)sysconf(_SC_NPROCESSORS_ONLN);
    return count < 1 ? 1 : count > MOST_THREADS ? MOST_THREADS : (uint32_t)count;
}

/* An instruction set, and the engines' code that was compiled for it. */
typedef struct simd_units {
    loom_simd simd;
    const loom__cpu_map_simd *open, *perfect, *rows, *strings;
    const loom__cpu_filter_simd *filter;
} simd_units;

/* The best instruction set comes first. */
static const simd_units all_units[] = {
#if defined(__aarch64__)
    {LOOM_SIMD_NEON, &loom__cpu_open_neon, &loom__cpu_perfect_neon, &loom__cpu_rows_neon, &loom__cpu_strings_neon,
     &loom__cpu_filter_neon},
#endif
#if defined(__x86_64__)
    {LOOM_SIMD_AVX2, &loom__cpu_open_avx2, &loom__cpu_perfect_avx2, &loom__cpu_rows_avx2, &loom__cpu_strings_avx2,
     &loom__cpu_filter_avx2},
#endif
    {LOOM_SIMD_SCALAR, &loom__cpu_open_scalar, &loom__cpu_perfect_scalar, &loom__cpu_rows_scalar,
     &loom__cpu_strings_scalar, &loom__cpu_filter_scalar},
};

static int processor_has(loom_simd simd)
{
#if defined(__x86_64__)
    return simd != LOOM_SIMD_AVX2 || __builtin_cpu_supports("avx2");
#else
    (void)simd;
    return 1;
#endif
}

/* NULL: this processor does not have these instructions. */
static const simd_units *units_of(loom_simd simd)
{
    for (size_t i = 0; i < sizeof all_units / sizeof *all_units; i++)
        if ((simd == LOOM_SIMD_BEST || simd == all_units[i].simd) && processor_has(all_units[i].simd))
            return &all_units[i];
    return NULL;
}

static const char *simd_name(loom_simd simd)
{
    return simd == LOOM_SIMD_NEON ? "neon" : simd == LOOM_SIMD_AVX2 ? "avx2" : "scalar";
}

static loom_status open_machine(const loom_context_config *config, loom__machine **machine)
{
    RETURN_ERROR_IF(config->device != -1 && config->device != 0, LOOM_NO_MACHINE,
                    "device %d: the cpu machine has only device 0", config->device);
    RETURN_ERROR_IF(config->threads > MOST_THREADS, LOOM_INVALID_ARGUMENT, "threads = %u: at most %d can be had",
                    config->threads, MOST_THREADS);
    const simd_units *units = units_of(config->simd);
    RETURN_ERROR_IF(units == NULL, LOOM_NO_MACHINE,
                    "this processor has no %s; ask for LOOM_SIMD_BEST or LOOM_SIMD_SCALAR", simd_name(config->simd));

    const loom_allocator *allocator = config->allocator.allocate != NULL ? &config->allocator : &loom__cpu_allocator;
    cpu_state *cpu = loom__allocate(allocator, sizeof *cpu, LOOM_MEMORY_HOST, NULL);
    if (cpu == NULL)
        return LOOM_OUT_OF_MEMORY;
    *cpu = (cpu_state){
        .base = {.ops = &loom__cpu_machine, .allocator = *allocator},
        .threads = config->threads > 0 ? config->threads : usable_cores(),
        .simd = units->simd,
        .open_simd = units->open,
        .perfect_simd = units->perfect,
        .rows_simd = units->rows,
        .strings_simd = units->strings,
        .filter_simd = units->filter,
    };
    cpu->pool = loom__pool_create(allocator, cpu->threads - 1);
    if (cpu->pool == NULL) {
        loom__release(allocator, cpu, sizeof *cpu, LOOM_MEMORY_HOST, NULL);
        return LOOM_OUT_OF_MEMORY;
    }
    *machine = &cpu->base;
    return LOOM_OK;
}

static void close_machine(loom__machine *machine)
{
    cpu_state *cpu = (cpu_state *)machine;
    loom_allocator allocator = machine->allocator;
    loom__pool_destroy(cpu->pool);
    loom__release(&allocator, cpu, sizeof *cpu, LOOM_MEMORY_HOST, NULL);
}

/* ---- the processor's name ---- */

typedef struct arm_part {
    unsigned implementer, part;
    const char *name;
} arm_part;

static const arm_part arm_parts[] = {
    {0x41, 0xd0c, "Arm Neoverse N1"}, {0x41, 0xd40, "Arm Neoverse V1"}, {0x41, 0xd49, "Arm Neoverse N2"},
    {0x41, 0xd4f, "Arm Neoverse V2"}, {0x41, 0xd83, "Arm Neoverse V3"}, {0x41, 0xd8e, "Arm Neoverse N3"},
    {0x41, 0xd08, "Arm Cortex-A72"},  {0x41, 0xd0b, "Arm Cortex-A76"},  {0xc0, 0xac3, "Ampere-1"},
};

/* The text behind "name : " in the first line of /proc/cpuinfo that has it; "" if no line does. */
static void cpuinfo_field(const char *name, char *text, size_t room)
{
    char line[256];
    FILE *file = fopen("/proc/cpuinfo", "re");
    text[0] = 0;
    if (file == NULL)
        return;
    while (text[0] == 0 && fgets(line, sizeof line, file) != NULL) {
        char *colon = strchr(line, ':');
        if (colon == NULL || strncmp(line, name, strlen(name)) != 0)
            continue;
        line[strcspn(line, "\n")] = 0;
        snprintf(text, room, "%s", colon + 1 + strspn(colon + 1, " "));
    }
    fclose(file);
}

static void name_processor(char *name, size_t room)
{
    char text[64];
    cpuinfo_field("model name", name, room);
    if (name[0] != 0)
        return;
    cpuinfo_field("CPU implementer", text, sizeof text);
    unsigned implementer = (unsigned)strtoul(text, NULL, 0);
    cpuinfo_field("CPU part", text, sizeof text);
    unsigned part = (unsigned)strtoul(text, NULL, 0);
    for (size_t i = 0; i < sizeof arm_parts / sizeof *arm_parts; i++)
        if (arm_parts[i].implementer == implementer && arm_parts[i].part == part) {
            snprintf(name, room, "%s", arm_parts[i].name);
            return;
        }
    snprintf(name, room, "processor of implementer 0x%x, part 0x%x", implementer, part);
}

static void describe(loom__machine *machine, loom_context_info *info)
{
    cpu_state *cpu = (cpu_state *)machine;
    info->machine = LOOM_MACHINE_CPU;
    info->simd = cpu->simd;
    info->threads = cpu->threads;
    snprintf(info->machine_name, sizeof info->machine_name, "%s", machine->ops->name);
    snprintf(info->simd_name, sizeof info->simd_name, "%s", simd_name(cpu->simd));
    name_processor(info->device_name, sizeof info->device_name);
    info->memory_bytes = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
    info->huge_page_bytes =
        machine->allocator.allocate == loom__cpu_allocator.allocate ? loom__cpu_huge_page_bytes() : 0;
}

static const void *kernels(const loom__machine *machine, uint32_t engine)
{
    (void)machine;
    return engine == LOOM_ENGINE_OPEN                                     ? (const void *)&loom__cpu_open_kernels
           : engine == LOOM_ENGINE_PERFECT                                ? (const void *)&loom__cpu_perfect_kernels
           : engine == LOOM_ENGINE_ROWS                                   ? (const void *)&loom__cpu_rows_kernels
           : engine == LOOM_ENGINE_TICKETS                                ? (const void *)&loom__cpu_tickets_kernels
           : engine == LOOM_ENGINE_BLOOM                                  ? (const void *)&loom__cpu_filter_kernels
           : engine == LOOM__KERNELS_MULTI || engine == LOOM_ENGINE_CHAIN ? (const void *)&loom__cpu_multi_kernels
                                                                          : NULL;
}

static loom_status supports(loom__machine *machine, loom_feature feature)
{
    (void)machine;
    RETURN_ERROR_IF(feature < LOOM_FEATURE_BUILD || feature > LOOM_FEATURE_APPLY, LOOM_INVALID_ARGUMENT,
                    "feature %d is not known to this version", (int)feature);
    switch (feature) {
    case LOOM_FEATURE_VIEWS:
    case LOOM_FEATURE_WRITING_VIEWS:
        return loom__fail(LOOM_UNSUPPORTED, "the cpu machine runs no kernels of users; use the bulk calls, or "
                                            "loom_map_for_each");
    case LOOM_FEATURE_CONCURRENT_READS:
        return loom__fail(LOOM_UNSUPPORTED, "on the cpu machine a lookup waits for a running insert or erase; give "
                                            "writers smaller batches if lookups must not wait long");
    case LOOM_FEATURE_ASYNCHRONOUS:
        return loom__fail(LOOM_UNSUPPORTED, "the cpu machine has done its work when a call returns; call from a thread "
                                            "of your own to go on meanwhile");
    default:
        return LOOM_OK;
    }
}

static loom_status check_stream(loom__machine *machine, loom_stream stream)
{
    (void)machine;
    RETURN_ERROR_IF(stream != NULL, LOOM_INVALID_ARGUMENT, "the cpu machine has no streams; pass NULL");
    return LOOM_OK;
}

/* ---- memory ---- */

static loom_status copy_host(loom__machine *machine, void *to, const void *from, size_t bytes, loom_stream stream)
{
    (void)machine;
    (void)stream;
    memcpy(to, from, bytes);
    return LOOM_OK;
}

enum { COPY_PIECE = 1 << 20 };

typedef struct copy_work {
    unsigned char *to;
    const unsigned char *from;
    size_t bytes;
} copy_work;

static void copy_piece(void *argument, uint64_t piece)
{
    copy_work *work = argument;
    size_t begin = piece * COPY_PIECE, left = work->bytes - begin;
    memcpy(work->to + begin, work->from + begin, left < COPY_PIECE ? left : COPY_PIECE);
}

static loom_status copy_table(loom__machine *machine, void *to, const void *from, size_t bytes, loom_stream stream)
{
    (void)stream;
    copy_work work = {to, from, bytes};
    loom__pool_run(((cpu_state *)machine)->pool, (bytes + COPY_PIECE - 1) / COPY_PIECE, copy_piece, &work);
    return LOOM_OK;
}

static void host_parallel(loom__machine *machine, uint64_t tasks, void (*task)(void *argument, uint64_t index),
                          void *argument)
{
    loom__pool_run(((cpu_state *)machine)->pool, tasks, task, argument);
}

static loom_status measure_limit(loom__machine *machine, loom_limit *limit)
{
    cpu_state *cpu = (cpu_state *)machine;
    RETURN_ERROR_IF(limit->kind == LOOM_LIMIT_HOST_COPY || limit->kind == LOOM_LIMIT_HOST_RANDOM_READ ||
                        limit->kind >= LOOM_LIMIT_TO_HOST_COPY,
                    LOOM_UNSUPPORTED, "the cpu machine works in host memory: there is no link to measure");
    RETURN_ERROR_IF(limit->kind == LOOM_LIMIT_ANSWERED_READ, LOOM_UNSUPPORTED,
                    "reads with answers are measured on devices only; ask for LOOM_LIMIT_RANDOM_READ");
    return loom__cpu_measure_limit(cpu->pool, cpu->threads, limit);
}

const loom__machine_ops loom__cpu_machine = {
    .interface_version = LOOM__MACHINE_INTERFACE,
    .id = LOOM_MACHINE_CPU,
    .name = "cpu",
    .present = present,
    .open = open_machine,
    .close = close_machine,
    .describe = describe,
    .kernels = kernels,
    .supports = supports,
    .check_stream = check_stream,
    .read_table = copy_host,
    .write_table = copy_host,
    .copy_table = copy_table,
    .select_rows = loom__cpu_select_rows,
    .take_rows = loom__cpu_take_rows,
    .put_rows = loom__cpu_put_rows,
    .sketch_keys = loom__cpu_sketch_keys,
    .host_parallel = host_parallel,
    .measure_limit = measure_limit,
    .hash_keys = loom__cpu_hash_keys,
    .refer_strings = loom__cpu_refer_strings,
    .place_strings = loom__cpu_place_strings,
    .copy_strings = loom__cpu_copy_strings,
    .count_operations = loom__cpu_count_operations,
    .move_by_kind = loom__cpu_move_by_kind,
    .sort_hashes = loom__cpu_sort_hashes,
    .group_rows = loom__cpu_group_rows,
    .run_sequences = loom__cpu_run_sequences,
};
