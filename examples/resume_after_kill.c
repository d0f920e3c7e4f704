/* A counter that survives a kill. A child process counts visits in a durable map and is killed in the middle by SIGKILL,
 * which no process can catch. Then the same map is opened again, and counting goes on where it stopped.
 *
 *   cc resume_after_kill.c $(pkg-config --cflags --libs hashloom) && ./a.out
 */
#include <loom/loom.h>

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

enum { VISITORS = 1000, BATCHES = 60, KILLED_IN = 25 };

static loom_context *context;

static loom_map *open_visits(const char *path)
{
    loom_map_config config = LOOM_MAP_CONFIG_INIT;
    loom_durable_config durable = LOOM_DURABLE_CONFIG_INIT;
    loom_map *visits = NULL;
    config.key_bytes = config.value_bytes = 8;
    config.type = LOOM_TYPE_COUNTER;
    config.capacity = VISITORS;
    durable.journal_bytes = 1 << 20;
    if (loom_map_open(context, path, &config, &durable, &visits) != LOOM_OK)
        fprintf(stderr, "%s\n", loom_last_error());
    return visits;
}

/* Key 0 counts the batches: it tells how far the work has come. The other keys are the visitors. All of a batch is
 * committed at once. */
static int count_batches(loom_map *visits, uint64_t first)
{
    static uint64_t keys[1 + VISITORS];
    for (uint64_t i = 0; i <= VISITORS; i++)
        keys[i] = i;
    for (uint64_t batch = first; batch < BATCHES; batch++) {
        if (loom_map_count(visits, keys, 1 + VISITORS, NULL, NULL, NULL) != LOOM_OK) {
            fprintf(stderr, "%s\n", loom_last_error());
            return 1;
        }
        if (first == 0 && batch == KILLED_IN)
            raise(SIGKILL);
    }
    return 0;
}

/* How many batches are counted; UINT64_MAX: the visitors' counts do not agree with it. */
static uint64_t batches_done(loom_map *visits)
{
    static uint64_t keys[1 + VISITORS], counts[1 + VISITORS];
    for (uint64_t i = 0; i <= VISITORS; i++)
        keys[i] = i;
    if (loom_map_find(visits, keys, 1 + VISITORS, counts, NULL, NULL, NULL, NULL) != LOOM_OK)
        return UINT64_MAX;
    for (uint64_t i = 1; i <= VISITORS; i++)
        if (counts[i] != counts[0])
            return UINT64_MAX;
    return counts[0];
}

static int resume(const char *path)
{
    loom_map *visits = open_visits(path);
    if (visits == NULL)
        return 1;
    const uint64_t done = batches_done(visits);
    printf("the process was killed; %" PRIu64 " of %d batches are in the map\n", done, BATCHES);
    int failed = done != KILLED_IN + 1 || count_batches(visits, done);
    printf("counting goes on: %" PRIu64 " batches\n", batches_done(visits));
    failed = failed || batches_done(visits) != BATCHES;
    loom_map_destroy(visits);
    return failed;
}

int main(void)
{
    char folder[] = "/tmp/hashloom-visits-XXXXXX", command[64];
    loom_context_config config = LOOM_CONTEXT_CONFIG_INIT;
    config.machine = LOOM_MACHINE_CPU; /* the machine that has durable maps */
    if (mkdtemp(folder) == NULL || loom_context_create(&config, &context) != LOOM_OK)
        return 1;
    fflush(stdout);
    const pid_t child = fork();
    if (child == 0) {
        loom_map *visits = open_visits(folder);
        _exit(visits == NULL || count_batches(visits, 0));
    }
    int status = 0, failed = child < 0 || waitpid(child, &status, 0) != child;
    failed = failed || !WIFSIGNALED(status) || resume(folder);
    loom_context_destroy(context);
    snprintf(command, sizeof command, "rm -r %s", folder);
    failed = system(command) != 0 || failed;
    if (failed)
        fprintf(stderr, "the map is not as it should be\n");
    return failed;
}
