#define _GNU_SOURCE 1
#include "saved_table.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

saved_table saved_make(test_run *t, uint64_t capacity, uint64_t keys)
{
    saved_table s;
    s.context = make_context(t);
    s.path = test_path(t, "file");
    loom_map *map = make_map(t, s.context, capacity);
    batch b = make_batch(t, keys);
    fill_distinct(&b, random_u64(&t->random), 0);
    CHECK_EQ(checked_insert(map, &b, LOOM_KEEP).ok, keys);
    CHECK_OK(loom_map_save(map, s.path, NULL));
    s.file = test_read_file(s.path, &s.bytes);
    s.nameless = memfd_create("damaged", MFD_CLOEXEC);
    CHECK(s.nameless >= 0);
    snprintf(s.nameless_path, sizeof s.nameless_path, "/proc/self/fd/%d", s.nameless);
    loom_map_destroy(map);
    free_batch(&b);
    return s;
}

void saved_free(saved_table *s)
{
    free(s->file);
    close(s->nameless);
    loom_context_destroy(s->context);
}

loom_status saved_try_load(saved_table *s, const unsigned char *file, size_t bytes)
{
    loom_map *const untouched = (loom_map *)(uintptr_t)0x1234;
    loom_map *map = untouched;
    CHECK_EQ(ftruncate(s->nameless, 0), 0);
    for (size_t at = 0; at < bytes;) {
        ssize_t wrote = pwrite(s->nameless, file + at, bytes - at, (off_t)at);
        CHECK(wrote > 0);
        at += (size_t)wrote;
    }
    test_poison_last_error();
    loom_status status = loom_map_load(s->context, s->nameless_path, &map, NULL);
    if (status == LOOM_OK)
        loom_map_destroy(map);
    else
        CHECK(map == untouched);
    return status;
}

void saved_check_load(saved_table *s, const unsigned char *file, size_t bytes, loom_status wanted, loom_status or_else)
{
    loom_status status = saved_try_load(s, file, bytes);
    if (wanted == LOOM_OK)
        CHECK_STATUS(status, LOOM_OK);
    else
        test_check_refused(__FILE__, __LINE__, "loom_map_load", status, wanted, or_else);
}
