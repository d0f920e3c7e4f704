/* loom_tests: runs every test in a process of its own, with a time-out.
 *
 * The parent never calls the library. For each test it makes an empty directory, forks, and executes itself again
 * with --run NAME; the child's output goes to an unlinked file and is shown only if the test fails. A child is the
 * leader of a process group, so that processes it started end with it.
 */
#define _GNU_SOURCE 1
#include "harness.h"
#include "test_options.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define DEFAULT_TIMEOUT_SECONDS 60
#define SHOWN_OUTPUT_BYTES      (64 * 1024)

#if SANITIZED_ADDRESS
/* Defaults for ASAN_OPTIONS: failed allocations return NULL, since the library handles them. Only tests with
 * .leak_check look for leaks. */
const char *__asan_default_options(void);
__attribute__((visibility("default"), used)) const char *__asan_default_options(void)
{
    return "detect_leaks=0:allocator_may_return_null=1";
}
#endif

/* One test as it is run and counted. An entry of TEST_EACH and its kin makes several. */
typedef struct test_case {
    char name[128];
    test_entry *entry;
    const table_case *table;
    table_form form; /* its type is 0 in a TEST */
} test_case;

typedef struct job {
    pid_t pid; /* 0: free */
    test_case *test;
    uint32_t tests; /* it runs so many, from `test` on, and stops behind one that does not pass */
    int output;
    int progress; /* a file: how many have passed */
    double started;
    double timeout;
    int timed_out;
    char directory[256];
} job;

static char program_path[1024];
static char run_directory[256];

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

/* ---- The list of tests -------------------------------------------------------------------------------- */

static int compare_names(const void *a, const void *b)
{
    return strcmp(((const test_case *)a)->name, ((const test_case *)b)->name);
}

/* Whether the test runs for tables of this engine and form. */
static int is_meant(const test_entry *entry, const table_case *table, const table_form *form)
{
    if (!(entry->each >> form->type & 1))
        return 0;
    return entry->each == TEST_CASES || table == table_case_default(form->type) ||
           (entry->every_engine && !table->partial);
}

/* Names the case. For an engine other than the default, test_open_x becomes test_perfect_x_4_8, and test_multimap_x
 * becomes test_chain_x_4_8. With TEST_EACH_CASE, test_x becomes test_x_perfect_map_4_8. */
static void name_case(test_case *test)
{
    const table_form *form = &test->form;
    const char *own = form->type == LOOM_TYPE_MULTIMAP ? "test_multimap_" : "test_open_";
    const char *name = test->entry->name, *rest = name + strlen(own);
    const size_t room = sizeof test->name;
    if (form->type == LOOM_TYPE_DEFAULT)
        snprintf(test->name, room, "%s", name);
    else if (test->entry->each == TEST_CASES)
        snprintf(test->name, room, "%s_%s_%s_%u_%u", name, test->table->name, table_type_name(form->type),
                 form->key_bytes, form->value_bytes);
    else if (test->table != table_case_default(form->type) && strncmp(name, own, strlen(own)) == 0)
        snprintf(test->name, room, "test_%s_%s_%u_%u", test->table->name, rest, form->key_bytes, form->value_bytes);
    else
        snprintf(test->name, room, "%s_%u_%u", name, form->key_bytes, form->value_bytes);
}

static test_case *make_cases(size_t *count)
{
    size_t room = 0, used = 0, forms = 1;
    const table_case *table;
    for (size_t i = 0; (table = table_case_at(i)) != NULL; i++)
        for (const table_form *form = table->forms; form->type; form++)
            forms++;
    for (test_entry *entry = test_entries(); entry; entry = entry->next)
        room += forms;
    test_case *cases = test_allocate(room * sizeof *cases);
    for (test_entry *entry = test_entries(); entry; entry = entry->next) {
        if (!entry->each)
            cases[used++] = (test_case){.entry = entry, .table = table_case_default(LOOM_TYPE_MAP)};
        for (size_t i = 0; (table = table_case_at(i)) != NULL; i++)
            for (const table_form *form = table->forms; form->type; form++)
                if (is_meant(entry, table, form))
                    cases[used++] = (test_case){.entry = entry, .table = table, .form = *form};
    }
    for (size_t i = 0; i < used; i++)
        name_case(&cases[i]);
    qsort(cases, used, sizeof *cases, compare_names);
    for (size_t i = 1; i < used; i++)
        if (strcmp(cases[i - 1].name, cases[i].name) == 0) {
            fprintf(stderr, "two tests are called %s\n", cases[i].name);
            exit(2);
        }
    *count = used;
    return cases;
}

/* Buckets have four layouts: pairs (4_4), keys with values in the same line (8_4 or 4_8, as the seed decides), keys
 * with values behind the line (8_8), and keys alone (8_0; 4_0 has more slots). A test without widths always runs. */
static int is_layout_of_its_own(const test_options *o, const test_case *test)
{
    test_run run;
    test_seed_run(&run, o->seed, test->entry->name);
    const uint32_t in_line = random_below(&run.random, 2) == 0 ? 8 : 4; /* bytes of the key */
    const uint32_t widths[4][2] = {{4, 4}, {in_line, 12 - in_line}, {8, 8}, {8, 0}};
    uint32_t first = test->entry->each & (TEST_MAPS | TEST_MULTIMAPS) ? 0 : 3,
             end = test->entry->each & (TEST_SETS | TEST_FILTERS) ? 4 : 3;
    if (!test->entry->each)
        return 1;
    if (test->entry->long_tier) {
        first += (uint32_t)random_below(&run.random, end - first);
        end = first + 1;
    }
    for (uint32_t i = first; i < end; i++)
        if (test->form.key_bytes == widths[i][0] && test->form.value_bytes == widths[i][1])
            return 1;
    return 0;
}

static int is_chosen(const test_options *o, const test_case *test)
{
    if ((o->filter && !strstr(test->name, o->filter)) || (test->entry->hidden && !o->hidden))
        return 0;
    if (o->except && strstr(test->name, o->except))
        return 0;
    if ((o->only & ONLY_THREADS && !test->entry->threads) || (o->only & ONLY_LONG && !test->entry->long_tier))
        return 0;
    return !(o->only & ONLY_LAYOUTS) || is_layout_of_its_own(o, test);
}

static int runs_quickly(const test_options *o, const test_case *test)
{
    return o->quick || (o->short_tier && test->entry->long_tier);
}

/* A new directory under $TMPDIR or /tmp. */
static const char *make_directory(char *path, size_t room)
{
    const char *under = getenv("TMPDIR");
    snprintf(path, room, "%s/loom_tests_XXXXXX", under && under[0] ? under : "/tmp");
    return mkdtemp(path);
}

/* ---- One test in this process --------------------------------------------------------------------------- */

static int run_here(const test_options *o, const test_case *test)
{
    char own_directory[256];
    const char *child_arguments[8] = {NULL};
    loom_simd simds[4];
    test_run run;
    memset(&run, 0, sizeof run);
    run.short_tier = o->short_tier;
    run.quick = runs_quickly(o, test);
    run.data = o->data;
    run.program = program_path;
    run.extra = child_arguments;
    child_arguments[0] = o->quick ? "--quick" : "--full";
    run.directory = o->directory ? o->directory : make_directory(own_directory, sizeof own_directory);
    if (!run.directory) {
        fprintf(stderr, "no directory for the test: %s\n", strerror(errno));
        return TEST_EXIT_FAILED;
    }
    if (!o->directory)
        test_own_directory(run.directory);
    run.simds = simds;
    run.simd_count = test_find_simds(simds);
    if (run.simd_count == 0 || simds[0] != LOOM_SIMD_SCALAR)
        test_fail(__FILE__, __LINE__, "no context with LOOM_SIMD_SCALAR could be made: %s", loom_last_error());
    run.key_bytes = test->form.key_bytes;
    run.value_bytes = test->form.value_bytes;
    run.type = test->form.type;
    run.table = test->table;
    if (run.type && test->table != table_case_default(run.type))
        run.engine = test->table->engine;
    if (test->entry->each) {
        uint32_t done = 0;
        test_seed_run(&run, o->seed, test->name);
        const uint32_t drawn = (uint32_t)random_below(&run.random, run.simd_count);
        /* The kinds of SIMD, then the cuda machine. */
        for (uint32_t i = 0; i <= run.simd_count; i++) {
            int cuda = i == run.simd_count;
            const char *kind = cuda ? "cuda" : test_simd_name(simds[i]);
            if ((o->simd && strcmp(o->simd, kind) != 0) || (cuda && test->entry->cpu_only))
                continue;
            if (cuda ? loom_machine_present(LOOM_MACHINE_CUDA) != LOOM_OK : o->one_kind && !o->simd && i != drawn)
                continue;
            run.machine = cuda ? LOOM_MACHINE_CUDA : LOOM_MACHINE_CPU;
            run.quick = cuda || runs_quickly(o, test); /* calls with one key cost a launch each */
            run.simd = cuda ? LOOM_SIMD_BEST : simds[i];
            test_seed_run(&run, o->seed, test->name);
            fprintf(stderr, "%s, %s, seed 0x%" PRIx64 "\n", test->name, kind, o->seed);
            test_note("%s", "");
            test->entry->body(&run);
            done++;
        }
        if (!done)
            test_skip("there is no %s here, or it is nothing for this test", o->simd);
    } else {
        run.machine = LOOM_MACHINE_CPU;
        run.simd = LOOM_SIMD_BEST;
        test_seed_run(&run, o->seed, test->name);
        fprintf(stderr, "%s, seed 0x%" PRIx64 "\n", test->name, o->seed);
        const int on_cuda = test->entry->every_machine && loom_machine_present(LOOM_MACHINE_CUDA) == LOOM_OK;
        if (!on_cuda || !o->simd || strcmp(o->simd, "cuda") != 0)
            test->entry->body(&run);
        if (on_cuda) {
            run.machine = LOOM_MACHINE_CUDA;
            run.quick = 1;
            test_seed_run(&run, o->seed, test->name);
            fprintf(stderr, "%s, cuda, seed 0x%" PRIx64 "\n", test->name, o->seed);
            test_note("%s", "");
            test->entry->body(&run);
        }
    }
    if (!o->directory)
        test_remove_tree(run.directory);
    return 0;
}

/* Runs the tests whose names stand in `names`, one after the other, and notes how many have passed. */
static int run_several_here(const test_options *o, const test_case *cases, size_t count, const char *names)
{
    uint32_t passed = 0;
    int result = 0;
    for (const char *name = names; name != NULL && result == 0; passed++) {
        const size_t length = strcspn(name, ",");
        char directory[300];
        test_options own = *o;
        size_t i = 0;
        while (i < count && (strlen(cases[i].name) != length || strncmp(cases[i].name, name, length) != 0))
            i++;
        if (i == count) {
            fprintf(stderr, "no test is called %.*s\n", (int)length, name);
            return 2;
        }
        if (o->progress && pwrite(atoi(o->progress), &passed, sizeof passed, 0) != sizeof passed)
            return TEST_EXIT_FAILED;
        if (o->directory && strchr(names, ',')) {
            snprintf(directory, sizeof directory, "%.200s/%u", o->directory, passed);
            own.directory = mkdir(directory, 0700) == 0 ? directory : o->directory;
        }
        result = run_here(&own, &cases[i]);
        name = name[length] != 0 ? name + length + 1 : NULL;
    }
    return result;
}

/* ---- All tests, each in a process ------------------------------------------------------------------------ */

static int open_output(void)
{
    char path[300];
    snprintf(path, sizeof path, "%s/output_XXXXXX", run_directory);
    int file = mkstemp(path);
    if (file >= 0)
        unlink(path);
    return file;
}

/* Makes the program that is about to be executed look for leaks. */
static void ask_for_leaks(void)
{
    const char *given = getenv("ASAN_OPTIONS");
    char settings[512];
    if (given && strstr(given, "detect_leaks"))
        return;
    snprintf(settings, sizeof settings, "%s%sdetect_leaks=1", given ? given : "", given && given[0] ? ":" : "");
    setenv("ASAN_OPTIONS", settings, 1);
}

static void execute(const test_options *o, const job *own)
{
    static char names[MAX_TOGETHER * (sizeof own->test->name + 1)];
    char seed[32], progress[16];
    const char *arguments[MAX_WRAPPER_WORDS + 20];
    const test_case *test = own->test;
    int count = 0;
    size_t length = 0;
    for (uint32_t i = 0; i < own->tests; i++)
        length += (size_t)snprintf(names + length, sizeof names - length, "%s%s", i > 0 ? "," : "", own->test[i].name);
    snprintf(seed, sizeof seed, "0x%" PRIx64, o->seed);
    snprintf(progress, sizeof progress, "%d", own->progress);
    for (int i = 0; i < o->wrapper_words; i++)
        arguments[count++] = o->wrapper[i];
    arguments[count++] = program_path;
    arguments[count++] = "--run";
    arguments[count++] = names;
    arguments[count++] = "--seed";
    arguments[count++] = seed;
    arguments[count++] = "--directory";
    arguments[count++] = own->directory;
    arguments[count++] = "--progress";
    arguments[count++] = progress;
    arguments[count++] = "--data";
    arguments[count++] = o->data;
    if (o->simd) {
        arguments[count++] = "--simd";
        arguments[count++] = o->simd;
    }
    arguments[count++] = o->quick ? "--quick" : "--full";
    if (!o->short_tier)
        arguments[count++] = "--all";
    if (o->one_kind)
        arguments[count++] = "--one-kind";
    arguments[count] = NULL;
    if (SANITIZED_ADDRESS && test->entry->leak_check)
        ask_for_leaks();
    /* exec does not write to its arguments: the casts only remove const. */
    if (o->wrapper_words)
        execvp(arguments[0], (char *const *)(uintptr_t)arguments);
    else
        execv(arguments[0], (char *const *)(uintptr_t)arguments);
    if (errno == ENOEXEC) { /* under an emulator that the system cannot start: runs the test in the fork */
        test_options here = *o;
        here.directory = own->directory;
        here.progress = progress;
        exit(run_several_here(&here, own->test, own->tests, names));
    }
    fprintf(stderr, "%s cannot be executed: %s\n", arguments[0], strerror(errno));
    _exit(TEST_EXIT_FAILED);
}

static int start(const test_options *o, job *slot, test_case *test, uint32_t tests, unsigned number)
{
    memset(slot, 0, sizeof *slot);
    snprintf(slot->directory, sizeof slot->directory, "%.200s/%u", run_directory, number);
    if (test_count_entries(run_directory) > 2 * MAX_JOBS || mkdtemp(strcat(slot->directory, "_XXXXXX")) == NULL) {
        fprintf(stderr, "no directory for %s: %s\n", test->name, strerror(errno));
        return -1;
    }
    slot->output = open_output();
    slot->progress = open_output();
    if (slot->output < 0 || slot->progress < 0) {
        fprintf(stderr, "no file for the output of %s: %s\n", test->name, strerror(errno));
        return -1;
    }
    slot->test = test;
    slot->tests = tests;
    slot->started = now();
    for (uint32_t i = 0; i < tests; i++)
        slot->timeout += (test[i].entry->timeout_seconds ? test[i].entry->timeout_seconds : DEFAULT_TIMEOUT_SECONDS) *
                         o->timeout_scale;
    fflush(stdout);
    fflush(stderr);
    pid_t pid = fork();
    if (pid < 0) {
        fprintf(stderr, "fork failed: %s\n", strerror(errno));
        return -1;
    }
    if (pid == 0) {
        sigset_t none;
        sigemptyset(&none);
        sigprocmask(SIG_SETMASK, &none, NULL);
        setpgid(0, 0);
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        int nothing = open("/dev/null", O_RDONLY);
        dup2(nothing, 0);
        dup2(slot->output, 1);
        dup2(slot->output, 2);
        close(nothing);
        close(slot->output);
        execute(o, slot);
    }
    setpgid(pid, pid); /* also here: whichever of the two comes first */
    slot->pid = pid;
    return 0;
}

static void show_output(int file)
{
    char buffer[4096];
    off_t size = lseek(file, 0, SEEK_END), from = 0;
    if (size > SHOWN_OUTPUT_BYTES) {
        from = size - SHOWN_OUTPUT_BYTES;
        printf("... %lld bytes left out ...\n", (long long)from);
    }
    lseek(file, from, SEEK_SET);
    for (ssize_t got; (got = read(file, buffer, sizeof buffer)) > 0;)
        fwrite(buffer, 1, (size_t)got, stdout);
}

static void show_skip_reason(int file)
{
    static char text[SHOWN_OUTPUT_BYTES + 1];
    lseek(file, 0, SEEK_SET);
    ssize_t got = read(file, text, SHOWN_OUTPUT_BYTES);
    text[got > 0 ? got : 0] = 0;
    char *reason = strstr(text, "SKIP: ");
    if (reason) {
        reason[strcspn(reason, "\n")] = 0;
        printf(" (%s)", reason + 6);
    }
}

static void print_replay(const test_options *o, const test_case *test)
{
    printf("---- replay: ");
    for (int i = 0; i < o->wrapper_words; i++)
        printf("%s ", o->wrapper[i]);
    printf("%s --run %s --seed 0x%" PRIx64 "%s%s%s%s%s\n", program_path, test->name, o->seed,
           o->quick == SANITIZED ? ""
           : o->quick            ? " --quick"
                                 : " --full",
           o->short_tier ? "" : " --all", o->one_kind ? " --one-kind" : "", o->simd ? " --simd " : "",
           o->simd ? o->simd : "");
}

typedef struct totals {
    unsigned passed, failed, skipped;
} totals;

/* Tells what became of a test that did not pass. */
static void tell_not_passed(const test_options *o, const job *slot, const test_case *test, int status, double seconds,
                            totals *sum)
{
    if (WIFEXITED(status) && WEXITSTATUS(status) == TEST_EXIT_SKIPPED && !slot->timed_out) {
        sum->skipped++;
        printf("SKIP %s", test->name);
        show_skip_reason(slot->output);
        printf("\n");
    } else {
        sum->failed++;
        printf("FAIL %s: ", test->name);
        if (slot->timed_out)
            printf("no end after %.0f s", slot->timeout);
        else if (WIFSIGNALED(status))
            printf("killed by signal %d (%s) after %.2f s", WTERMSIG(status), strsignal(WTERMSIG(status)), seconds);
        else
            printf("exit status %d after %.2f s", WEXITSTATUS(status), seconds);
        printf("\n---- output of %s\n", test->name);
        show_output(slot->output);
        print_replay(o, test);
    }
}

/* Tells which tests of a process have passed, and what became of the next one. Returns how many tests these are. */
static uint32_t finish(const test_options *o, job *slot, int status, totals *sum, FILE *times)
{
    const int all_well = WIFEXITED(status) && WEXITSTATUS(status) == 0 && !slot->timed_out;
    uint32_t passed = 0;
    if (pread(slot->progress, &passed, sizeof passed, 0) != sizeof passed || passed > slot->tests)
        passed = 0;
    if (all_well || passed == slot->tests) /* a process that fails at its very end: its last test has failed */
        passed = slot->tests - !all_well;
    const uint32_t ended = passed + !all_well;
    const double seconds = (now() - slot->started) / ended;
    kill(-slot->pid, SIGKILL); /* processes that the tests left running */
    for (uint32_t i = 0; times && i < ended; i++)
        fprintf(times, "%.2f %s\n", seconds, slot->test[i].name);
    for (uint32_t i = 0; o->verbose && i < passed; i++)
        printf("PASS %s (%.2f s)\n", slot->test[i].name, seconds);
    sum->passed += passed;
    if (!all_well)
        tell_not_passed(o, slot, &slot->test[passed], status, seconds, sum);
    fflush(stdout);
    close(slot->output);
    close(slot->progress);
    test_remove_tree(slot->directory);
    slot->pid = 0;
    return ended;
}

/* How many of the `left` tests from `test` on one process runs. */
static uint32_t tests_together(const test_options *o, const test_case *test, size_t left)
{
    uint32_t count = 0;
    while (count < left && count < (uint32_t)o->together && test[count].entry->each && !test[count].entry->alone)
        count++;
    return count > 0 ? count : 1;
}

static volatile sig_atomic_t interrupted;

static void interrupt(int number)
{
    (void)number;
    interrupted = 1;
}

static int run_all(const test_options *o, test_case *cases, size_t count)
{
    static job jobs[MAX_JOBS];
    totals sum = {0, 0, 0};
    size_t next = 0, chosen = 0, done = 0, told = 0;
    int running = 0;
    double told_at = now();
    FILE *times = o->times ? fopen(o->times, "a") : NULL;
    sigset_t child_signal;
    if (o->times && !times) {
        fprintf(stderr, "%s cannot be written: %s\n", o->times, strerror(errno));
        return 1;
    }
    if (!make_directory(run_directory, sizeof run_directory)) {
        fprintf(stderr, "%s cannot be made: %s\n", run_directory, strerror(errno));
        return 1;
    }
    chmod(run_directory, 0711); /* tests that give up root's rights still have to reach their own directory */
    for (size_t i = 0; i < count; i++)
        if (is_chosen(o, &cases[i]))
            cases[chosen++] = cases[i];
    printf("%zu tests, seed 0x%" PRIx64 "\n", chosen, o->seed);
    sigemptyset(&child_signal);
    sigaddset(&child_signal, SIGCHLD);
    sigprocmask(SIG_BLOCK, &child_signal, NULL);
    signal(SIGINT, interrupt);
    signal(SIGTERM, interrupt);
    while ((next < chosen || running) && !interrupted) {
        for (int i = 0; i < o->jobs && next < chosen; i++)
            if (!jobs[i].pid) {
                const uint32_t tests = tests_together(o, &cases[next], chosen - next);
                if (start(o, &jobs[i], &cases[next], tests, (unsigned)next) != 0) {
                    sum.failed += tests;
                    done += tests;
                } else {
                    running++;
                }
                next += tests;
            }
        struct timespec wait = {0, 100 * 1000 * 1000};
        sigtimedwait(&child_signal, NULL, &wait);
        for (int i = 0; i < o->jobs; i++) {
            int status;
            if (!jobs[i].pid)
                continue;
            if (waitpid(jobs[i].pid, &status, WNOHANG) == jobs[i].pid) {
                test_case *first = jobs[i].test;
                const uint32_t tests = jobs[i].tests, ended = finish(o, &jobs[i], status, &sum, times);
                done += ended;
                running--;
                if (ended < tests) { /* the others, in another process */
                    if (start(o, &jobs[i], first + ended, tests - ended, (unsigned)(first + ended - cases)) == 0) {
                        running++;
                    } else {
                        sum.failed += tests - ended;
                        done += tests - ended;
                    }
                }
            } else if (!jobs[i].timed_out && now() - jobs[i].started > jobs[i].timeout) {
                jobs[i].timed_out = 1;
                kill(-jobs[i].pid, SIGKILL);
                kill(jobs[i].pid, SIGKILL);
            }
        }
        if (!o->verbose && done != told && (done == chosen || now() - told_at > 2.0)) {
            printf("  %zu of %zu done\n", done, chosen);
            fflush(stdout);
            told = done;
            told_at = now();
        }
    }
    for (int i = 0; i < o->jobs; i++)
        if (jobs[i].pid) { /* interrupted */
            kill(-jobs[i].pid, SIGKILL);
            waitpid(jobs[i].pid, NULL, 0);
        }
    test_remove_tree(run_directory);
    if (times)
        fclose(times);
    if (interrupted) {
        printf("interrupted after %zu of %zu tests\n", done, chosen);
        return 1;
    }
    if (chosen == 0) {
        printf("no test is called like that\n");
        sum.failed++;
    }
    printf("%u passed, %u failed, %u skipped\n", sum.passed, sum.failed, sum.skipped);
    return sum.failed ? 1 : 0;
}

/* ---- The program -------------------------------------------------------------------------------------------- */

int main(int count, char **arguments)
{
    test_options o;
    size_t case_count;
    ssize_t length = readlink("/proc/self/exe", program_path, sizeof program_path - 1);
    if (length < 0)
        snprintf(program_path, sizeof program_path, "%s", arguments[0]);
    else
        program_path[length] = 0;
    int stop = test_options_parse(&o, count, arguments);
    if (stop)
        return stop - 1;

    test_case *cases = make_cases(&case_count);
    int result = 0;
    if (o.list) {
        for (size_t i = 0; i < case_count; i++)
            if (is_chosen(&o, &cases[i]))
                printf("%s\n", cases[i].name);
    } else if (o.run) {
        result = run_several_here(&o, cases, case_count, o.run);
    } else {
        result = run_all(&o, cases, case_count);
    }
    free(cases);
    return result;
}
