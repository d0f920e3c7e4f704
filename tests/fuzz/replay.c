/* Runs the fuzz target over stored inputs: `loom_fuzz_replay PATH...`, each a file or a directory. */
#define _GNU_SOURCE 1
#include <dirent.h>
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static unsigned replayed, unreadable;

static void replay_file(const char *path, size_t bytes)
{
    FILE *file = fopen(path, "rb");
    uint8_t *data = malloc(bytes ? bytes : 1); /* exact, so that a sanitizer sees reads beyond */
    if (!file || !data || fread(data, 1, bytes, file) != bytes) {
        fprintf(stderr, "%s cannot be read\n", path);
        unreadable++;
    } else {
        /* The name first: if this input aborts, it is the last line. */
        fprintf(stderr, "%s\n", path);
        LLVMFuzzerTestOneInput(data, bytes);
        replayed++;
    }
    free(data);
    if (file)
        fclose(file);
}

static int by_name(const struct dirent **a, const struct dirent **b)
{
    return strcmp((*a)->d_name, (*b)->d_name);
}

static void replay(const char *path)
{
    struct stat status;
    struct dirent **entries = NULL;
    if (stat(path, &status) != 0) {
        fprintf(stderr, "%s: %s\n", path, strerror(errno));
        unreadable++;
        return;
    }
    if (!S_ISDIR(status.st_mode)) {
        replay_file(path, (size_t)status.st_size);
        return;
    }
    int count = scandir(path, &entries, NULL, by_name);
    for (int i = 0; i < count; i++) {
        char inner[1024];
        int length = snprintf(inner, sizeof inner, "%s/%s", path, entries[i]->d_name);
        if (entries[i]->d_name[0] != '.' && length > 0 && length < (int)sizeof inner)
            replay(inner);
        free(entries[i]);
    }
    free(entries);
}

int main(int count, char **arguments)
{
    if (count < 2) {
        fprintf(stderr, "usage: loom_fuzz_replay PATH...\n");
        return 2;
    }
    for (int i = 1; i < count; i++)
        replay(arguments[i]);
    if (replayed + unreadable == 0) {
        fprintf(stderr, "there is no input in %s\n", arguments[1]);
        unreadable++;
    }
    printf("%u inputs replayed\n", replayed);
    printf("%u passed, %u failed, 0 skipped\n", replayed, unreadable);
    return unreadable ? 1 : 0;
}
