/* The case `widths`: maps whose keys and values have many widths, or the one that --key-bytes and --value-bytes name.
 *
 *   build    n pairs into the empty table
 *   insert   the same, by loom_map_insert
 *   update   new values for all keys of a full table
 *   find     n keys, of which so many per cent are in the table
 *   contains the same, without values
 *
 * Every repetition is checked: each key has its value, byte by byte, and absent keys have none. The library chooses the
 * engine, unless --engine names one. A row tells how many bytes of memory an entry takes.
 *
 *   share = bytes that a lookup must move / time / bandwidth of copying
 * A lookup moves the key that is asked for, a line of 64 bytes, the value or its absence, and a status. If the key is
 * found and its value does not lie in the line, it also moves the row, or the value, in whole sectors of 32 bytes; with
 * --layout apart the key and the value of a row. Without values (contains) it moves what it reads of a key. Keys that
 * are not in their first bucket cost more: the share tells how far the table is from the best table of its kind.
 *
 * Without --key-bytes and --value-bytes there are also rows for keys that are byte strings of BENCH_SHORTEST to
 * BENCH_LONGEST bytes, with values of 8. They are named "strings build" and so on, and key_bytes is the mean length. A
 * lookup then moves an offset, and reads the string in the heap in whole sectors, too.
 *
 * A form that the machine or the engine does not offer gets a row that says so. */
#include "bench_array.h"
#include "bench_axes.h"
#include "bench_case.h"
#include "bench_keys.h"
#include "bench_near.h"
#include "bench_parse.h"
#include "bench_progress.h"
#include "bench_threads.h"
#include "bench_timer.h"

#include <inttypes.h>
#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

/* ---- Arrays --------------------------------------------------------------------------------------------- */

typedef struct widths_array {
    void *host, *near;
    uint64_t bytes;
} widths_array;

enum { KEYS, VALUES, QUERIES, FOUND, STATUS, KEY_OFFSETS, QUERY_OFFSETS, ARRAYS };

typedef struct widths_bench {
    bench_session *session;
    loom_map *map;
    uint64_t n;
    uint32_t key_bytes, value_bytes; /* strings: the mean length */
    bool strings;
    uint64_t string_bytes; /* that the heap needs for all keys */
    loom_strings given[2]; /* keys, queries */
    double load;
    loom_stats stats;   /* of the empty table */
    uint64_t footprint; /* bytes of the table */
    double hit;         /* of the queries, percent */
    widths_array arrays[ARRAYS];
    bench_clock clock;
} widths_bench;

static void free_arrays(widths_bench *bench)
{
    for (int i = 0; i < ARRAYS; i++) {
        widths_array *array = &bench->arrays[i];
        bench_near_free(bench->session, LOOM_ARRAY_MACHINE, array->host, array->near, array->bytes);
        bench_array_free(array->host);
        *array = (widths_array){0};
    }
}

static bool make_arrays(widths_bench *bench)
{
    const uint32_t key_bytes = bench->strings ? BENCH_LONGEST : bench->key_bytes, offset = bench->strings ? 8 : 0;
    const uint32_t width[ARRAYS] = {key_bytes, bench->value_bytes, key_bytes, bench->value_bytes, 1, offset, offset};
    for (int i = 0; i < ARRAYS; i++) {
        widths_array *array = &bench->arrays[i];
        const uint64_t count = bench->n + (i >= KEY_OFFSETS);
        if (width[i] == 0)
            continue;
        array->host = bench_array_new(count, width[i]);
        array->bytes = count * width[i];
        if (!array->host ||
            !bench_near_new(bench->session, LOOM_ARRAY_MACHINE, array->host, array->bytes, &array->near))
            return false;
    }
    bench->given[0] = (loom_strings){bench->arrays[KEY_OFFSETS].near, bench->arrays[KEYS].near};
    bench->given[1] = (loom_strings){bench->arrays[QUERY_OFFSETS].near, bench->arrays[QUERIES].near};
    return true;
}

/* What a call takes as keys: KEYS or QUERIES. */
static const void *keys_of(const widths_bench *bench, int which)
{
    return bench->strings ? (const void *)&bench->given[which == QUERIES] : bench->arrays[which].near;
}

static uint64_t *offsets_of(const widths_bench *bench, int which)
{
    return bench->arrays[which == KEYS ? KEY_OFFSETS : QUERY_OFFSETS].host;
}

static loom_status send(const widths_bench *bench, int which)
{
    const widths_array *array = &bench->arrays[which];
    return array->host ? bench_near_copy(bench->session, array->near, array->host, array->bytes) : LOOM_OK;
}

static loom_status fetch(const widths_bench *bench, int which)
{
    const widths_array *array = &bench->arrays[which];
    return bench_near_copy(bench->session, array->host, array->near, array->bytes);
}

/* ---- Keys, values, queries ------------------------------------------------------------------------------ */

static uint64_t length_of(uint64_t index)
{
    return BENCH_SHORTEST + bench_mix64(index ^ 0x5555) % (BENCH_LONGEST - BENCH_SHORTEST + 1);
}

/* Strings begin with a number that no other has. */
static void put_string(const widths_bench *bench, int which, uint64_t at, uint64_t index)
{
    const uint64_t *offsets = offsets_of(bench, which), length = offsets[at + 1] - offsets[at];
    unsigned char *to = (unsigned char *)bench->arrays[which].host + offsets[at];
    for (uint64_t i = 0; i < length; i += 8) {
        const uint64_t word = bench_mix64(index + (i << 48));
        memcpy(to + i, &word, length - i < 8 ? length - i : 8);
    }
}

static void put_key(const widths_bench *bench, int which, uint64_t at, uint64_t index)
{
    if (bench->strings) {
        put_string(bench, which, at, index);
        return;
    }
    bench_put(bench->arrays[which].host, at, bench->key_bytes, bench_key_of(index, bench->key_bytes));
}

static uint64_t value_of(const widths_bench *bench, uint64_t index)
{
    return bench_value_of(index, 0, bench->value_bytes);
}

static void make_pairs(void *work, uint64_t begin, uint64_t end)
{
    const widths_bench *bench = work;
    for (uint64_t i = begin; i < end; i++) {
        put_key(bench, KEYS, i, i);
        bench_put(bench->arrays[VALUES].host, i, bench->value_bytes, value_of(bench, i));
    }
}

/* Query i asks for key i, or for a key that is absent. */
static bool is_present(const widths_bench *bench, uint64_t i)
{
    return (double)(bench_mix64(i) % 1000) < 10 * bench->hit;
}

static uint64_t asked_for(const widths_bench *bench, uint64_t i)
{
    return is_present(bench, i) ? i : bench->n + i;
}

static void make_queries(void *work, uint64_t begin, uint64_t end)
{
    const widths_bench *bench = work;
    for (uint64_t i = begin; i < end; i++)
        put_key(bench, QUERIES, i, asked_for(bench, i));
}

/* Where strings begin: before they are made. */
static void lay_out_strings(widths_bench *bench, int which)
{
    uint64_t *offsets = offsets_of(bench, which), at = 0, in_heap = 0;
    for (uint64_t i = 0; i < bench->n; i++) {
        const uint64_t length = length_of(which == KEYS ? i : asked_for(bench, i));
        offsets[i] = at;
        at += length;
        in_heap += (length + 7) / 8 * 8;
    }
    offsets[bench->n] = at;
    if (which == KEYS)
        bench->string_bytes = in_heap;
}

/* ---- Operations ----------------------------------------------------------------------------------------- */

static loom_status call_build(widths_bench *bench)
{
    return loom_map_build(bench->map, keys_of(bench, KEYS), bench->arrays[VALUES].near, bench->n, LOOM_KEEP, NULL, NULL,
                          NULL);
}

static loom_status call_insert(widths_bench *bench)
{
    return loom_map_insert(bench->map, keys_of(bench, KEYS), bench->arrays[VALUES].near, bench->n, LOOM_KEEP, NULL,
                           NULL, NULL);
}

static loom_status update_by(widths_bench *bench, int values)
{
    return loom_map_update(bench->map, keys_of(bench, KEYS), bench->arrays[values].near, bench->n, NULL, NULL, NULL);
}

static loom_status call_update(widths_bench *bench)
{
    return update_by(bench, VALUES);
}

static loom_status call_find(widths_bench *bench)
{
    return loom_map_find(bench->map, keys_of(bench, QUERIES), bench->n, bench->arrays[FOUND].near, NULL,
                         bench->arrays[STATUS].near, NULL, NULL);
}

static loom_status call_contains(widths_bench *bench)
{
    return loom_map_contains(bench->map, keys_of(bench, QUERIES), bench->n, NULL, bench->arrays[STATUS].near, NULL,
                             NULL);
}

typedef struct widths_op {
    const char *name;
    loom_status (*call)(widths_bench *bench);
} widths_op;

static const widths_op widths_ops[] = {{"build", call_build}, {"insert", call_insert},     {"update", call_update},
                                       {"find", call_find},   {"contains", call_contains}, {0}};

static bool looks_up(const widths_op *op)
{
    return op->call == call_find || op->call == call_contains;
}

/* ---- Checks --------------------------------------------------------------------------------------------- */

typedef struct check_work {
    const widths_bench *bench;
    bool values; /* were asked for */
    _Atomic uint64_t wrong;
} check_work;

static void check_answers(void *argument, uint64_t begin, uint64_t end)
{
    check_work *work = argument;
    const widths_bench *bench = work->bench;
    const uint8_t *status = bench->arrays[STATUS].host;
    uint64_t wrong = 0;
    for (uint64_t i = begin; i < end; i++) {
        const bool present = is_present(bench, i);
        wrong += status[i] != (present ? LOOM_OK : LOOM_NOT_FOUND) ||
                 (work->values &&
                  !bench_holds(bench->arrays[FOUND].host, i, bench->value_bytes, present ? value_of(bench, i) : 0));
    }
    atomic_fetch_add(&work->wrong, wrong);
}

/* Checks the answers of the last lookup. */
static void check_found(const widths_bench *bench, bool values, bench_row *row)
{
    check_work work = {.bench = bench, .values = values};
    if (fetch(bench, FOUND) != LOOM_OK || fetch(bench, STATUS) != LOOM_OK) {
        bench_row_fail(row, "answers: %s", loom_last_error());
        return;
    }
    bench_in_parallel(bench->n, BENCH_GRAIN, check_answers, &work);
    if (work.wrong > 0)
        bench_row_fail(row, "%" PRIu64 " of %" PRIu64 " answers are wrong", (uint64_t)work.wrong, bench->n);
}

static void check_whole(widths_bench *bench, bench_row *row)
{
    uint64_t size = 0;
    if (loom_map_size(bench->map, &size, NULL) != LOOM_OK || call_find(bench) != LOOM_OK)
        bench_row_fail(row, "%s", loom_last_error());
    else if (size != bench->n)
        bench_row_fail(row, "%" PRIu64 " keys instead of %" PRIu64, size, bench->n);
    else
        check_found(bench, true, row);
}

/* ---- Rows ----------------------------------------------------------------------------------------------- */

/* Before a repetition. An answer that a call does not write is wrong. */
static loom_status reset(widths_bench *bench, const widths_op *op)
{
    bench_fill(bench->arrays[FOUND].host, 0xa5, bench->arrays[FOUND].bytes);
    bench_fill(bench->arrays[STATUS].host, 0xa5, bench->arrays[STATUS].bytes);
    loom_status status = send(bench, FOUND);
    if (status == LOOM_OK)
        status = send(bench, STATUS);
    if (status == LOOM_OK && op->call == call_update)
        status = update_by(bench, FOUND);
    else if (status == LOOM_OK && !looks_up(op))
        status = loom_map_clear(bench->map, NULL, NULL);
    return status;
}

/* One warm-up, then the median of the repetitions. NAN: a call failed. */
static double time_op(widths_bench *bench, const widths_op *op, bench_row *row)
{
    double samples[BENCH_MAX_REPEAT], wall = 0, cpu = 0;
    const uint64_t repeat = bench->session->options->repeat;
    for (uint64_t round = 0; round <= repeat; round++) {
        loom_status status = reset(bench, op);
        bench->clock = (bench_clock){0};
        bench_clock_start(&bench->clock);
        if (status == LOOM_OK)
            status = op->call(bench);
        bench_clock_stop(&bench->clock);
        if (status != LOOM_OK) {
            bench_row_fail(row, "%s: %s", loom_status_name(status), loom_last_error());
            return NAN;
        }
        if (looks_up(op))
            check_found(bench, op->call == call_find, row);
        else
            check_whole(bench, row);
        if (round == 0)
            continue;
        samples[round - 1] = bench->clock.wall;
        wall += bench->clock.wall;
        cpu += bench->clock.cpu;
    }
    bench_note_run(bench->session, row, 0, cpu / wall);
    return bench_median(samples, repeat);
}

static bench_row new_row(const widths_bench *bench, const char *op)
{
    char name[32];
    snprintf(name, sizeof name, "%s%s", bench->strings ? "strings " : "", op);
    bench_row row = bench_row_new(bench_case_widths.name, bench->session->info.machine_name, name);
    row.key_bytes = bench->key_bytes;
    row.value_bytes = bench->value_bytes;
    row.n = bench->n;
    row.load = bench->load;
    row.skew = 0;
    row.lanes = bench->session->options->lanes;
    return row;
}

static uint64_t in_sectors(uint64_t bytes)
{
    return (bytes + BENCH_SECTOR - 1) / BENCH_SECTOR * BENCH_SECTOR;
}

/* Bytes that the queries must move, on average. */
static double bytes_of_query(const widths_bench *bench, bool with_value)
{
    const bool rows = bench->stats.engine == LOOM_ENGINE_ROWS || bench->stats.engine == LOOM_ENGINE_TICKETS,
               apart = bench->session->options->layout == LOOM_LAYOUT_APART;
    const uint32_t pair_in_line = bench->stats.engine == LOOM_ENGINE_OPEN ? 12 : 8; /* bytes of the widest */
    const bool in_line = !rows && bench->key_bytes + bench->value_bytes <= pair_in_line;
    if (bench->strings) { /* an offset and the string; a line; value and status; the row with a reference, the heap */
        const uint64_t value = with_value ? bench->value_bytes : 0;
        const uint64_t row = apart ? in_sectors(16) + in_sectors(value) : in_sectors(16 + value);
        return (double)(8 + bench->key_bytes + BENCH_LINE + value + 1) +
               (double)(row + in_sectors(bench->key_bytes)) * bench->hit / 100;
    }
    const uint64_t key = rows ? bench->key_bytes : 0, value = with_value && !in_line ? bench->value_bytes : 0;
    const uint64_t row = rows && apart ? in_sectors(key) + in_sectors(value) : in_sectors(key + value);
    return bench->key_bytes + BENCH_LINE + (with_value ? bench->value_bytes : 0) + 1 + (double)row * bench->hit / 100;
}

static void measure(widths_bench *bench, const widths_op *op, double hit)
{
    const bool finds = looks_up(op);
    bench_row row = new_row(bench, op->name);
    bench->hit = finds ? hit : 100;
    if (bench->strings)
        lay_out_strings(bench, QUERIES);
    bench_in_parallel(bench->n, BENCH_GRAIN, make_queries, bench);
    if (send(bench, QUERIES) != LOOM_OK || send(bench, QUERY_OFFSETS) != LOOM_OK ||
        ((finds || op->call == call_update) && call_build(bench) != LOOM_OK))
        bench_row_fail(&row, "%s", loom_last_error());
    row.engine = bench_engine_name(bench->stats.engine, bench->session->options->row_place);
    row.load = (double)bench->n / (double)bench->stats.slots;
    row.hit = finds ? hit : NAN;
    row.batch = bench->n;
    row.bytes_per_entry = (double)bench->footprint / (double)bench->n;
    const double copy = finds ? bench_limit_rate(bench->session, LOOM_LIMIT_COPY, 0, bench->footprint, &row) : NAN;
    bench_progress("widths %s, %u + %u bytes", op->name, (unsigned)bench->key_bytes, (unsigned)bench->value_bytes);
    const double seconds = bench_row_failed(&row) ? NAN : time_op(bench, op, &row);
    if (!isnan(seconds)) {
        row.mops = (double)bench->n / seconds * 1e-6;
        if (finds && bench->stats.engine != LOOM_ENGINE_TICKETS) { /* whose lookups read tickets, not a line */
            row.gbps = row.mops * bytes_of_query(bench, op->call == call_find) * 1e-3;
            row.limit = copy * 1e-9;
            row.share = row.gbps / row.limit;
        }
    }
    bench_row_note(&row, "%.1f bytes per entry", row.bytes_per_entry);
    if (bench->strings)
        bench_row_note(&row, "keys of %d to %d bytes", BENCH_SHORTEST, BENCH_LONGEST);
    bench_report_add(&bench->session->report, &row);
}

/* ---- Tables --------------------------------------------------------------------------------------------- */

static loom_status make_table(widths_bench *bench)
{
    loom_map_config config = LOOM_MAP_CONFIG_INIT;
    config.key_bytes = bench->strings ? LOOM_VARIABLE : bench->key_bytes;
    config.string_bytes = bench->string_bytes;
    config.value_bytes = bench->value_bytes;
    config.capacity = bench->n;
    config.max_load = bench->load;
    config.growth = 0;
    config.engine = bench->session->options->engine;
    config.row_place = bench->session->options->row_place;
    config.layout = bench->session->options->layout;
    config.ticket_bits = bench->session->options->ticket_bits;
    bench->stats = (loom_stats)LOOM_STATS_INIT;
    loom_status status = loom_map_create(bench->session->context, &config, &bench->map);
    if (status == LOOM_OK)
        status = loom_map_stats(bench->map, &bench->stats, NULL);
    if (status == LOOM_OK)
        status = loom_map_memory_used(bench->map, &bench->footprint);
    return status;
}

static bool op_runs(const bench_options *options, size_t index)
{
    return bench_options_wants(options, widths_ops[index].name);
}

/* The machine has no tables of this width, or the engine that --engine names has none. Only tables with rows have a
 * layout, and only those of the tickets engine have --ticket-bits. */
static bool is_left_out(const widths_bench *bench, loom_status status)
{
    return status == LOOM_UNSUPPORTED ||
           (status == LOOM_INVALID_ARGUMENT &&
            (bench->session->options->engine != LOOM_ENGINE_DEFAULT || bench->session->options->ticket_bits != 0 ||
             bench->session->options->layout != LOOM_LAYOUT_DEFAULT));
}

static void run_load(widths_bench *bench, const bench_list *hits)
{
    const bench_options *options = bench->session->options;
    const loom_status status = make_table(bench);
    if (status != LOOM_OK) {
        bench_row row = new_row(bench, "create");
        if (is_left_out(bench, status)) {
            snprintf(row.check, sizeof row.check, "left out");
            bench_row_note(&row, "%s", loom_last_error());
        } else
            bench_row_fail(&row, "%s: %s", loom_status_name(status), loom_last_error());
        bench_report_add(&bench->session->report, &row);
    }
    for (size_t op = 0; widths_ops[op].name && status == LOOM_OK; op++)
        if (op_runs(options, op))
            for (size_t i = 0; i < (looks_up(&widths_ops[op]) ? hits->count : 1); i++)
                measure(bench, &widths_ops[op], hits->at[i]);
    loom_map_destroy(bench->map);
    bench->map = NULL;
}

/* Without --n: a power of two, as large as memory of a modest size holds. */
static uint64_t choose_n(const bench_session *session, uint32_t key_bytes, uint32_t value_bytes)
{
    const uint64_t most = session->info.machine == LOOM_MACHINE_CPU ? BENCH_WIDTHS_BYTES : BENCH_WIDTHS_BYTES_ON_DEVICE;
    uint64_t n = BENCH_DEFAULT_N;
    if (session->options->given & BENCH_USES_N)
        return session->options->n;
    while (n * (key_bytes + value_bytes) > most)
        n /= 2;
    return n;
}

static void run_form(bench_session *session, uint32_t key_bytes, uint32_t value_bytes, bool strings)
{
    static const bench_list one_load = BENCH_LIST(BENCH_WIDTHS_LOAD), two_hits = BENCH_LIST(BENCH_WIDTHS_HITS);
    const bench_options *options = session->options;
    const bench_list *loads = options->given & BENCH_USES_LOAD ? &options->loads : &one_load;
    const bench_list *hits = options->given & BENCH_USES_HIT ? &options->hits : &two_hits;
    widths_bench bench = {.session = session,
                          .n = choose_n(session, key_bytes, value_bytes),
                          .key_bytes = key_bytes,
                          .value_bytes = value_bytes,
                          .strings = strings};
    bench_progress("widths: making pairs of %u + %u bytes", (unsigned)key_bytes, (unsigned)value_bytes);
    bool made = make_arrays(&bench);
    if (made) {
        if (strings)
            lay_out_strings(&bench, KEYS);
        bench_in_parallel(bench.n, BENCH_GRAIN, make_pairs, &bench);
        made = send(&bench, KEYS) == LOOM_OK && send(&bench, VALUES) == LOOM_OK && send(&bench, KEY_OFFSETS) == LOOM_OK;
    }
    for (size_t i = 0; i < loads->count && made; i++) {
        bench.load = loads->at[i];
        run_load(&bench, hits);
    }
    if (!made) {
        bench_row row = new_row(&bench, "pairs");
        row.load = NAN;
        bench_row_fail(&row, "there is no memory for the pairs of the benchmark; ask for a smaller --n");
        bench_report_add(&session->report, &row);
    }
    free_arrays(&bench);
}

static void run_widths(bench_session *session)
{
    static const uint32_t forms[][2] = {BENCH_WIDTHS_FORMS};
    const bench_options *options = session->options;
    if (options->given & (BENCH_USES_KEY_BYTES | BENCH_USES_VALUE_BYTES)) {
        run_form(session, options->key_bytes, options->value_bytes, false);
        return;
    }
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++)
        run_form(session, forms[i][0], forms[i][1], false);
    if (options->engine == LOOM_ENGINE_DEFAULT || options->engine == LOOM_ENGINE_ROWS)
        run_form(session, (BENCH_SHORTEST + BENCH_LONGEST) / 2, 8, true);
}

static const char *op_name(size_t index)
{
    return widths_ops[index].name;
}

static uint32_t op_uses(size_t index)
{
    return looks_up(&widths_ops[index]) ? BENCH_USES_HIT : 0;
}

const bench_case bench_case_widths = {.name = "widths",
                                      .summary = "maps, by bytes of key and value",
                                      .op_name = op_name,
                                      .op_runs = op_runs,
                                      .op_uses = op_uses,
                                      .type = LOOM_TYPE_MAP,
                                      .uses = BENCH_USES_LIMITS | BENCH_USES_N | BENCH_USES_LOAD |
                                              BENCH_USES_KEY_BYTES | BENCH_USES_VALUE_BYTES | BENCH_USES_OPS |
                                              BENCH_USES_REPEAT | BENCH_USES_ENGINE | BENCH_USES_LANES |
                                              BENCH_USES_LAYOUT | BENCH_USES_TICKET_BITS,
                                      .any_width = BENCH_USES_KEY_BYTES | BENCH_USES_VALUE_BYTES,
                                      .run = run_widths};
