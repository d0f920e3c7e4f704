/* A table that does not fit. Rows of 8 + 56 bytes may take no more than LIMIT bytes of the memory where the machine
 * works, a GPU or the CPU, and need four times as much. With their rows in host memory they fit: only their tags stay.
 *
 *   cc larger_than_the_device.c $(pkg-config --cflags --libs hashloom) && ./a.out
 */
#include <loom/loom.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

enum { ROWS = 200000, LIMIT = 4 << 20, TEXT_BYTES = 56 };

typedef struct text {
    char bytes[TEXT_BYTES];
} text;

static text text_of(uint64_t id)
{
    text made = {{0}};
    snprintf(made.bytes, sizeof made.bytes, "row %" PRIu64 " of a table that does not fit", id);
    return made;
}

static int stop(const char *what)
{
    fprintf(stderr, "%s: %s\n", what, loom_last_error());
    return 1;
}

int main(void)
{
    loom_context *context = NULL;
    loom_context_info info = LOOM_CONTEXT_INFO_INIT;
    if (loom_context_create(NULL, &context) != LOOM_OK || loom_context_describe(context, &info) != LOOM_OK)
        return stop("context");

    loom_map_config config = LOOM_MAP_CONFIG_INIT;
    config.key_bytes = 8;
    config.value_bytes = TEXT_BYTES;
    config.capacity = ROWS;
    config.memory_limit = LIMIT;
    loom_map *map = NULL;
    if (loom_map_create(context, &config, &map) != LOOM_OUT_OF_MEMORY)
        return stop("the table fits, which was not expected");
    printf("on the machine %s: %s\n", info.machine_name, loom_last_error());

    config.row_place = LOOM_ROWS_IN_HOST_MEMORY;
    loom_memory memory = LOOM_MEMORY_INIT;
    if (loom_map_memory_required(context, &config, &memory) != LOOM_OK ||
        loom_map_create(context, &config, &map) != LOOM_OK)
        return stop("rows in host memory");
    printf("with rows in host memory: %" PRIu64 " bytes there, and %" PRIu64 " where the machine works\n",
           memory.host_bytes, memory.table_bytes);

    /* A board of tickets is smaller than tags, and its lookups read more. */
    loom_map_config smaller = config;
    smaller.engine = LOOM_ENGINE_TICKETS;
    for (smaller.ticket_bits = 8; smaller.ticket_bits > 0; smaller.ticket_bits /= 2) {
        loom_memory board = LOOM_MEMORY_INIT;
        const loom_status told = loom_map_memory_required(context, &smaller, &board);
        if (told == LOOM_OK)
            printf("with tickets of %u bits: %" PRIu64 " bytes where the machine works\n", smaller.ticket_bits,
                   board.table_bytes);
        else if (told != LOOM_UNSUPPORTED) /* a machine without this engine */
            return stop("tickets");
    }

    uint64_t *ids = malloc(2 * ROWS * sizeof *ids);
    text *texts = malloc(ROWS * sizeof *texts), *found = malloc(2 * ROWS * sizeof *found);
    uint8_t *status = malloc(2 * ROWS);
    if (!ids || !texts || !found || !status)
        return 1;
    for (uint64_t i = 0; i < 2 * ROWS; i++)
        ids[i] = i * 7;
    for (uint64_t i = 0; i < ROWS; i++)
        texts[i] = text_of(ids[i]);
    if (loom_map_insert(map, ids, texts, ROWS, LOOM_KEEP, NULL, NULL, NULL) != LOOM_OK)
        return stop("insert");

    /* The second half of the ids is absent: their tags tell, and no row is read. */
    if (loom_map_find(map, ids, 2 * ROWS, found, NULL, status, NULL, NULL) != LOOM_OK)
        return stop("find");
    uint64_t wrong = 0;
    for (uint64_t i = 0; i < 2 * ROWS; i++) {
        const text expected = text_of(ids[i]);
        wrong += status[i] != (i < ROWS ? LOOM_OK : LOOM_NOT_FOUND);
        for (int b = 0; b < TEXT_BYTES && i < ROWS; b++)
            wrong += found[i].bytes[b] != expected.bytes[b];
    }
    loom_explanation told = LOOM_EXPLANATION_INIT;
    if (loom_map_explain(map, &told) == LOOM_OK) /* a GPU has several ways to rows in host memory */
        printf("the last call reached %" PRIu64 " rows by route %d, in %.1f ms\n", told.rows, (int)told.route,
               told.seconds * 1e3);
    if (wrong > 0)
        fprintf(stderr, "%" PRIu64 " answers are wrong\n", wrong);
    else
        printf("all of %d rows were found, and %d other ids were not\n", ROWS, ROWS);
    free(ids);
    free(texts);
    free(found);
    free(status);
    loom_map_destroy(map);
    loom_context_destroy(context);
    return wrong > 0;
}
