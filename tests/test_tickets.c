/* Adds the ticket engine, which has no public name yet, to the engines of this program, once for each size of a ticket;
 * and tickets of 8 bits to the list of cases, so that test_cases_agree_with_reference runs for them. The models of
 * test_rows_widths.c run for all of them. Here: what they do not reach. */
#include "engines/tickets/tickets.h"
#include "harness/file_surgery.h"
#include "harness/map_model.h"
#include "harness/saved_table.h"
#include "machines/cpu/tickets/cpu_tickets.h"

/* ---- the engines ---- */

static const table_form ticket_forms[] = {
    {LOOM_TYPE_MAP, 4, 4}, {LOOM_TYPE_MAP, 8, 8},     {LOOM_TYPE_MAP, 4, 8},     {LOOM_TYPE_SET, 4, 0},
    {LOOM_TYPE_SET, 8, 0}, {LOOM_TYPE_COUNTER, 8, 8}, {LOOM_TYPE_COUNTER, 4, 8}, {LOOM_TYPE_DEFAULT, 0, 0},
};
static const table_case ticket_case = {.name = "tickets",
                                       .engine = LOOM__ENGINE_TICKETS,
                                       .forms = ticket_forms,
                                       .largest_load = 0.95,
                                       .cpu_only = 1,
                                       .partial = 1};

static const void *kernels_on(const loom__machine *machine)
{
    return machine->ops->id == LOOM_MACHINE_CPU ? &loom__cpu_tickets_kernels : NULL;
}

#define CHOOSE(bits)                                                                                    \
    static loom_status choose_##bits(loom__machine *machine, const void *config, loom__description *is) \
    {                                                                                                   \
        (void)machine;                                                                                  \
        return loom__tickets_choose(config, bits, is);                                                  \
    }
CHOOSE(1)
CHOOSE(2)
CHOOSE(4)
#undef CHOOSE

static loom__engine narrow[3];

/* Engine LOOM__ENGINE_TICKETS + bits, for fewer than 8 bits. */
__attribute__((constructor)) static void add_tickets(void)
{
    static loom_status (*const choose[])(loom__machine *, const void *, loom__description *) = {choose_1, choose_2,
                                                                                                choose_4};
    loom__engine_register(&loom__tickets_engine);
    for (uint32_t i = 0; i < 3; i++) {
        narrow[i] = loom__tickets_engine;
        narrow[i].id = (loom_engine)(LOOM__ENGINE_TICKETS + (1 << i));
        narrow[i].choose = choose[i];
        narrow[i].kernels = kernels_on;
        loom__engine_register(&narrow[i]);
    }
    table_case_add(&ticket_case);
}

/* ---- tests ---- */

static loom_map_config ticket_config(test_run *t, loom_engine engine, uint64_t capacity)
{
    t->engine = engine;
    loom_map_config config = make_config(t, capacity);
    config.engine = engine;
    return config;
}

/* A table grows by the steps of the core: the engine has no code for it. */
TEST_EACH_KIND(test_tickets_grow, .cpu_only = 1)
{
    loom_context *context = make_context(t);
    for (uint32_t bits = 0; bits < 8; bits = bits == 0 ? 1 : 2 * bits) {
        loom_map_config config = ticket_config(t, (loom_engine)(LOOM__ENGINE_TICKETS + bits), 10);
        config.growth = 2;
        loom_map *map = make_map_from(context, &config);
        batch b = make_batch(t, t->quick ? 20000 : 200000);
        fill_distinct(&b, random_u64(&t->random), 0);
        CHECK_EQ(checked_insert(map, &b, LOOM_KEEP).ok, b.n);
        check_contents(map, &b);
        checked_verify(map);
        CHECK_GE(map_stats(map).capacity, b.n);
        free_batch(&b);
        loom_map_destroy(map);
    }
    loom_context_destroy(context);
}

/* Erases keys first .. first + n - 1, and finds the others up to `end`. */
static void erase_and_check(test_run *t, loom_map *map, uint64_t salt, uint64_t first, uint64_t n, uint64_t end)
{
    batch gone = make_batch(t, n), kept = make_batch(t, end - first - n);
    fill_distinct(&gone, salt, first);
    CHECK_EQ(checked_erase(map, &gone).ok, n);
    fill_distinct(&kept, salt, first + n);
    check_contents(map, &kept);
    checked_verify(map);
    free_batch(&gone);
    free_batch(&kept);
}

/* Without free tickets left, searches end at the partition's depth. Upkeep makes retired tickets free again; first
 * while many keys lie deep, then when few are left. */
TEST_EACH_KIND(test_tickets_upkeep_frees_retired_tickets, .cpu_only = 1)
{
    enum { KEYS = 4000, SOME = 300, FEW = 400 };
    loom_context *context = make_context(t);
    loom_map_config config = ticket_config(t, LOOM__ENGINE_TICKETS, KEYS);
    config.max_load = 0.95;
    loom_map *map = make_map_from(context, &config);
    batch b = make_batch(t, KEYS);
    const uint64_t salt = random_u64(&t->random);
    fill_distinct(&b, salt, 0);
    CHECK_EQ(checked_insert(map, &b, LOOM_KEEP).ok, b.n);
    const double when_full = map_stats(map).accesses_per_miss;
    CHECK(when_full > 8);
    erase_and_check(t, map, salt, 0, SOME, KEYS);
    CHECK(map_stats(map).accesses_per_miss < 0.8 * when_full);
    erase_and_check(t, map, salt, SOME, KEYS - SOME - FEW, KEYS);
    CHECK(map_stats(map).accesses_per_miss < 1.5);
    free_batch(&b);
    loom_map_destroy(map);
    loom_context_destroy(context);
}

/* All checksums are right, but tickets say what is not so: the survey finds it. */
TEST_EACH_KIND(test_tickets_damaged_boards_are_refused, .cpu_only = 1)
{
    t->engine = LOOM__ENGINE_TICKETS;
    saved_table s = saved_make(t, 1000, 900);
    unsigned char *board = surgery_partition(s.file, s.bytes, 0);
    CHECK(board != NULL);
    saved_check_load(&s, s.file, s.bytes, LOOM_OK, LOOM_OK);
    for (uint32_t bit = 0; bit < 63; bit++) { /* of seven tickets: available, access, seven bits of info */
        const int is_free = board[bit / 9 * 9 / 8] >> bit / 9 * 9 % 8 & 1;
        if (bit % 9 == 1 && is_free)
            continue; /* a retired ticket may be here, too */
        board[bit / 8] ^= (unsigned char)(1 << bit % 8);
        surgery_sign(s.file, s.bytes);
        saved_check_load(&s, s.file, s.bytes, LOOM_BAD_FILE, LOOM_BAD_FILE);
        board[bit / 8] ^= (unsigned char)(1 << bit % 8);
    }
    surgery_sign(s.file, s.bytes);
    saved_check_load(&s, s.file, s.bytes, LOOM_OK, LOOM_OK);
    saved_free(&s);
}
