/* loom_sim: the lane simulator from the command line (`./dev sim`). See docs/simulator.md. */
#include "simt/sim_case.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

static const char usage_text[] =
    "loom_sim --case CASE --seed S       one run, told whether it fails or not\n"
    "loom_sim --case CASE --runs N       N runs, from --seed (or 0) on; the first failure is told\n"
    "loom_sim --case CASE --seed S --exhaustive DETOURS [--runs N]\n"
    "                                    all runs of one tiny scenario with so many detours (at most N)\n"
    "loom_sim --list                     cases and plants\n"
    "  --plant P       with a planted fault (its case is then the default)\n"
    "  --steps N       steps shown of a failure (60)\n";

static double seconds_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static int list(void)
{
    puts("cases:");
    for (uint32_t i = 0; i < sim_case_count; i++)
        printf("  %-27s %s\n", sim_cases[i].name, sim_cases[i].about);
    puts("plants, and where they show:");
    for (uint32_t i = 0; i < sim_plant_count; i++)
        printf("  %-34s %s\n", sim_plants[i].name, sim_plants[i].case_name);
    return 0;
}

static int refuse(const char *what, const char *which)
{
    fprintf(stderr, "loom_sim: %s '%s'; --list shows what there is\n%s", what, which, usage_text);
    return 2;
}

int main(int count, char **arguments)
{
    const char *case_name = NULL, *plant_name = NULL;
    uint64_t seed = 0, runs = 0, detours = 0;
    int exhaustive = 0;
    sim_options options = {.report = stdout};
    for (int i = 1; i < count; i++) {
        const char *option = arguments[i], *value = i + 1 < count ? arguments[i + 1] : NULL;
        if (strcmp(option, "--list") == 0)
            return list();
        if (strcmp(option, "--help") == 0 || strcmp(option, "-h") == 0)
            return fputs(usage_text, stdout) < 0;
        if (value == NULL)
            return refuse("there is no option, or no value for", option);
        i++;
        if (strcmp(option, "--case") == 0)
            case_name = value;
        else if (strcmp(option, "--plant") == 0)
            plant_name = value;
        else if (strcmp(option, "--seed") == 0)
            seed = strtoull(value, NULL, 0);
        else if (strcmp(option, "--runs") == 0)
            runs = strtoull(value, NULL, 0);
        else if (strcmp(option, "--steps") == 0)
            options.trace = (uint32_t)strtoul(value, NULL, 0);
        else if (strcmp(option, "--exhaustive") == 0)
            exhaustive = 1, detours = strtoull(value, NULL, 0);
        else
            return refuse("there is no option", option);
    }
    for (uint32_t i = 0; i < sim_plant_count && plant_name != NULL; i++) {
        if (strcmp(sim_plants[i].name, plant_name) != 0)
            continue;
        options.kernel = sim_plants[i].kernel;
        case_name = case_name != NULL ? case_name : sim_plants[i].case_name;
    }
    if (plant_name != NULL && options.kernel == NULL)
        return refuse("there is no plant", plant_name);
    const sim_case *c = case_name != NULL ? sim_case_named(case_name) : NULL;
    if (c == NULL)
        return refuse("there is no case", case_name != NULL ? case_name : "");

    char replay[200];
    options.replay = replay;
    double began = seconds_now();
    if (exhaustive) {
        int complete;
        uint64_t done;
        options.tiny = 1;
        snprintf(replay, sizeof replay, "--case %s --seed %llu --exhaustive %llu%s%s", c->name,
                 (unsigned long long)seed, (unsigned long long)detours, plant_name != NULL ? " --plant " : "",
                 plant_name != NULL ? plant_name : "");
        int well = sim_explore(c, seed, (uint32_t)detours, runs > 0 ? runs : 1000000, &options, &done, &complete);
        printf("%llu runs, %s, in %.1f s\n", (unsigned long long)done,
               !well      ? "the last one failed"
               : complete ? "all there are, and all is well"
                          : "all is well so far, more are left",
               seconds_now() - began);
        return !well;
    }
    options.tell_always = runs == 0;
    uint64_t end = seed + (runs > 0 ? runs : 1);
    for (uint64_t s = seed; s < end; s++) {
        snprintf(replay, sizeof replay, "--case %s --seed %llu%s%s", c->name, (unsigned long long)s,
                 plant_name != NULL ? " --plant " : "", plant_name != NULL ? plant_name : "");
        if (!sim_run(c, s, &options))
            return 1;
    }
    if (runs > 0)
        printf("%llu runs, all is well, in %.1f s\n", (unsigned long long)runs, seconds_now() - began);
    return 0;
}
