#include "stadium_table.h"

#include "bench_keys.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

/* ---- What the kinds are ------------------------------------------------------------------------------------ */

static loom_engine engine_of(stadium_kind kind)
{
    return kind == STADIUM_OPEN ? LOOM_ENGINE_OPEN : kind == STADIUM_ROWS ? LOOM_ENGINE_ROWS : LOOM_ENGINE_TICKETS;
}

static uint32_t ticket_bits_of(stadium_kind kind)
{
    static const uint32_t bits[STADIUM_KINDS] = {
        [STADIUM_TICKETS_1] = 1, [STADIUM_TICKETS_2] = 2, [STADIUM_TICKETS_4] = 4, [STADIUM_TICKETS_8] = 8};
    return bits[kind];
}

bench_row stadium_row(const stadium_form *form, const bench_session *session, const char *op)
{
    bench_row row = bench_row_new(bench_case_stadium.name, session->info.machine_name, op);
    row.engine =
        form->kind == STADIUM_CUCKOO ? "cuckoo" : bench_engine_name(engine_of(form->kind), LOOM_ROWS_ON_DEVICE);
    row.ticket_bits = ticket_bits_of(form->kind);
    row.row_place = form->place == LOOM_ROWS_IN_HOST_MEMORY ? "host" : "machine";
    row.key_bytes = form->key_bytes;
    row.value_bytes = form->value_bytes;
    row.n = form->n;
    row.load = form->load;
    row.figure = session->figure;
    row.lanes = session->options->lanes;
    if (row.ticket_bits > 0)
        bench_row_note(&row, "%u bit%s", (unsigned)row.ticket_bits, row.ticket_bits == 1 ? "" : "s");
    if (form->place == LOOM_ROWS_IN_HOST_MEMORY)
        bench_row_note(&row, "rows in host memory");
    return row;
}

/* ---- Make --------------------------------------------------------------------------------------------------- */

/* Keeps the library's sentence. */
static loom_status told(stadium_table *table, loom_status status)
{
    if (status != LOOM_OK)
        snprintf(table->why, sizeof table->why, "%s", loom_last_error());
    return status;
}

static loom_status refuse(stadium_table *table, loom_status status, const char *why)
{
    snprintf(table->why, sizeof table->why, "%s", why);
    return status;
}

/* No figure has the last two indexes (BENCH_FIGURE_MOST_KEYS), so their keys are unused. */
static loom_status make_cuckoo(stadium_table *table)
{
    const stadium_form *form = &table->form;
    const uint64_t unused[2] = {bench_key_of(UINT64_MAX, form->key_bytes),
                                bench_key_of(UINT64_MAX - 1, form->key_bytes)};
    if (table->session->info.machine != LOOM_MACHINE_CPU)
        return refuse(table, LOOM_UNSUPPORTED, "the cuckoo reference runs on host threads: see --machine cpu");
    if (!cuckoo_has(form->key_bytes, form->value_bytes))
        return refuse(table, LOOM_UNSUPPORTED, "the cuckoo reference has pairs of 4 + 4 and 8 + 8 bytes");
    table->slots = (uint64_t)ceil((double)form->n / form->load);
    table->cuckoo = cuckoo_new(form->key_bytes, form->value_bytes, table->slots, unused, table->session->info.threads);
    return table->cuckoo ? LOOM_OK : refuse(table, LOOM_OUT_OF_MEMORY, "no memory for the cuckoo reference");
}

static loom_status make_map(stadium_table *table)
{
    const stadium_form *form = &table->form;
    loom_map_config config = LOOM_MAP_CONFIG_INIT;
    loom_stats stats = LOOM_STATS_INIT;
    config.key_bytes = form->key_bytes;
    config.value_bytes = form->value_bytes;
    config.capacity = form->n;
    config.max_load = form->load;
    config.growth = 0;
    config.engine = engine_of(form->kind);
    config.row_place = form->place;
    config.ticket_bits = ticket_bits_of(form->kind);
    loom_status status = told(table, loom_map_create(table->session->context, &config, &table->map));
    if (status == LOOM_OK)
        status = told(table, loom_map_stats(table->map, &stats, NULL));
    table->slots = stats.slots;
    return status;
}

loom_status stadium_table_make(bench_session *session, const stadium_form *form, stadium_table *table)
{
    *table = (stadium_table){.session = session, .form = *form};
    if (form->kind == STADIUM_CUCKOO)
        return make_cuckoo(table);
    if (form->kind == STADIUM_OPEN && form->place == LOOM_ROWS_IN_HOST_MEMORY)
        return refuse(table, LOOM_UNSUPPORTED, "open tables lie where the machine works, not in host memory");
    loom_status status = stadium_table_offers(table, LOOM_FEATURE_INSERT);
    if (status == LOOM_OK)
        status = stadium_table_offers(table, LOOM_FEATURE_FIND);
    return status == LOOM_OK ? make_map(table) : status;
}

void stadium_table_free(stadium_table *table)
{
    loom_map_destroy(table->map);
    cuckoo_free(table->cuckoo);
    *table = (stadium_table){0};
}

loom_status stadium_table_offers(stadium_table *table, loom_feature feature)
{
    if (table->form.kind == STADIUM_CUCKOO)
        return LOOM_OK;
    return told(table, loom_supports(table->session->context, LOOM_TYPE_MAP, engine_of(table->form.kind), feature));
}

/* ---- Calls -------------------------------------------------------------------------------------------------- */

loom_status stadium_clear(stadium_table *table)
{
    if (table->map)
        return told(table, loom_map_clear(table->map, NULL, NULL));
    cuckoo_clear(table->cuckoo);
    return LOOM_OK;
}

static loom_status insert_cuckoo(stadium_table *table, const cuckoo_batch *batch, const void *values)
{
    const uint64_t lost = cuckoo_insert(table->cuckoo, batch, values);
    if (lost > 0)
        snprintf(table->why, sizeof table->why, "%" PRIu64 " pairs found no place after %d evictions", lost,
                 (int)CUCKOO_MOST_MOVES);
    return lost > 0 ? LOOM_FULL : LOOM_OK;
}

loom_status stadium_insert(stadium_table *table, const void *keys, const void *values, uint64_t n)
{
    const cuckoo_batch batch = {.keys = keys, .n = n};
    if (table->map)
        return told(table, loom_map_insert(table->map, keys, values, n, LOOM_KEEP, NULL, NULL, NULL));
    return insert_cuckoo(table, &batch, values);
}

loom_status stadium_find(stadium_table *table, const void *keys, uint64_t n, void *found)
{
    const cuckoo_batch batch = {.keys = keys, .n = n};
    if (table->map)
        return told(table, loom_map_find(table->map, keys, n, found, NULL, NULL, NULL, NULL));
    cuckoo_find(table->cuckoo, &batch, found);
    return LOOM_OK;
}

loom_status stadium_erase(stadium_table *table, const void *keys, uint64_t n, uint8_t *status)
{
    const cuckoo_batch batch = {.keys = keys, .n = n};
    if (table->map)
        return told(table, loom_map_erase(table->map, keys, n, status, NULL, NULL));
    cuckoo_erase(table->cuckoo, &batch, status);
    return LOOM_OK;
}

loom_status stadium_apply(stadium_table *table, const uint8_t *operations, const void *keys, const void *values,
                          uint64_t n, void *found)
{
    const cuckoo_batch inserts = {operations, LOOM_APPLY_INSERT, keys, n},
                       lookups = {operations, LOOM_APPLY_FIND, keys, n};
    if (table->map)
        return told(table, loom_map_apply(table->map, operations, keys, values, n, 0, found, NULL, NULL, NULL));
    const loom_status status = insert_cuckoo(table, &inserts, values);
    if (status == LOOM_OK)
        cuckoo_find(table->cuckoo, &lookups, found);
    return status;
}

loom_status stadium_size(stadium_table *table, uint64_t *size)
{
    if (table->map)
        return told(table, loom_map_size(table->map, size, NULL));
    *size = cuckoo_size(table->cuckoo);
    return LOOM_OK;
}
