/* `loom doctor`: what this machine is, what hashloom can use of it, and what is missing. Always exits with 0: a machine
 * without a GPU is not an error. */
#define _POSIX_C_SOURCE 200809L
#include "tool.h"

#include <glob.h>
#include <loom/loom.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define THP_SETTING    "/sys/kernel/mm/transparent_hugepage/enabled"
#define DRIVER_VERSION "/proc/driver/nvidia/version"
#define DRIVER_CONTROL "/dev/nvidiactl"
#define CUDA_NVCC      "/usr/local/cuda/bin/nvcc"

/* How the build resolved LOOM_CUDA (tools/CMakeLists.txt). */
#ifndef LOOM_TOOL_CUDA
#define LOOM_TOOL_CUDA "built"
#endif

typedef enum cuda_build {
    CUDA_BUILT,
    CUDA_OFF,     /* left out on purpose: nothing about GPUs is missing */
    CUDA_NO_NVCC, /* this and the next two: LOOM_CUDA=auto left the cuda machine out */
    CUDA_NO_GPU,
    CUDA_OLD_NVCC
} cuda_build;

static const struct {
    const char *state; /* LOOM_TOOL_CUDA */
    const char *told;
} cuda_builds[] = {
    [CUDA_BUILT] = {"built", "part of this build"},
    [CUDA_OFF] = {"off", "left out of this build: LOOM_CUDA=off"},
    [CUDA_NO_NVCC] = {"no nvcc", "left out of this build: LOOM_CUDA=auto found no nvcc"},
    [CUDA_NO_GPU] = {"no gpu", "left out of this build: LOOM_CUDA=auto found no GPU where it was built"},
    [CUDA_OLD_NVCC] = {"old nvcc", "left out of this build: LOOM_CUDA=auto found an nvcc older than 12.4"},
};

/* A state that is not in the list counts as built: doctor then repeats what the library says. */
static cuda_build how_cuda_was_built(void)
{
    for (size_t i = 0; i < sizeof cuda_builds / sizeof *cuda_builds; i++) {
        if (strcmp(LOOM_TOOL_CUDA, cuda_builds[i].state) == 0)
            return (cuda_build)i;
    }
    return CUDA_BUILT;
}

/* Advice, collected on the way and printed at the end. */
typedef struct findings {
    char advice[8][400];
    size_t count;
    bool has_gpu;
} findings;

__attribute__((format(printf, 2, 3))) static void advise(findings *found, const char *format, ...)
{
    va_list arguments;
    if (found->count == sizeof found->advice / sizeof *found->advice)
        return;
    va_start(arguments, format);
    vsnprintf(found->advice[found->count++], sizeof found->advice[0], format, arguments);
    va_end(arguments);
}

/* The first line of a file without its newline; false if it cannot be read. */
static bool read_line(const char *path, char *line, int size)
{
    FILE *file = fopen(path, "r");
    if (!file)
        return false;
    const bool got = fgets(line, size, file) != NULL;
    fclose(file);
    if (got)
        line[strcspn(line, "\n")] = 0;
    return got;
}

static double gibibytes(uint64_t bytes)
{
    return (double)bytes / (1024.0 * 1024.0 * 1024.0);
}

static double available_gibibytes(void)
{
    char line[128];
    unsigned long long kibibytes = 0;
    FILE *file = fopen("/proc/meminfo", "r");
    while (file && fgets(line, sizeof line, file) && sscanf(line, "MemAvailable: %llu kB", &kibibytes) != 1) {
    }
    if (file)
        fclose(file);
    return gibibytes((uint64_t)kibibytes << 10);
}

/* ---- hashloom and the processor ----------------------------------------------------------------------- */

static void tell_versions(findings *found)
{
    const unsigned running = loom_version();
#if defined(__clang__)
    const char *compiler = __VERSION__;
#else
    const char *compiler = "gcc " __VERSION__;
#endif
    printf("hashloom\n");
    printf("  library       %u.%u.%u\n", running / 10000, running / 100 % 100, running % 100);
    printf("  header        %d.%d.%d\n", LOOM_VERSION_MAJOR, LOOM_VERSION_MINOR, LOOM_VERSION_PATCH);
    printf("  compiler      %s\n", compiler);
    if (running != LOOM_VERSION)
        advise(found, "This tool was built with another version of hashloom than the library it found: build both from "
                      "the same tree, or look at LD_LIBRARY_PATH.");
}

static void tell_huge_pages(findings *found, const loom_context_info *info)
{
    char setting[128] = "";
    if (info->huge_page_bytes > 0)
        printf("  huge pages    %llu KiB, for tables\n", (unsigned long long)(info->huge_page_bytes >> 10));
    else
        printf("  huge pages    none\n");
    if (!read_line(THP_SETTING, setting, sizeof setting)) {
        printf("  transparent   this kernel has no transparent huge pages\n");
        advise(found,
               "Lookups are up to twice as fast with huge pages: use a kernel with CONFIG_TRANSPARENT_HUGEPAGE.");
        return;
    }
    printf("  transparent   %s\n", setting);
    if (strstr(setting, "[never]"))
        advise(found, "Lookups are up to twice as fast with huge pages: `echo madvise | sudo tee " THP_SETTING "`.");
}

static void tell_processor(findings *found)
{
    loom_context *context;
    loom_context_info info = LOOM_CONTEXT_INFO_INIT;
    loom_context_config config = LOOM_CONTEXT_CONFIG_INIT;
    config.machine = LOOM_MACHINE_CPU;
    printf("\nthis machine\n");
    if (loom_context_create(&config, &context) != LOOM_OK) {
        printf("  cpu           no context could be made: %s\n", loom_last_error());
        return;
    }
    if (loom_context_describe(context, &info) == LOOM_OK) {
        const long online = sysconf(_SC_NPROCESSORS_ONLN);
        printf("  processor     %s\n", info.device_name);
        printf("  cores         %ld, of which hashloom uses %u\n", online, (unsigned)info.threads);
        printf("  simd          %s\n", info.simd_name);
        printf("  memory        %.1f GiB, %.1f GiB of it available\n", gibibytes(info.memory_bytes),
               available_gibibytes());
        tell_huge_pages(found, &info);
        if ((long)info.threads < online)
            advise(found,
                   "This process may use only %u of %ld cores: taskset, a container or a cgroup limits it; widen it "
                   "there.",
                   (unsigned)info.threads, online);
    }
    loom_context_destroy(context);
}

/* ---- GPUs --------------------------------------------------------------------------------------------- */

/* Whether the PCI bus has an NVIDIA display device, with or without a driver. */
static bool has_nvidia_device(void)
{
    glob_t matches;
    bool has = false;
    if (glob("/sys/bus/pci/devices/*/vendor", 0, NULL, &matches) != 0)
        return false;
    for (size_t i = 0; i < matches.gl_pathc && !has; i++) {
        char vendor[16] = "", class_path[300], class_code[16] = "";
        const char *path = matches.gl_pathv[i];
        snprintf(class_path, sizeof class_path, "%.*sclass", (int)(strlen(path) - strlen("vendor")), path);
        has = read_line(path, vendor, sizeof vendor) && strcmp(vendor, "0x10de") == 0 &&
              read_line(class_path, class_code, sizeof class_code) && strncmp(class_code, "0x03", 4) == 0;
    }
    globfree(&matches);
    return has;
}

static bool find_nvcc(char path[512])
{
    const char *directories = getenv("PATH");
    while (directories && *directories) {
        const size_t length = strcspn(directories, ":");
        snprintf(path, 512, "%.*s/nvcc", length < 400 ? (int)length : 0, directories);
        if (length > 0 && access(path, X_OK) == 0)
            return true;
        directories += length + (directories[length] == ':');
    }
    snprintf(path, 512, "%s", CUDA_NVCC);
    return access(path, X_OK) == 0;
}

static void advise_on_driver(findings *found, bool has_driver, bool has_control)
{
    if (found->has_gpu && !has_driver)
        advise(found, "There is an NVIDIA device but no driver: install the driver package of your distribution.");
    if (has_driver && !has_control)
        advise(found, "The NVIDIA driver is loaded but " DRIVER_CONTROL " is missing: run nvidia-modprobe, or pass the "
                      "devices into the container (--gpus all).");
}

/* The GPU may be newer than the build, or the build may come from another machine. */
static void advise_to_build_again(findings *found, cuda_build build, bool has_nvcc)
{
    const char *first = "";
    if (build == CUDA_OLD_NVCC)
        first = "install CUDA toolkit 12.4 or newer, then ";
    else if (!has_nvcc)
        first = "install the CUDA toolkit, 12.4 or newer, and put nvcc in PATH, then ";
    advise(found,
           "There is an NVIDIA device, but the cuda machine was left out of this build: %sbuild hashloom again with "
           "-DLOOM_CUDA=on.",
           first);
}

static void tell_gpu(findings *found)
{
    char driver[256], nvcc[512];
    const cuda_build build = how_cuda_was_built();
    const bool has_driver = read_line(DRIVER_VERSION, driver, sizeof driver);
    const bool has_control = access(DRIVER_CONTROL, F_OK) == 0;
    const bool has_nvcc = find_nvcc(nvcc);
    found->has_gpu = has_nvidia_device() || has_control;
    printf("\nNVIDIA\n");
    printf("  device        %s\n", found->has_gpu ? "found" : "none on the PCI bus");
    printf("  driver        %s\n", has_driver ? driver : "none (" DRIVER_VERSION " is not there)");
    printf("  device files  %s\n", has_control ? DRIVER_CONTROL : "none (" DRIVER_CONTROL " is not there)");
    printf("  nvcc          %s\n", has_nvcc ? nvcc : "none (looked in PATH and in /usr/local/cuda/bin)");
    printf("  cuda machine  %s\n", cuda_builds[build].told);
    if (build == CUDA_OFF || (build != CUDA_BUILT && !found->has_gpu))
        return;
    advise_on_driver(found, has_driver, has_control);
    if (loom_machine_present(LOOM_MACHINE_CUDA) == LOOM_OK)
        return; /* a module was found, whatever the build left out */
    if (build != CUDA_BUILT)
        advise_to_build_again(found, build, has_nvcc);
    else if (found->has_gpu && !has_nvcc)
        advise(found, "There is an NVIDIA device but no nvcc: the cuda machine is built with the CUDA toolkit; install "
                      "it and put nvcc in PATH.");
}

/* Why the cuda machine is not present. The library knows nothing of LOOM_CUDA and would advise people to install
 * nvcc. */
static const char *why_no_cuda(void)
{
    return how_cuda_was_built() == CUDA_BUILT ? loom_last_error() : "it was left out of this build";
}

static bool tell_machines(void)
{
    static const struct {
        const char *name;
        loom_machine machine;
    } machines[] = {{"cpu", LOOM_MACHINE_CPU}, {"cuda", LOOM_MACHINE_CUDA}};
    bool all = true;
    printf("\nmachines of hashloom\n");
    for (size_t i = 0; i < sizeof machines / sizeof *machines; i++) {
        const bool present = loom_machine_present(machines[i].machine) == LOOM_OK;
        const char *why = machines[i].machine == LOOM_MACHINE_CUDA ? why_no_cuda() : loom_last_error();
        printf("  %-12s  %s%s\n", machines[i].name, present ? "present" : "not present: ", present ? "" : why);
        all = all && present;
    }
    return all;
}

/* Why there is nothing to advise. */
static const char *why_nothing(bool all_machines)
{
    if (all_machines)
        return "every machine is present";
    if (how_cuda_was_built() == CUDA_OFF)
        return "the cpu machine has what it needs, and the cuda machine was switched off";
    return "the cpu machine has what it needs, and no GPU lies idle here";
}

static int run_doctor(int argc, char **argv)
{
    findings found = {.count = 0};
    (void)argv;
    if (argc > 0)
        return tool_wrong_use("doctor takes no arguments.");
    tell_versions(&found);
    tell_processor(&found);
    tell_gpu(&found);
    const bool all_machines = tell_machines();
    if (found.count == 0 && found.has_gpu && !all_machines && how_cuda_was_built() != CUDA_OFF)
        advise(&found, "There is an NVIDIA device that the cuda machine cannot use: the line \"cuda\" above says why.");
    printf("\nwhat would help\n");
    for (size_t i = 0; i < found.count; i++)
        printf("  - %s\n", found.advice[i]);
    if (found.count == 0)
        printf("  nothing: %s\n", why_nothing(all_machines));
    return TOOL_OK;
}

const tool_command tool_doctor = {
    "doctor", "", "what this machine is, what hashloom can use of it, what is missing", "", run_doctor, NULL};
