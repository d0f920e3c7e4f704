/* An inverted index: from each word to the documents that contain it. The keys of a multimap are hashes of the words,
 * and its values are the numbers of the documents.
 *
 *   cc inverted_index.c $(pkg-config --cflags --libs hashloom) && ./a.out
 */
#include <loom/loom.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DOCUMENTS = 6, FIRST = 4, MOST_WORDS = 16, QUERIES = 3 };

static const char *const documents[DOCUMENTS] = {
    "the cat sat on the mat",    "a dog chased the cat",      "hash tables map keys to values",
    "the dog and the cat sleep", "the dog and the horse run", "the cat reads about hash tables and values"};

/* FNV-1a of 64 bits: different words have different hashes, but for very bad luck. */
static uint64_t hash_of(const char *word, size_t length)
{
    uint64_t hash = 14695981039346656037u;
    for (size_t i = 0; i < length; i++)
        hash = (hash ^ (unsigned char)word[i]) * 1099511628211u;
    return hash;
}

/* Writes a pair for each word of the document. A word that comes twice gets one pair, since a multimap keeps equal
 * pairs. Returns the number of pairs. */
static uint64_t list_words(uint32_t document, uint64_t *keys, uint32_t *numbers)
{
    uint64_t n = 0, i;
    for (const char *at = documents[document]; *at; at += strspn(at, " ")) {
        const size_t length = strcspn(at, " ");
        keys[n] = hash_of(at, length);
        for (i = 0; keys[i] != keys[n];)
            i++;
        numbers[n] = document;
        n += i == n;
        at += length;
    }
    return n;
}

/* Adds documents `from` to `to` - 1. LOOM_IN_ORDER keeps the documents of each word in ascending order. */
static loom_status add_documents(loom_map *words, uint32_t from, uint32_t to)
{
    uint64_t keys[DOCUMENTS * MOST_WORDS], n = 0;
    uint32_t numbers[DOCUMENTS * MOST_WORDS];
    for (uint32_t document = from; document < to; document++)
        n += list_words(document, keys + n, numbers + n);
    const uint32_t flags = LOOM_KEEP | LOOM_IN_ORDER;
    return from == 0 ? loom_map_build(words, keys, numbers, n, flags, NULL, NULL, NULL)
                     : loom_map_insert(words, keys, numbers, n, flags, NULL, NULL, NULL);
}

/* Erases the document's pairs. Other documents of its words stay, in their order. */
static loom_status remove_document(loom_map *words, uint32_t document)
{
    uint64_t keys[MOST_WORDS];
    uint32_t numbers[MOST_WORDS];
    const uint64_t n = list_words(document, keys, numbers);
    return loom_map_erase_pairs(words, keys, numbers, n, NULL, NULL, NULL);
}

#define APPEND(text, ...) snprintf((text) + strlen(text), sizeof(text) - strlen(text), __VA_ARGS__)

/* Prints the documents of three words, and the documents that have both of the first two. Sets *wrong if that is not
 * what was expected. Returns 1 if a call failed. */
static int query(loom_map *words, const char *expected, int *wrong)
{
    static const char *const asked[QUERIES] = {"cat", "dog", "horse"};
    uint64_t keys[QUERIES], first[QUERIES + 1], needed;
    char answer[256] = "";
    for (int i = 0; i < QUERIES; i++)
        keys[i] = hash_of(asked[i], strlen(asked[i]));

    /* Without room for values the call only counts: then the array gets the right size. */
    if (loom_map_find_all(words, keys, QUERIES, 0, first, NULL, 0, &needed, NULL, NULL))
        return 1;
    uint32_t *found = calloc(needed + 1, sizeof *found);
    if (!found || loom_map_find_all(words, keys, QUERIES, 0, first, found, needed, NULL, NULL, NULL)) {
        free(found);
        return 1;
    }
    for (int i = 0; i < QUERIES; i++) {
        APPEND(answer, "%s:", asked[i]);
        for (uint64_t at = first[i]; at < first[i + 1]; at++)
            APPEND(answer, " %" PRIu32, found[at]);
        APPEND(answer, "; ");
    }
    APPEND(answer, "%s and %s:", asked[0], asked[1]);
    /* Both lists are in ascending order: one pass over them finds what they share. */
    for (uint64_t a = first[0], b = first[1]; a < first[1] && b < first[2];) {
        const uint32_t x = found[a], y = found[b];
        if (x == y)
            APPEND(answer, " %" PRIu32, x);
        a += x <= y;
        b += y <= x;
    }
    free(found);
    puts(answer);
    *wrong |= strcmp(answer, expected) != 0;
    return 0;
}

int main(void)
{
    int wrong = 0;
    loom_context *context = NULL;
    loom_map *words = NULL;
    loom_context_config machine = LOOM_CONTEXT_CONFIG_INIT;
    loom_map_config config = LOOM_MAP_CONFIG_INIT;
    machine.machine = LOOM_MACHINE_CPU; /* for six documents a GPU would only wait */
    config.type = LOOM_TYPE_MULTIMAP;
    config.key_bytes = 8;
    config.value_bytes = 4;
    config.capacity = 20; /* different words. The table grows if more come */
    config.values = 40;   /* words of all documents */

    int failed = loom_context_create(&machine, &context) || loom_map_create(context, &config, &words) ||
                 add_documents(words, 0, FIRST) ||
                 query(words, "cat: 0 1 3; dog: 1 3; horse:; cat and dog: 1 3", &wrong) ||
                 add_documents(words, FIRST, DOCUMENTS) ||
                 query(words, "cat: 0 1 3 5; dog: 1 3 4; horse: 4; cat and dog: 1 3", &wrong) ||
                 remove_document(words, 1) || query(words, "cat: 0 3 5; dog: 3 4; horse: 4; cat and dog: 3", &wrong);
    if (failed)
        fprintf(stderr, "%s\n", loom_last_error());
    if (wrong)
        fprintf(stderr, "the index gave a wrong answer\n");
    loom_map_destroy(words);
    loom_context_destroy(context);
    return failed || wrong;
}
