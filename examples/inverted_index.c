/* An inverted index: from each word to the documents that contain it. Keys of multimaps are no byte strings. So a map
 * gives each word a number, and a multimap has the documents under this number.
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

typedef struct word_index {
    loom_map *words;     /* word -> its number */
    loom_map *documents; /* number -> documents that contain the word */
    uint32_t next;       /* the next number; 0 stands for words that no document has had */
} word_index;

/* Words of some documents: a batch of byte strings. */
typedef struct word_list {
    char bytes[512];
    uint64_t offsets[DOCUMENTS * MOST_WORDS + 1]; /* word i begins at offsets[i] and ends at offsets[i + 1] */
    uint32_t documents[DOCUMENTS * MOST_WORDS];   /* where word i comes from */
    uint64_t n;
} word_list;

static int is_listed(const word_list *list, const char *word, size_t length, uint32_t document)
{
    for (uint64_t i = 0; i < list->n; i++)
        if (list->documents[i] == document && list->offsets[i + 1] - list->offsets[i] == length &&
            memcmp(list->bytes + list->offsets[i], word, length) == 0)
            return 1;
    return 0;
}

/* A word that comes twice in a document is listed once, since a multimap keeps equal pairs. */
static void list_words(word_list *list, const char *text, uint32_t document)
{
    for (const char *at = text; *at; at += strspn(at, " ")) {
        const size_t length = strcspn(at, " ");
        if (!is_listed(list, at, length, document)) {
            const uint64_t begin = list->offsets[list->n];
            memcpy(list->bytes + begin, at, length);
            list->documents[list->n] = document;
            list->offsets[++list->n] = begin + length;
        }
        at += length;
    }
}

/* Adds documents `from` to `to` - 1. LOOM_IN_ORDER keeps the documents of each word in ascending order. */
static loom_status add_documents(word_index *index, uint32_t from, uint32_t to)
{
    word_list list = {.n = 0};
    uint32_t fresh[DOCUMENTS * MOST_WORDS], numbers[DOCUMENTS * MOST_WORDS];
    for (uint32_t document = from; document < to; document++)
        list_words(&list, documents[document], document);
    const loom_strings words = {list.offsets, list.bytes};
    for (uint64_t i = 0; i < list.n; i++)
        fresh[i] = index->next++;
    /* A known word has the number that it got before. */
    const loom_status status = loom_map_find_or_insert(index->words, &words, fresh, list.n, numbers, NULL, NULL, NULL);
    return status ? status
                  : loom_map_insert(index->documents, numbers, list.documents, list.n, LOOM_KEEP | LOOM_IN_ORDER, NULL,
                                    NULL, NULL);
}

/* The numbers of listed words. */
static loom_status find_words(const word_index *index, const word_list *list, uint32_t *numbers)
{
    const loom_strings words = {list->offsets, list->bytes};
    return loom_map_find(index->words, &words, list->n, numbers, NULL, NULL, NULL, NULL);
}

/* Erases the document's pairs. Other documents of its words stay, in their order. */
static loom_status remove_document(word_index *index, uint32_t document)
{
    word_list list = {.n = 0};
    uint32_t numbers[MOST_WORDS];
    list_words(&list, documents[document], document);
    const loom_status status = find_words(index, &list, numbers);
    return status ? status : loom_map_erase_pairs(index->documents, numbers, list.documents, list.n, NULL, NULL, NULL);
}

#define APPEND(text, ...) snprintf((text) + strlen(text), sizeof(text) - strlen(text), __VA_ARGS__)

/* Prints the documents of three words, and the documents that have both of the first two. Sets *wrong if that is not
 * what was expected. Returns 1 if a call failed. */
static int query(const word_index *index, const char *expected, int *wrong)
{
    static const char *const asked[QUERIES] = {"cat", "dog", "horse"};
    word_list list = {.n = 0};
    uint32_t numbers[QUERIES];
    uint64_t first[QUERIES + 1], needed;
    char answer[256] = "";
    for (int i = 0; i < QUERIES; i++)
        list_words(&list, asked[i], 0);
    if (find_words(index, &list, numbers))
        return 1;

    /* Without room for values the call only counts: then the array gets the right size. */
    if (loom_map_find_all(index->documents, numbers, QUERIES, 0, first, NULL, 0, &needed, NULL, NULL))
        return 1;
    uint32_t *found = calloc(needed + 1, sizeof *found);
    if (!found || loom_map_find_all(index->documents, numbers, QUERIES, 0, first, found, needed, NULL, NULL, NULL)) {
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
    word_index index = {.next = 1};
    loom_context_config machine = LOOM_CONTEXT_CONFIG_INIT;
    loom_map_config words = LOOM_MAP_CONFIG_INIT, lists = LOOM_MAP_CONFIG_INIT;
    machine.machine = LOOM_MACHINE_CPU; /* for six documents a GPU would only wait */
    words.key_bytes = LOOM_VARIABLE;
    words.value_bytes = 4;
    words.capacity = 20;      /* different words. The tables grow if more come */
    words.string_bytes = 160; /* of these words */
    lists.type = LOOM_TYPE_MULTIMAP;
    lists.key_bytes = lists.value_bytes = 4;
    lists.capacity = 20;
    lists.values = 40; /* words of all documents */

    int failed = loom_context_create(&machine, &context) || loom_map_create(context, &words, &index.words) ||
                 loom_map_create(context, &lists, &index.documents) || add_documents(&index, 0, FIRST) ||
                 query(&index, "cat: 0 1 3; dog: 1 3; horse:; cat and dog: 1 3", &wrong) ||
                 add_documents(&index, FIRST, DOCUMENTS) ||
                 query(&index, "cat: 0 1 3 5; dog: 1 3 4; horse: 4; cat and dog: 1 3", &wrong) ||
                 remove_document(&index, 1) || query(&index, "cat: 0 3 5; dog: 3 4; horse: 4; cat and dog: 3", &wrong);
    if (failed)
        fprintf(stderr, "%s\n", loom_last_error());
    if (wrong)
        fprintf(stderr, "the index gave a wrong answer\n");
    loom_map_destroy(index.documents);
    loom_map_destroy(index.words);
    loom_context_destroy(context);
    return failed || wrong;
}
