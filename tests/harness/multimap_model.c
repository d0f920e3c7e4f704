#include "multimap_model.h"

#include <stdlib.h>
#include <string.h>

#define UNWRITTEN 0xee /* what output arrays hold before a call */

/* ---- Contexts, tables, lists --------------------------------------------------------------------------- */

loom_map_config make_multimap_config(const test_run *t, uint64_t capacity, uint64_t values)
{
    loom_map_config config = make_config(t, capacity);
    config.type = LOOM_TYPE_MULTIMAP;
    config.values = values;
    return config;
}

loom_context *make_multimap_context(test_run *t)
{
    loom_context *context = make_context(t);
    loom_map_config config = make_multimap_config(t, 10, 10);
    loom_map *map = NULL;
    CHECK_OK(loom_map_create(context, &config, &map));
    CHECK_OK(loom_supports(context, LOOM_TYPE_MULTIMAP, t->engine, LOOM_FEATURE_LISTS));
    loom_map_destroy(map);
    return context;
}

multimap_model make_multimap_model(test_run *t, loom_context *context, const loom_map_config *config)
{
    multimap_model m;
    memset(&m, 0, sizeof m);
    m.t = t;
    m.map = make_map_from(context, config);
    m.places = reference_create();
    m.most = config->most_values_per_key;
    m.grows = config->growth > 1 && config->memory_limit == 0;
    m.in_order = 1;
    m.key_bytes = config->key_bytes;
    m.value_bytes = config->value_bytes;
    return m;
}

void end_multimap_model(multimap_model *m)
{
    for (uint64_t i = 0; i < m->used; i++)
        free(m->lists[i].values);
    free(m->lists);
    reference_destroy(m->places);
    loom_map_destroy(m->map);
    memset(m, 0, sizeof *m);
}

uint64_t map_distinct(loom_map *map)
{
    uint64_t distinct = UINT64_MAX;
    CHECK_OK(loom_map_distinct(map, &distinct, NULL));
    return distinct;
}

/* An array that has room for one more element than `used`. */
static void *more_room(void *array, uint64_t used, uint64_t *room, size_t bytes)
{
    if (used < *room)
        return array;
    *room = *room ? 2 * *room : 4;
    array = realloc(array, *room * bytes);
    CHECK(array != NULL);
    return array;
}

const value_list *multimap_list(const multimap_model *m, uint64_t key)
{
    uint64_t place = 0;
    return reference_get(m->places, key, &place) ? &m->lists[place] : NULL;
}

static uint64_t count_of(const multimap_model *m, uint64_t key)
{
    const value_list *list = multimap_list(m, key);
    return list ? list->count : 0;
}

static value_list *list_for(multimap_model *m, uint64_t key)
{
    uint64_t place = 0;
    if (reference_get(m->places, key, &place))
        return &m->lists[place];
    m->lists = more_room(m->lists, m->used, &m->room, sizeof *m->lists);
    m->lists[m->used] = (value_list){key, 0, 0, NULL};
    reference_put(m->places, key, m->used);
    return &m->lists[m->used++];
}

static void append(multimap_model *m, uint64_t key, uint64_t value)
{
    value_list *list = list_for(m, key);
    list->values = more_room(list->values, list->count, &list->room, sizeof *list->values);
    m->distinct += list->count == 0;
    m->size++;
    list->values[list->count++] = value;
}

/* 1 if the key was there. */
static int remove_key(multimap_model *m, uint64_t key)
{
    if (count_of(m, key) == 0)
        return 0;
    value_list *list = list_for(m, key);
    m->size -= list->count;
    m->distinct--;
    list->count = 0;
    return 1;
}

/* Removes the first value that is equal; 1 if there was one. */
static int remove_pair(multimap_model *m, uint64_t key, uint64_t value)
{
    const uint64_t count = count_of(m, key);
    value_list *list = list_for(m, key);
    uint64_t at = 0;
    while (at < count && list->values[at] != value)
        at++;
    if (at == count)
        return 0;
    memmove(list->values + at, list->values + at + 1, (count - at - 1) * sizeof *list->values);
    list->count--;
    m->size--;
    m->distinct -= list->count == 0;
    return 1;
}

static void remove_all(multimap_model *m)
{
    for (uint64_t i = 0; i < m->used; i++)
        m->lists[i].count = 0;
    m->size = m->distinct = 0;
    m->in_order = 1;
}

static loom_map_config config_of(loom_map *map)
{
    loom_map_config config = LOOM_MAP_CONFIG_INIT;
    CHECK_OK(loom_map_get_config(map, &config));
    return config;
}

/* ---- Statuses and results ------------------------------------------------------------------------------ */

static loom_result blank_result(void)
{
    loom_result result;
    memset(&result, UNWRITTEN, sizeof result);
    return result;
}

/* Checks the result against the statuses, which are OK or `other`. */
static void check_statuses(const batch *b, const loom_result *result, loom_status other)
{
    uint64_t counts[4] = {0};
    for (uint64_t i = 0; i < b->n; i++) {
        if (b->status[i] != LOOM_OK && b->status[i] != other)
            FAIL("status[%llu] of %llu is %d", (unsigned long long)i, (unsigned long long)b->n, b->status[i]);
        counts[b->status[i]]++;
    }
    CHECK_EQ(result->keys, b->n);
    CHECK_EQ(result->ok, counts[LOOM_OK]);
    CHECK_EQ(result->exists, 0);
    CHECK_EQ(result->not_found, counts[LOOM_NOT_FOUND]);
    CHECK_EQ(result->full, counts[LOOM_FULL]);
    CHECK_EQ(result->status, counts[LOOM_FULL] ? LOOM_FULL : LOOM_OK);
    CHECK_EQ(result->reserved0, 0);
    CHECK_EQ(result->reserved[0] | result->too_long, 0);
}

/* ---- Insert and build ---------------------------------------------------------------------------------- */

/* Stores the rows with status OK in the model, in the order of the batch. */
static void take_rows(multimap_model *m, const batch *b, uint32_t flags)
{
    if (m->t->machine != LOOM_MACHINE_CPU && !(flags & LOOM_IN_ORDER) && b->n > 0)
        m->in_order = 0;
    for (uint64_t i = 0; i < b->n; i++) {
        const uint64_t key = batch_key(b, i);
        const int at_limit = m->most && count_of(m, key) >= m->most;
        if (m->grows && m->in_order) /* of the rows of a key, the first ones are stored */
            CHECK_EQ(b->status[i], at_limit ? LOOM_FULL : LOOM_OK);
        if (b->status[i] != LOOM_OK)
            continue;
        CHECK(!at_limit);
        append(m, key, batch_value(b, i));
    }
    for (uint64_t i = 0; i < b->n; i++)
        if (m->grows && b->status[i] == LOOM_FULL) {
            CHECK_GT(m->most, 0);
            CHECK_EQ(count_of(m, batch_key(b, i)), m->most);
        }
}

loom_status multimap_try_insert(multimap_model *m, batch *b, uint32_t flags, loom_result *result)
{
    *result = blank_result();
    memset(b->status, UNWRITTEN, b->n);
    const loom_status status = loom_map_insert(m->map, b->keys, b->values, b->n, flags, b->status, result, NULL);
    if (status == LOOM_OK) {
        check_statuses(b, result, LOOM_FULL);
        take_rows(m, b, flags);
    }
    multimap_check_counts(m);
    return status;
}

loom_result multimap_insert(multimap_model *m, batch *b, uint32_t flags)
{
    loom_result result;
    CHECK_OK(multimap_try_insert(m, b, flags, &result));
    return result;
}

/* Whether a build of the batch must not refuse anything. */
static int must_fit(const multimap_model *m, const batch *b)
{
    const loom_map_config config = config_of(m->map);
    reference_map *keys = reference_create();
    for (uint64_t i = 0; i < b->n; i++)
        reference_put(keys, batch_key(b, i), 0);
    const int fits = m->most == 0 && reference_size(keys) <= config.capacity && b->n <= config.values;
    reference_destroy(keys);
    return fits;
}

loom_status multimap_try_build(multimap_model *m, batch *b, uint32_t flags, loom_result *result)
{
    const int fits = must_fit(m, b);
    *result = blank_result();
    memset(b->status, UNWRITTEN, b->n);
    const loom_status status = loom_map_build(m->map, b->keys, b->values, b->n, flags, b->status, result, NULL);
    if (status == LOOM_OK) {
        check_statuses(b, result, LOOM_FULL);
        if (fits)
            CHECK_EQ(result->full, 0);
        remove_all(m);
        take_rows(m, b, flags);
    }
    multimap_check_counts(m);
    return status;
}

loom_result multimap_build(multimap_model *m, batch *b, uint32_t flags)
{
    loom_result result;
    CHECK_OK(multimap_try_build(m, b, flags, &result));
    return result;
}

void multimap_insert_bare(multimap_model *m, batch *b, uint32_t flags)
{
    reference_map *counts = reference_create();
    uint64_t refused = 0;
    CHECK(m->grows && (m->most == 0 || m->t->machine == LOOM_MACHINE_CPU));
    for (uint64_t i = 0; i < b->n; i++) {
        const uint64_t key = batch_key(b, i);
        uint64_t count = count_of(m, key);
        reference_get(counts, key, &count);
        const int full = m->most && count >= m->most;
        b->status[i] = full ? LOOM_FULL : LOOM_OK;
        refused += (uint64_t)full;
        reference_put(counts, key, count + !full);
    }
    CHECK_STATUS(loom_map_insert(m->map, b->keys, b->values, b->n, flags, NULL, NULL, NULL),
                 refused ? LOOM_FULL : LOOM_OK);
    take_rows(m, b, flags);
    multimap_check_counts(m);
    reference_destroy(counts);
}

loom_result multimap_insert_untold(multimap_model *m, batch *b, uint32_t flags)
{
    loom_result result = blank_result();
    CHECK_OK(loom_map_insert(m->map, b->keys, b->values, b->n, flags, NULL, &result, NULL));
    CHECK_OK(loom_map_contains(m->map, b->keys, b->n, NULL, b->status, NULL, NULL));
    for (uint64_t i = 0; i < b->n; i++)
        if (b->status[i] == LOOM_NOT_FOUND)
            b->status[i] = LOOM_FULL;
    check_statuses(b, &result, LOOM_FULL);
    take_rows(m, b, flags);
    multimap_check_counts(m);
    return result;
}

/* ---- Erase --------------------------------------------------------------------------------------------- */

typedef struct pair_row {
    uint64_t key, value;
    uint64_t got, wanted; /* of an erasure: whether the row erased something in the table, and in the model */
} pair_row;

static int compare_rows(const void *a, const void *b)
{
    const pair_row *x = a, *y = b;
    if (x->key != y->key)
        return x->key < y->key ? -1 : 1;
    return x->value < y->value ? -1 : x->value > y->value;
}

/* Of equal rows, as many got OK as in the model, but they may be others. */
static void check_erased(pair_row *rows, uint64_t n)
{
    qsort(rows, n, sizeof *rows, compare_rows);
    for (uint64_t i = 0, end; i < n; i = end) {
        uint64_t got = 0, wanted = 0;
        for (end = i; end < n && compare_rows(&rows[i], &rows[end]) == 0; end++) {
            got += rows[end].got;
            wanted += rows[end].wanted;
        }
        if (got != wanted)
            FAIL("%llu instead of %llu of %llu rows with key 0x%llx and value 0x%llx were erased",
                 (unsigned long long)got, (unsigned long long)wanted, (unsigned long long)(end - i),
                 (unsigned long long)rows[i].key, (unsigned long long)rows[i].value);
    }
}

loom_result multimap_erase(multimap_model *m, batch *b)
{
    loom_result result = blank_result();
    pair_row *rows = test_allocate(b->n * sizeof *rows);
    memset(b->status, UNWRITTEN, b->n);
    CHECK_OK(loom_map_erase(m->map, b->keys, b->n, b->status, &result, NULL));
    check_statuses(b, &result, LOOM_NOT_FOUND);
    for (uint64_t i = 0; i < b->n; i++) {
        const uint64_t key = batch_key(b, i);
        rows[i] = (pair_row){key, 0, b->status[i] == LOOM_OK, (uint64_t)remove_key(m, key)};
    }
    check_erased(rows, b->n);
    free(rows);
    check_none_found(m->map, b);
    multimap_check_counts(m);
    return result;
}

loom_status multimap_try_erase_pairs(multimap_model *m, batch *b, loom_result *result)
{
    *result = blank_result();
    memset(b->status, UNWRITTEN, b->n);
    const loom_status status = loom_map_erase_pairs(m->map, b->keys, b->values, b->n, b->status, result, NULL);
    if (status == LOOM_OK) {
        pair_row *rows = test_allocate(b->n * sizeof *rows);
        check_statuses(b, result, LOOM_NOT_FOUND);
        for (uint64_t i = 0; i < b->n; i++) {
            const uint64_t key = batch_key(b, i), value = batch_value(b, i);
            rows[i] = (pair_row){key, value, b->status[i] == LOOM_OK, (uint64_t)remove_pair(m, key, value)};
        }
        check_erased(rows, b->n);
        free(rows);
    }
    multimap_check_counts(m);
    return status;
}

loom_result multimap_erase_pairs(multimap_model *m, batch *b)
{
    loom_result result;
    CHECK_OK(multimap_try_erase_pairs(m, b, &result));
    return result;
}

loom_result multimap_erase_if(multimap_model *m, const number_range *range)
{
    uint64_t erased = 0, bounds[2];
    set_word(bounds, m->value_bytes, 0, range->least);
    set_word(bounds + 1, m->value_bytes, 0, range->most);
    for (uint64_t i = 0; i < m->used; i++) {
        value_list *list = &m->lists[i];
        const uint64_t before = list->count;
        list->count = 0;
        for (uint64_t j = 0; j < before; j++)
            if (!number_in_range(range, list->values[j]))
                list->values[list->count++] = list->values[j];
        erased += before - list->count;
        m->distinct -= before > 0 && list->count == 0;
    }
    m->size -= erased;
    const loom_result result =
        checked_erase_if(m->map, range->number, range->has_least ? bounds : NULL, range->has_most ? bounds + 1 : NULL);
    CHECK_EQ(result.ok, erased);
    multimap_check_counts(m);
    return result;
}

int multimap_has_ranges(const multimap_model *m)
{
    if (m->value_bytes == 4 || m->value_bytes == 8)
        return 1;
    CHECK_REFUSED(loom_map_erase_if(m->map, LOOM_NUMBER_U64, NULL, NULL, NULL, NULL), LOOM_UNSUPPORTED);
    return 0;
}

int multimap_form_has_ranges(test_run *t, loom_context *context)
{
    const loom_map_config config = make_multimap_config(t, 10, 10);
    multimap_model m = make_multimap_model(t, context, &config);
    const int has_ranges = multimap_has_ranges(&m);
    end_multimap_model(&m);
    if (!has_ranges)
        loom_context_destroy(context);
    return has_ranges;
}

void multimap_clear(multimap_model *m)
{
    CHECK_OK(loom_map_clear(m->map, NULL, NULL));
    remove_all(m);
    multimap_check_counts(m);
}

/* ---- Copies -------------------------------------------------------------------------------------------- */

/* Both tables have the same shape; the model's map becomes the copy. */
static void replace_by(multimap_model *m, loom_map *copy)
{
    const loom_map_config old = config_of(m->map), new = config_of(copy);
    CHECK(copy != NULL && copy != m->map);
    CHECK_BYTES(&new, &old, sizeof new);
    loom_map_destroy(m->map);
    m->map = copy;
    multimap_check_counts(m);
}

void multimap_clone(multimap_model *m)
{
    loom_map *clone = NULL;
    CHECK_OK(loom_map_clone(m->map, &clone, NULL));
    replace_by(m, clone);
}

void multimap_save_and_load(multimap_model *m, loom_context *context)
{
    const char *path = test_path(m->t, "multimap.loom");
    loom_map *loaded = NULL;
    CHECK_OK(loom_map_save(m->map, path, NULL));
    CHECK_OK(loom_map_load(context, path, &loaded, NULL));
    CHECK_OK(loom_map_set_growth(loaded, config_of(m->map).growth));
    replace_by(m, loaded);
}

/* ---- Find ---------------------------------------------------------------------------------------------- */

static int has_value(const value_list *list, uint64_t value)
{
    for (uint64_t i = 0; list && i < list->count; i++)
        if (list->values[i] == value)
            return 1;
    return 0;
}

static void check_counts_of(multimap_model *m, const batch *keys)
{
    batch b = copy_batch(keys);
    loom_result result = blank_result();
    uint64_t *counts = test_allocate(b.n * sizeof *counts);
    memset(counts, UNWRITTEN, b.n * sizeof *counts);
    memset(b.status, UNWRITTEN, b.n);
    CHECK_OK(loom_map_find_counts(m->map, b.keys, b.n, counts, b.status, &result, NULL));
    check_statuses(&b, &result, LOOM_NOT_FOUND);
    for (uint64_t i = 0; i < b.n; i++) {
        CHECK_EQ(counts[i], count_of(m, batch_key(&b, i)));
        CHECK_EQ(b.status[i], counts[i] ? LOOM_OK : LOOM_NOT_FOUND);
    }
    memset(counts, UNWRITTEN, b.n * sizeof *counts);
    CHECK_OK(loom_map_find_counts(m->map, b.keys, b.n, counts, NULL, NULL, NULL));
    for (uint64_t i = 0; i < b.n; i++)
        CHECK_EQ(counts[i], count_of(m, batch_key(&b, i)));
    free(counts);
    free_batch(&b);
}

void multimap_find(multimap_model *m, const batch *keys)
{
    batch got = copy_batch(keys);
    const uint64_t absent = random_u64(&m->t->random);
    uint64_t word = 0;
    checked_find(m->map, &got);
    for (uint64_t i = 0; i < got.n; i++) {
        const value_list *list = multimap_list(m, batch_key(&got, i));
        CHECK_EQ(got.status[i], list && list->count ? LOOM_OK : LOOM_NOT_FOUND);
        if (got.status[i] == LOOM_OK)
            CHECK(has_value(list, batch_value(&got, i)));
    }
    if (got.value_bytes > sizeof word)
        CHECK_REFUSED(loom_map_find(m->map, got.keys, got.n, got.values, &word, NULL, NULL, NULL), LOOM_UNSUPPORTED);
    else
        set_word(&word, got.value_bytes, 0, absent);
    if (got.value_bytes <= sizeof word)
        CHECK_OK(loom_map_find(m->map, got.keys, got.n, got.values, &word, NULL, NULL, NULL));
    for (uint64_t i = 0; i < got.n && got.value_bytes <= sizeof word; i++) {
        const value_list *list = multimap_list(m, batch_key(&got, i));
        if (list && list->count)
            CHECK(has_value(list, batch_value(&got, i)));
        else
            CHECK_EQ(batch_value(&got, i), cut_word(absent, got.value_bytes));
    }
    checked_contains(m->map, &got);
    for (uint64_t i = 0; i < got.n; i++)
        CHECK_EQ(got.found[i], count_of(m, batch_key(&got, i)) > 0);
    free_batch(&got);
    check_counts_of(m, keys);
}

/* ---- Find all ------------------------------------------------------------------------------------------ */

/* What find_all wrote. */
typedef struct answer {
    uint64_t *offsets;
    void *values;
    uint64_t room, needed;
    uint32_t value_bytes;
} answer;

static answer make_answer(const multimap_model *m, uint64_t n, uint64_t room)
{
    answer a = {test_allocate((n + 1) * sizeof *a.offsets), test_allocate(room * m->value_bytes), room, UINT64_MAX,
                m->value_bytes};
    memset(a.offsets, UNWRITTEN, (n + 1) * sizeof *a.offsets);
    memset(a.values, UNWRITTEN, room * m->value_bytes);
    return a;
}

static void free_answer(answer *a)
{
    free(a->offsets);
    free(a->values);
}

static uint64_t listed(const multimap_model *m, uint64_t key, uint64_t limit)
{
    const uint64_t count = count_of(m, key);
    return limit && limit < count ? limit : count;
}

/* Returns the number of values in all. */
static uint64_t check_offsets(const multimap_model *m, const batch *keys, uint64_t limit, const answer *a)
{
    uint64_t sum = 0;
    for (uint64_t i = 0; i < keys->n; i++) {
        CHECK_EQ(a->offsets[i], sum);
        sum += listed(m, batch_key(keys, i), limit);
    }
    CHECK_EQ(a->offsets[keys->n], sum);
    return sum;
}

static int compare_words(const void *a, const void *b)
{
    const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

/* In any order. Of a list that was cut off, every value is one of the key's, none more often than there. */
static void check_any_order(const value_list *list, const answer *a, uint64_t first, uint64_t count)
{
    uint64_t *got = test_allocate(count * sizeof *got), *wanted = test_allocate(list->count * sizeof *wanted), at = 0;
    for (uint64_t i = 0; i < count; i++)
        got[i] = get_word(a->values, a->value_bytes, first + i);
    memcpy(wanted, list->values, list->count * sizeof *wanted);
    qsort(got, count, sizeof *got, compare_words);
    qsort(wanted, list->count, sizeof *wanted, compare_words);
    for (uint64_t i = 0; i < count; i++, at++) {
        while (at < list->count && wanted[at] < got[i])
            at++;
        CHECK(at < list->count);
        CHECK_EQ(got[i], wanted[at]);
    }
    free(got);
    free(wanted);
}

static void check_values(const multimap_model *m, const batch *keys, const answer *a)
{
    for (uint64_t i = 0; i < keys->n; i++) {
        const uint64_t first = a->offsets[i], count = a->offsets[i + 1] - first;
        const value_list *list = multimap_list(m, batch_key(keys, i));
        if (count && !m->in_order)
            check_any_order(list, a, first, count);
        for (uint64_t j = 0; m->in_order && j < count; j++) {
            const uint64_t got = get_word(a->values, a->value_bytes, first + j);
            if (got != list->values[j])
                FAIL("value %llu of %llu of key 0x%llx is 0x%llx instead of 0x%llx", (unsigned long long)j,
                     (unsigned long long)list->count, (unsigned long long)list->key, (unsigned long long)got,
                     (unsigned long long)list->values[j]);
        }
    }
    for (uint64_t i = a->offsets[keys->n] * a->value_bytes; i < a->room * a->value_bytes; i++)
        CHECK_EQ(((const uint8_t *)a->values)[i], UNWRITTEN);
}

static void check_untouched(const answer *a)
{
    for (uint64_t i = 0; i < a->room * a->value_bytes; i++)
        CHECK_EQ(((const uint8_t *)a->values)[i], UNWRITTEN);
}

/* Without room: offsets only. Returns the number of values in all. */
static uint64_t ask_offsets(multimap_model *m, const batch *keys, uint64_t limit)
{
    answer a = make_answer(m, keys->n, 0);
    loom_result result = blank_result();
    CHECK_OK(loom_map_find_all(m->map, keys->keys, keys->n, limit, a.offsets, NULL, 0, &a.needed, &result, NULL));
    const uint64_t sum = check_offsets(m, keys, limit, &a);
    uint64_t present = 0;
    for (uint64_t i = 0; i < keys->n; i++)
        present += count_of(m, batch_key(keys, i)) > 0;
    CHECK_EQ(a.needed, sum);
    CHECK_EQ(result.status, LOOM_OK);
    CHECK_EQ(result.keys, keys->n);
    CHECK_EQ(result.ok, present);
    CHECK_EQ(result.not_found, keys->n - present);
    CHECK_EQ(result.exists | result.full | result.reserved0 | result.reserved[0] | result.too_long, 0);
    free_answer(&a);
    return sum;
}

/* With room for `room` values, with `needed` or without. */
static void ask_values(multimap_model *m, const batch *keys, uint64_t limit, uint64_t room, int with_needed)
{
    answer a = make_answer(m, keys->n, room);
    CHECK_OK(loom_map_find_all(m->map, keys->keys, keys->n, limit, a.offsets, a.values, room,
                               with_needed ? &a.needed : NULL, NULL, NULL));
    CHECK_EQ(a.needed, with_needed ? a.offsets[keys->n] : UINT64_MAX);
    check_offsets(m, keys, limit, &a);
    check_values(m, keys, &a);
    free_answer(&a);
}

/* With too little room, but some: the offsets are written, the values are not. */
static void ask_too_small(multimap_model *m, const batch *keys, uint64_t limit, uint64_t room)
{
    for (int with_result = 0; with_result < 2; with_result++) {
        answer a = make_answer(m, keys->n, room);
        loom_result result = blank_result();
        if (with_result) { /* the outcome may be in the result, as for other bulk calls */
            const loom_status status = loom_map_find_all(m->map, keys->keys, keys->n, limit, a.offsets, a.values, room,
                                                         &a.needed, &result, NULL);
            CHECK(status == LOOM_TOO_SMALL || (status == LOOM_OK && result.status == LOOM_TOO_SMALL));
        } else {
            CHECK_REFUSED(
                loom_map_find_all(m->map, keys->keys, keys->n, limit, a.offsets, a.values, room, &a.needed, NULL, NULL),
                LOOM_TOO_SMALL);
        }
        CHECK_EQ(a.needed, check_offsets(m, keys, limit, &a));
        check_untouched(&a);
        free_answer(&a);
    }
}

void multimap_find_all(multimap_model *m, const batch *keys, uint64_t limit)
{
    const uint64_t needed = ask_offsets(m, keys, limit);
    ask_values(m, keys, limit, needed, 1);
    ask_values(m, keys, limit, needed + 1 + random_below(&m->t->random, 9), 0);
    if (needed > 1) {
        ask_too_small(m, keys, limit, needed - 1);
        ask_too_small(m, keys, limit, 1 + random_below(&m->t->random, needed - 1));
    }
}

/* ---- All pairs ----------------------------------------------------------------------------------------- */

void multimap_check_counts(multimap_model *m)
{
    if (m->refusing != NULL)
        counting_fail_at(m->refusing, 0);
    CHECK_EQ(map_size(m->map), m->size);
    CHECK_EQ(map_distinct(m->map), m->distinct);
    checked_verify(m->map);
}

/* Of pairs in any order. Different ones have equal fingerprints once in 2^64. */
static uint64_t pair_fingerprint(uint64_t key, uint64_t value)
{
    return mix_u64(mix_u64(key + 1) + value);
}

static int same_fingerprint(const multimap_model *m, const batch *all)
{
    uint64_t sum = 0;
    for (uint64_t i = 0; i < all->n; i++)
        sum += pair_fingerprint(batch_key(all, i), batch_value(all, i));
    for (uint64_t i = 0; i < m->used; i++)
        for (uint64_t j = 0; j < m->lists[i].count; j++)
            sum -= pair_fingerprint(m->lists[i].key, m->lists[i].values[j]);
    return sum == 0;
}

/* The pairs are those of the model, in any order, each as often as there. */
static void check_pairs(const multimap_model *m, const batch *all)
{
    if (all->n == m->size && same_fingerprint(m, all))
        return;
    pair_row *got = test_allocate(all->n * sizeof *got), *wanted = test_allocate(m->size * sizeof *wanted);
    uint64_t n = 0;
    CHECK_EQ(all->n, m->size);
    for (uint64_t i = 0; i < all->n; i++)
        got[i] = (pair_row){batch_key(all, i), batch_value(all, i), 0, 0};
    for (uint64_t i = 0; i < m->used; i++)
        for (uint64_t j = 0; j < m->lists[i].count; j++)
            wanted[n++] = (pair_row){m->lists[i].key, m->lists[i].values[j], 0, 0};
    qsort(got, n, sizeof *got, compare_rows);
    qsort(wanted, n, sizeof *wanted, compare_rows);
    for (uint64_t i = 0; i < n; i++) {
        CHECK_EQ(got[i].key, wanted[i].key);
        CHECK_EQ(got[i].value, wanted[i].value);
    }
    FAIL("the pairs differ");
}

void multimap_compare(multimap_model *m)
{
    uint64_t longest = 0;
    multimap_check_counts(m);
    batch all = retrieve(m->map, m->key_bytes, m->value_bytes);
    check_pairs(m, &all);
    free_batch(&all);
    batch keys = make_batch_of(m->key_bytes, m->value_bytes, m->used);
    for (uint64_t i = 0; i < m->used; i++) {
        set_pair(&keys, i, m->lists[i].key, 0);
        longest = m->lists[i].count > longest ? m->lists[i].count : longest;
    }
    check_counts_of(m, &keys);
    multimap_find_all(m, &keys, 0);
    free_batch(&keys);
    const loom_stats stats = map_stats(m->map);
    CHECK_EQ(stats.size, m->size);
    CHECK_EQ(stats.distinct, m->distinct);
    CHECK_EQ(stats.longest_list, longest);
}

void multimap_compare_cursor(multimap_model *m, uint64_t room)
{
    loom_cursor *cursor = NULL;
    uint64_t count = UINT64_MAX, taken = 0, got = UINT64_MAX;
    CHECK_OK(loom_map_cursor_open(m->map, &cursor, &count, NULL));
    CHECK_EQ(count, m->size);
    batch all = make_batch_of(m->key_bytes, m->value_bytes, count);
    batch chunk = make_batch_of(m->key_bytes, m->value_bytes, room);
    while (got > 0) {
        CHECK_OK(loom_cursor_next(cursor, chunk.keys, chunk.values, room, &got, NULL));
        CHECK_LE(got, room);
        CHECK_LE(taken + got, count);
        for (uint64_t i = 0; i < got; i++, taken++)
            set_pair(&all, taken, batch_key(&chunk, i), batch_value(&chunk, i));
    }
    CHECK_EQ(taken, count);
    /* The cursor stays at its end. */
    CHECK_OK(loom_cursor_next(cursor, chunk.keys, chunk.values, room, &got, NULL));
    CHECK_EQ(got, 0);
    loom_cursor_close(cursor);
    check_pairs(m, &all);
    free_batch(&all);
    free_batch(&chunk);
}

typedef struct visitor {
    batch all;
    uint64_t taken;
} visitor;

static int visit(void *user, const void *keys, const void *values, uint64_t n)
{
    visitor *v = user;
    CHECK_GT(n, 0);
    CHECK_LE(v->taken + n, v->all.n);
    for (uint64_t i = 0; i < n; i++, v->taken++)
        set_pair(&v->all, v->taken, get_word(keys, v->all.key_bytes, i), get_word(values, v->all.value_bytes, i));
    return 0;
}

void multimap_compare_visits(multimap_model *m)
{
    visitor v = {make_batch_of(m->key_bytes, m->value_bytes, m->size), 0};
    int stopped = -1;
    CHECK_OK(loom_map_for_each(m->map, visit, &v, &stopped, NULL));
    CHECK_EQ(stopped, 0);
    CHECK_EQ(v.taken, m->size);
    check_pairs(m, &v.all);
    free_batch(&v.all);
}
