#include "map_model.h"

#include "number_range.h"

#include <stdlib.h>
#include <string.h>

model make_model(test_run *t, loom_map *map, uint64_t capacity)
{
    model m;
    m.t = t;
    m.map = map;
    m.reference = reference_create();
    m.capacity = capacity;
    m.key_bytes = t->key_bytes;
    m.value_bytes = t->value_bytes;
    return m;
}

void free_model(model *m)
{
    reference_destroy(m->reference);
    m->reference = NULL;
}

batch random_batch(test_run *t, uint64_t universe, uint64_t longest)
{
    uint64_t n =
        random_below(&t->random, 4) ? random_below(&t->random, longest / 8 + 2) : random_below(&t->random, longest + 1);
    batch b = make_batch(t, n);
    uint64_t range = 1 + random_below(&t->random, universe), start = random_below(&t->random, universe - range + 1);
    for (uint64_t i = 0; i < n; i++) {
        uint64_t which = start + random_below(&t->random, range);
        /* Odd numbers as they are, even numbers scattered, and sometimes a special key. */
        uint64_t key = which & 1 ? which : distinct_key(b.key_bytes, 5, which);
        if (random_below(&t->random, 50) == 0)
            key = random_u64(&t->random) & 1 ? UINT64_MAX : UINT64_C(1) << (b.key_bytes * 8 - 1);
        set_pair(&b, i, key, random_u64(&t->random));
    }
    return b;
}

/* ---- Insert and build ----------------------------------------------------------------------------------- */

typedef struct occurrence {
    uint64_t key;
    uint64_t index;
} occurrence;

static int compare_occurrences(const void *a, const void *b)
{
    const occurrence *x = a, *y = b;
    if (x->key != y->key)
        return x->key < y->key ? -1 : 1;
    return x->index < y->index ? -1 : x->index > y->index;
}

/* The batch's indices, equal keys side by side and in the order of the batch. */
static occurrence *group_keys(const batch *b)
{
    occurrence *all = test_allocate(b->n * sizeof *all);
    for (uint64_t i = 0; i < b->n; i++) {
        all[i].key = batch_key(b, i);
        all[i].index = i;
    }
    qsort(all, b->n, sizeof *all, compare_occurrences);
    return all;
}

/* Checks one key that the batch has `count` times. `after`: whether the table has the key now, with the value
 * `after_value`. */
static void check_group(model *m, const batch *b, const occurrence *group, uint64_t count, uint32_t flags, int after,
                        uint64_t after_value)
{
    uint64_t key = group[0].key, before_value = 0, counts[4] = {0, 0, 0, 0}, stored_by = 0;
    int before = reference_get(m->reference, key, &before_value);
    for (uint64_t i = 0; i < count; i++) {
        uint8_t status = b->status[group[i].index];
        counts[status]++;
        if (status == LOOM_OK)
            stored_by = group[i].index;
    }
    uint64_t first = batch_value(b, group[0].index), last = batch_value(b, group[count - 1].index);
    if (before) {
        CHECK(after);
        CHECK_EQ(counts[LOOM_EXISTS], count);
        if (!(flags & LOOM_OVERWRITE))
            CHECK_EQ(after_value, before_value);
    } else if (!after) {
        CHECK_EQ(counts[LOOM_FULL], count);
        return;
    } else {
        CHECK_EQ(counts[LOOM_OK], 1);
        CHECK_EQ(counts[LOOM_EXISTS], count - 1);
        if (flags & LOOM_IN_ORDER)
            CHECK_EQ(stored_by, group[0].index);
        if (!(flags & LOOM_OVERWRITE)) /* the row with LOOM_OK set the value */
            CHECK_EQ(after_value, batch_value(b, stored_by));
    }
    if (!before || flags & LOOM_OVERWRITE) {
        int given = 0;
        for (uint64_t i = 0; i < count; i++)
            given |= batch_value(b, group[i].index) == after_value;
        CHECK(given);
        if (flags & LOOM_IN_ORDER)
            CHECK_EQ(after_value, flags & LOOM_OVERWRITE ? last : first);
    }
    reference_put(m->reference, key, after_value);
}

static void check_groups(model *m, const batch *b, uint32_t flags)
{
    batch got = copy_batch(b);
    occurrence *all = group_keys(b);
    checked_find(m->map, &got);
    for (uint64_t i = 0, end; i < b->n; i = end) {
        for (end = i + 1; end < b->n && all[end].key == all[i].key;)
            end++;
        uint64_t where = all[i].index;
        check_group(m, b, all + i, end - i, flags, got.status[where] == LOOM_OK, batch_value(&got, where));
    }
    free(all);
    free_batch(&got);
}

loom_result model_insert(model *m, batch *b, uint32_t flags)
{
    loom_result result = checked_insert(m->map, b, flags);
    uint64_t before = reference_size(m->reference);
    check_groups(m, b, flags);
    CHECK_EQ(reference_size(m->reference), before + result.ok);
    CHECK_EQ(map_size(m->map), reference_size(m->reference));
    if (result.full)
        CHECK_GE(map_size(m->map), m->capacity);
    return result;
}

loom_result model_build(model *m, batch *b, uint32_t flags)
{
    loom_result result = checked_build(m->map, b, flags);
    reference_clear(m->reference);
    check_groups(m, b, flags);
    CHECK_EQ(reference_size(m->reference), result.ok);
    CHECK_EQ(map_size(m->map), result.ok);
    if (result.full)
        CHECK_GE(map_size(m->map), m->capacity);
    return result;
}

/* Checked like an insertion with LOOM_KEEP. Every entry must return the value that its key has afterwards. */
void model_find_or_insert(model *m, batch *b)
{
    void *found = test_allocate(b->n * b->value_bytes);
    memset(found, 0xa5, b->n * b->value_bytes);
    loom_result result = checked_find_or_insert(m->map, b, found);
    check_groups(m, b, LOOM_KEEP);
    for (uint64_t i = 0; i < b->n; i++) {
        uint64_t value = 0;
        int there = reference_get(m->reference, batch_key(b, i), &value);
        CHECK_EQ(get_word(found, b->value_bytes, i), there ? value : 0);
    }
    CHECK_EQ(map_size(m->map), reference_size(m->reference));
    if (result.full)
        CHECK_GE(map_size(m->map), m->capacity);
    free(found);
}

void model_update(model *m, batch *b)
{
    checked_update(m->map, b);
    batch got = copy_batch(b);
    occurrence *all = group_keys(b);
    checked_find(m->map, &got);
    for (uint64_t i = 0, end; i < b->n; i = end) {
        uint64_t after = batch_value(&got, all[i].index), before = 0;
        int there = reference_get(m->reference, all[i].key, &before), given = 0;
        for (end = i; end < b->n && all[end].key == all[i].key; end++) {
            CHECK_EQ(b->status[all[end].index], there ? LOOM_OK : LOOM_NOT_FOUND);
            given |= batch_value(b, all[end].index) == after;
        }
        CHECK_EQ(got.status[all[i].index], there ? LOOM_OK : LOOM_NOT_FOUND);
        if (!there)
            continue;
        CHECK(given);
        reference_put(m->reference, all[i].key, after);
    }
    free(all);
    free_batch(&got);
}

/* Combines integers without code of the library. */
static uint64_t combine_integers(uint64_t a, uint64_t b, uint32_t bytes, loom_combine combine, int is_signed)
{
    uint64_t flip = is_signed ? UINT64_C(1) << (bytes * 8 - 1) : 0; /* signed comparison by unsigned numbers */
    if (combine == LOOM_COMBINE_ADD)
        return cut_word(a + b, bytes);
    int smaller = (b ^ flip) < (a ^ flip);
    return (combine == LOOM_COMBINE_MIN) == smaller ? b : a;
}

/* After the call: its statuses are in b. */
static void check_combined(model *m, const batch *b, loom_combine combine, int is_signed)
{
    batch got = copy_batch(b);
    occurrence *all = group_keys(b);
    checked_find(m->map, &got);
    for (uint64_t i = 0, end; i < b->n; i = end) {
        uint64_t wanted = 0, stored = 0, refused = 0;
        int before = reference_get(m->reference, all[i].key, &wanted), any = before;
        for (end = i; end < b->n && all[end].key == all[i].key; end++) {
            uint64_t value = batch_value(b, all[end].index);
            wanted = any ? combine_integers(wanted, value, b->value_bytes, combine, is_signed) : value;
            any = 1;
            stored += b->status[all[end].index] == LOOM_OK;
            refused += b->status[all[end].index] == LOOM_FULL;
        }
        int after = got.status[all[i].index] == LOOM_OK;
        CHECK_EQ(stored, !before && after);
        CHECK_EQ(refused, after ? 0 : end - i);
        if (!after)
            continue;
        CHECK_EQ(batch_value(&got, all[i].index), wanted);
        reference_put(m->reference, all[i].key, wanted);
    }
    CHECK_EQ(map_size(m->map), reference_size(m->reference));
    free(all);
    free_batch(&got);
}

void model_accumulate(model *m, batch *b, loom_combine combine, int is_signed)
{
    loom_number number = b->value_bytes == 4 ? is_signed ? LOOM_NUMBER_I32 : LOOM_NUMBER_U32
                         : is_signed         ? LOOM_NUMBER_I64
                                             : LOOM_NUMBER_U64;
    checked_accumulate(m->map, b, combine, number);
    check_combined(m, b, combine, is_signed);
}

void model_accumulate_narrow(model *m, batch *b, loom_combine combine, int is_signed)
{
    batch wide = make_batch_of(b->key_bytes, 8, b->n);
    checked_accumulate(m->map, b, combine, is_signed ? LOOM_NUMBER_I32 : LOOM_NUMBER_U32);
    for (uint64_t i = 0; i < b->n; i++) {
        uint64_t value = batch_value(b, i);
        if (is_signed && value >> 31)
            value |= UINT64_MAX << 32;
        if (combine == LOOM_COMBINE_ADD_AND_COUNT)
            value += UINT64_C(1) << 40;
        set_pair(&wide, i, batch_key(b, i), value);
        wide.status[i] = b->status[i];
    }
    check_combined(m, &wide, combine == LOOM_COMBINE_ADD_AND_COUNT ? LOOM_COMBINE_ADD : combine, is_signed);
    free_batch(&wide);
}

void model_count(model *m, batch *b)
{
    for (uint64_t i = 0; i < b->n; i++)
        set_word(b->values, b->value_bytes, i, 1);
    checked_count(m->map, b);
    check_combined(m, b, LOOM_COMBINE_ADD, 0);
}

/* ---- The others ---------------------------------------------------------------------------------------- */

void model_find(model *m, const batch *keys)
{
    batch got = copy_batch(keys);
    checked_find(m->map, &got);
    for (uint64_t i = 0; i < got.n; i++) {
        uint64_t wanted = 0;
        int there = reference_get(m->reference, batch_key(&got, i), &wanted);
        CHECK_EQ(got.status[i], there ? LOOM_OK : LOOM_NOT_FOUND);
        CHECK_EQ(batch_value(&got, i), there ? wanted : 0);
    }
    checked_contains(m->map, &got);
    for (uint64_t i = 0; i < got.n; i++)
        CHECK_EQ(got.found[i], reference_get(m->reference, batch_key(&got, i), NULL));
    free_batch(&got);
}

void model_find_or(model *m, const batch *keys, uint64_t absent)
{
    batch got = copy_batch(keys);
    CHECK_OK(loom_map_find(m->map, got.keys, got.n, got.values, got.values ? &absent : NULL, NULL, NULL, NULL));
    for (uint64_t i = 0; i < got.n; i++) {
        uint64_t wanted = 0;
        int there = reference_get(m->reference, batch_key(&got, i), &wanted);
        CHECK_EQ(batch_value(&got, i), there ? wanted : cut_word(absent, got.value_bytes));
    }
    free_batch(&got);
}

void model_erase(model *m, batch *b)
{
    checked_erase(m->map, b);
    occurrence *all = group_keys(b);
    for (uint64_t i = 0, end; i < b->n; i = end) {
        uint64_t erased = 0;
        for (end = i; end < b->n && all[end].key == all[i].key; end++)
            erased += b->status[all[end].index] == LOOM_OK;
        CHECK_EQ(erased, reference_remove(m->reference, all[i].key));
    }
    free(all);
    check_none_found(m->map, b);
    CHECK_EQ(map_size(m->map), reference_size(m->reference));
}

/* What row i of a batch does if the rows before it are done. Returns its status. *found: what a lookup finds. */
static uint8_t apply_to_reference(model *m, const batch *b, uint64_t i, uint8_t operation, uint64_t *found)
{
    const uint64_t key = batch_key(b, i), value = batch_value(b, i);
    uint64_t held = 0;
    const int there = reference_get(m->reference, key, &held);
    *found = held;
    switch (operation) {
    case LOOM_APPLY_FIND:
        return there ? LOOM_OK : LOOM_NOT_FOUND;
    case LOOM_APPLY_ERASE:
        reference_remove(m->reference, key);
        return there ? LOOM_OK : LOOM_NOT_FOUND;
    case LOOM_APPLY_UPDATE:
        if (there)
            reference_put(m->reference, key, value);
        return there ? LOOM_OK : LOOM_NOT_FOUND;
    case LOOM_APPLY_INSERT:
        if (!there)
            reference_put(m->reference, key, value);
        return there ? LOOM_EXISTS : LOOM_OK;
    case LOOM_APPLY_ADD:
        reference_put(m->reference, key, cut_word(held + value, m->value_bytes));
        return there ? LOOM_EXISTS : LOOM_OK;
    default:
        reference_put(m->reference, key, value);
        return there ? LOOM_EXISTS : LOOM_OK;
    }
}

void model_apply(model *m, batch *b)
{
    static const uint8_t of_sets[] = {LOOM_APPLY_FIND, LOOM_APPLY_INSERT, LOOM_APPLY_OVERWRITE, LOOM_APPLY_ERASE};
    uint8_t *operations = test_allocate(b->n);
    void *found = test_allocate(b->n * 8);
    loom_result result;
    for (uint64_t i = 0; i < b->n; i++)
        operations[i] = b->value_bytes > 0 ? (uint8_t)random_below(&m->t->random, LOOM_APPLY_ADD + 1)
                                           : of_sets[random_below(&m->t->random, sizeof of_sets)];
    CHECK_OK(loom_map_apply(m->map, operations, b->keys, b->values, b->n, LOOM_IN_ORDER,
                            b->value_bytes > 0 ? found : NULL, b->status, &result, NULL));
    CHECK_EQ(result.keys, b->n);
    CHECK_EQ(result.full, 0);
    for (uint64_t i = 0; i < b->n; i++) {
        uint64_t wanted;
        CHECK_EQ(b->status[i], apply_to_reference(m, b, i, operations[i], &wanted));
        if (b->value_bytes > 0 && operations[i] == LOOM_APPLY_FIND)
            CHECK_EQ(get_word(found, b->value_bytes, i), wanted);
    }
    CHECK_EQ(map_size(m->map), reference_size(m->reference));
    free(operations);
    free(found);
}

static loom_result erase_range(model *m, const number_range *range)
{
    uint64_t position = 0, key, value, erased = 0, bounds[2];
    reference_map *left = reference_create();
    set_word(bounds, m->value_bytes, 0, range->least);
    set_word(bounds + 1, m->value_bytes, 0, range->most);
    while (reference_next(m->reference, &position, &key, &value)) {
        const int in = number_in_range(range, value);
        erased += (uint64_t)in;
        if (!in)
            reference_put(left, key, value);
    }
    loom_result result =
        checked_erase_if(m->map, range->number, range->has_least ? bounds : NULL, range->has_most ? bounds + 1 : NULL);
    CHECK_EQ(result.ok, erased);
    reference_destroy(m->reference);
    m->reference = left;
    CHECK_EQ(map_size(m->map), reference_size(m->reference));
    return result;
}

loom_result model_erase_if(model *m, loom_number number, const uint64_t *least, const uint64_t *most)
{
    const number_range range = {number, least != NULL, most != NULL, least ? *least : 0, most ? *most : 0};
    return erase_range(m, &range);
}

/* The value of a random pair, or any number if the table is empty. */
static uint64_t random_bound(model *m)
{
    uint64_t position = 0, key, value, skip = random_below(&m->t->random, reference_size(m->reference) + 1), found = 0;
    while (reference_next(m->reference, &position, &key, &value) && skip-- > 0)
        found = value;
    return found;
}

void model_erase_if_random(model *m)
{
    const uint64_t a = random_bound(m), b = random_bound(m);
    const number_range range = random_range(&m->t->random, m->value_bytes, a, b);
    erase_range(m, &range);
}

void model_clear(model *m)
{
    CHECK_OK(loom_map_clear(m->map, NULL, NULL));
    reference_clear(m->reference);
    CHECK_EQ(map_size(m->map), 0);
}

void model_clone(model *m)
{
    loom_map *clone = NULL;
    CHECK_OK(loom_map_clone(m->map, &clone, NULL));
    loom_map_destroy(m->map);
    m->map = clone;
}

void model_save_and_load(model *m, loom_context *context)
{
    const char *path = test_path(m->t, "model.loom");
    loom_map *loaded = NULL;
    CHECK_OK(loom_map_save(m->map, path, NULL));
    CHECK_OK(loom_map_load(context, path, &loaded, NULL));
    loom_map_destroy(m->map);
    m->map = loaded;
}

/* Every pair that the table gave out is in the reference, none twice. */
static void check_retrieved(model *m, const batch *all)
{
    reference_map *seen = reference_create();
    CHECK_EQ(all->n, reference_size(m->reference));
    for (uint64_t i = 0; i < all->n; i++) {
        uint64_t wanted = 0;
        if (!reference_get(m->reference, batch_key(all, i), &wanted))
            FAIL("key 0x%llx was retrieved but was never stored", (unsigned long long)batch_key(all, i));
        CHECK_EQ(batch_value(all, i), wanted);
        if (!reference_put(seen, batch_key(all, i), 0))
            FAIL("key 0x%llx was retrieved twice", (unsigned long long)batch_key(all, i));
    }
    reference_destroy(seen);
}

void model_compare(model *m)
{
    CHECK_EQ(map_size(m->map), reference_size(m->reference));
    checked_verify(m->map);
    batch all = retrieve(m->map, m->key_bytes, m->value_bytes);
    check_retrieved(m, &all);
    check_all_found(m->map, &all);
    free_batch(&all);
}

void model_compare_cursor(model *m, uint64_t room)
{
    loom_cursor *cursor = NULL;
    uint64_t count = UINT64_MAX, taken = 0, got = UINT64_MAX;
    CHECK_OK(loom_map_cursor_open(m->map, &cursor, &count, NULL));
    CHECK_EQ(count, reference_size(m->reference));
    batch all = make_batch_of(m->key_bytes, m->value_bytes, count);
    batch chunk = make_batch_of(m->key_bytes, m->value_bytes, room);
    for (;;) {
        CHECK_OK(loom_cursor_next(cursor, chunk.keys, chunk.values, room, &got, NULL));
        CHECK_LE(got, room);
        CHECK_LE(taken + got, count);
        if (got == 0)
            break;
        for (uint64_t i = 0; i < got; i++, taken++)
            set_pair(&all, taken, batch_key(&chunk, i), batch_value(&chunk, i));
    }
    CHECK_EQ(taken, count);
    /* The cursor stays at its end. */
    CHECK_OK(loom_cursor_next(cursor, chunk.keys, chunk.values, room, &got, NULL));
    CHECK_EQ(got, 0);
    loom_cursor_close(cursor);
    check_retrieved(m, &all);
    free_batch(&all);
    free_batch(&chunk);
}
