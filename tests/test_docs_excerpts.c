/* Documentation quotes code of the tree. A block that begins with ```c and a path must occur in that file, word for
 * word. */
#include "harness/harness.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* A file of the source tree as a string; the caller frees it. */
static char *read_text(const test_run *t, const char *path, size_t path_length)
{
    char whole[512];
    size_t bytes;
    CHECK_LT(snprintf(whole, sizeof whole, "%s/../../%.*s", t->data, (int)path_length, path), sizeof whole);
    if (access(whole, R_OK) != 0)
        SKIP("%s is not here: the tests run apart from the source tree", whole);
    char *data = test_read_file(whole, &bytes), *text = test_allocate(bytes + 1);
    memcpy(text, data, bytes);
    text[bytes] = 0;
    free(data);
    return text;
}

TEST(test_docs_contributing_excerpts_are_in_the_tree)
{
    static const char begin[] = "\n```c ", end[] = "\n```\n", page[] = "docs/contributing.md";
    char *text = read_text(t, page, strlen(page));
    uint64_t excerpts = 0;
    for (char *at = text; (at = strstr(at, begin)) != NULL; excerpts++) {
        const char *path = at + strlen(begin);
        const size_t path_length = strcspn(path, "\n");
        char *excerpt = at + strlen(begin) + path_length + 1;
        at = strstr(excerpt, end);
        CHECK(at != NULL);
        *at = 0;
        char *source = read_text(t, path, path_length);
        if (strstr(source, excerpt) == NULL)
            FAIL("%s shows this as a part of %.*s, where it is not:\n%s", page, (int)path_length, path, excerpt);
        free(source);
        *at = '\n';
        at++;
    }
    CHECK_GT(excerpts, 5);
    free(text);
}
