/* Counts the words of a text, on all cores. The keys of a counter are the words themselves: byte strings.
 *
 *   cc word_count.c $(pkg-config --cflags --libs hashloom) && ./a.out TEXT
 *
 * prints what `tr -s '[:space:]' '\n' <TEXT | grep . | sort | uniq -c` prints with LC_ALL=C. */
#include <loom/loom.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int stop(const char *what)
{
    fprintf(stderr, "%s: %s\n", what, loom_last_error());
    return 1;
}

/* Reads a whole file. NULL: it cannot be read, or there is no memory for it. */
static char *read_text(const char *path, size_t *bytes)
{
    FILE *file = strcmp(path, "-") == 0 ? stdin : fopen(path, "rb");
    size_t room = 1 << 20, got;
    char *text = file != NULL ? malloc(room) : NULL, *larger;
    *bytes = 0;
    while (text != NULL && (got = fread(text + *bytes, 1, room - *bytes, file)) > 0) {
        *bytes += got;
        if (*bytes == room) {
            larger = realloc(text, room *= 2);
            if (larger == NULL)
                free(text);
            text = larger;
        }
    }
    if (file != NULL && file != stdin)
        fclose(file);
    return text;
}

static int is_space(char c)
{
    return c == ' ' || (c >= '\t' && c <= '\r');
}

/* Packs the words of a text to its beginning, one behind the other. offsets[i] is where word i begins. Returns their
 * number. */
static uint64_t pack_words(char *text, size_t bytes, uint64_t *offsets)
{
    uint64_t n = 0, to = 0;
    int inside = 0; /* a word */
    for (size_t at = 0; at < bytes; at++) {
        const int space = is_space(text[at]);
        if (!space && !inside)
            offsets[n++] = to;
        if (!space)
            text[to++] = text[at];
        inside = !space;
    }
    offsets[n] = to;
    return n;
}

/* A word of the table and its count, for sorting. */
typedef struct counted {
    const char *word;
    uint64_t length, count;
} counted;

static int compare(const void *a, const void *b)
{
    const counted *x = a, *y = b;
    const int order = memcmp(x->word, y->word, x->length < y->length ? x->length : y->length);
    return order != 0 ? order : x->length < y->length ? -1 : x->length > y->length;
}

/* Prints all words of the table, sorted. */
static int print_words(loom_map *words)
{
    uint64_t n = 0;
    if (loom_map_size(words, &n, NULL) != LOOM_OK)
        return stop("size");
    uint64_t *counts = malloc((n + 1) * sizeof *counts);
    counted *all = malloc((n + 1) * sizeof *all);
    loom_strings_out keys = {.offsets = malloc((n + 1) * sizeof *keys.offsets)};
    if (counts == NULL || all == NULL || keys.offsets == NULL)
        return stop("memory");
    /* First the offsets alone, which tell how many bytes there are, then the bytes. */
    if (n > 0 && loom_map_retrieve_all(words, &keys, counts, n, &n, NULL, NULL) != LOOM_OK)
        return stop("retrieve");
    keys.byte_room = keys.needed;
    keys.bytes = malloc(keys.needed + 1);
    if (keys.bytes == NULL)
        return stop("memory");
    if (n > 0 && loom_map_retrieve_all(words, &keys, counts, n, &n, NULL, NULL) != LOOM_OK)
        return stop("retrieve");
    for (uint64_t i = 0; i < n; i++)
        all[i] =
            (counted){(const char *)keys.bytes + keys.offsets[i], keys.offsets[i + 1] - keys.offsets[i], counts[i]};
    qsort(all, n, sizeof *all, compare);
    for (uint64_t i = 0; i < n; i++) {
        printf("%7" PRIu64 " ", all[i].count);
        fwrite(all[i].word, 1, all[i].length, stdout);
        putchar('\n');
    }
    free(counts);
    free(all);
    free(keys.offsets);
    free(keys.bytes);
    return 0;
}

int main(int argc, char **argv)
{
    loom_context_config machine = LOOM_CONTEXT_CONFIG_INIT;
    loom_map_config config = LOOM_MAP_CONFIG_INIT;
    loom_context *context;
    loom_map *words;
    size_t bytes;
    if (argc != 2) {
        fprintf(stderr, "usage: word_count TEXT, or - for the standard input\n");
        return 2;
    }
    char *text = read_text(argv[1], &bytes);
    uint64_t *offsets = text != NULL ? malloc((bytes + 2) * sizeof *offsets) : NULL;
    if (offsets == NULL) {
        perror(argv[1]);
        return 1;
    }
    const uint64_t n = pack_words(text, bytes, offsets);

    machine.machine = LOOM_MACHINE_CPU; /* all cores, unless machine.threads says otherwise */
    config.type = LOOM_TYPE_COUNTER;
    config.key_bytes = LOOM_VARIABLE;
    config.value_bytes = 8;
    config.most_key_bytes = bytes > 0 ? bytes : 1; /* no word is too long */
    if (loom_context_create(&machine, &context) != LOOM_OK || loom_map_create(context, &config, &words) != LOOM_OK)
        return stop("create");
    const loom_strings keys = {offsets, text};
    if (loom_map_count(words, &keys, n, NULL, NULL, NULL) != LOOM_OK)
        return stop("count");
    const int failed = print_words(words);
    loom_map_destroy(words);
    loom_context_destroy(context);
    free(offsets);
    free(text);
    return failed;
}
