/* Handles of lists: what they count, and what becomes of them when places are reserved. */
#include "core/list_handle.h"
#include "harness/harness.h"

TEST(test_core_list_handle_fields)
{
    const uint64_t far = ((uint64_t)1 << 39) - 1, large = (((uint64_t)1 << 29) - 1) * LIST_LARGE_UNIT;
    const struct {
        loom__list_kind kind;
        uint64_t first, count;
    } lists[] = {{LIST_SHORT, 0, 1},
                 {LIST_SHORT, far, 7},
                 {LIST_SHORT, 5, LIST_LARGE_FROM},
                 {LIST_LARGE, 0, 1},
                 {LIST_LARGE, large, LIST_MOST_VALUES}};
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++)
        for (int exact = 0; exact < 2; exact++) {
            const uint64_t handle = list_make(lists[i].kind, lists[i].first, lists[i].count, exact);
            CHECK_EQ(list_kind(handle), lists[i].kind);
            CHECK_EQ(list_first(handle), lists[i].first);
            CHECK_EQ(list_count(handle), lists[i].count);
            CHECK(!list_is_touched(handle));
            CHECK(list_in_heap(handle));
            CHECK_EQ(list_capacity(handle, lists[i].count), exact ? lists[i].count : list_class(lists[i].count));
            CHECK_EQ(list_with_count(handle | LIST_TOUCHED, 1), list_make(lists[i].kind, lists[i].first, 1, exact));
        }
    const uint64_t near = ((uint64_t)1 << 33) - 1,
                   filled = list_make(LIST_SHORT, near, 100, 0) | LIST_LINKED | LIST_FILL;
    CHECK_EQ(list_first(filled), near);
    CHECK_EQ(list_count(filled), 100);
    CHECK_EQ(list_fill(filled), LIST_MOST_FILL);
    CHECK_EQ(list_fill(filled - LIST_FILL), 0);
    CHECK_EQ(list_fill(list_make(LIST_SHORT, far, 100, 0)), 0);
    CHECK_EQ(list_fill(list_make(LIST_LARGE, large, 100, 0) | LIST_LINKED), 0);
    CHECK_EQ(list_with_count(filled, 50), list_make(LIST_SHORT, near, 50, 0) | LIST_LINKED);
    const uint64_t one = list_of_one(UINT32_MAX);
    CHECK_EQ(list_kind(one), LIST_ONE);
    CHECK_EQ(list_count(one), 1);
    CHECK_EQ(list_one_value(one), UINT32_MAX);
    CHECK(!list_in_heap(one));
    CHECK_EQ(list_capacity(one, 1), 1);
    CHECK_EQ(list_count(0), 0);
    CHECK_EQ(list_capacity(0, 0), 0);
}

/* The classes are the powers of two and three times these, without gaps of more than a half. */
TEST(test_core_list_handle_classes)
{
    uint64_t last = 0;
    for (uint64_t count = 1; count < 100000; count++) {
        const uint64_t class = list_class(count), odd = class % 3 == 0 ? class / 3 : class;
        CHECK(class >= count);
        CHECK(class >= last);
        CHECK(class <= count + count / 2 + 1);
        CHECK_EQ(odd & (odd - 1), 0);
        CHECK_EQ(list_class(class), class);
        last = class;
    }
    CHECK_EQ(list_class(LIST_LARGE_FROM), LIST_LARGE_FROM);
    CHECK_EQ(list_class(LIST_LARGE_FROM + 1) % LIST_LARGE_UNIT, 0);
}

TEST(test_core_list_handle_reserve)
{
    const uint64_t list = list_make(LIST_SHORT, 1234, LIST_LARGE_FROM, 1), one = list_of_one(7);
    CHECK_EQ(list_reserve(0), LIST_TOUCHED | 1);
    CHECK_EQ(list_count(list_reserve(one)), 2);
    CHECK_EQ(list_one_value(list_reserve(one)), 7);
    uint64_t handle = list;
    for (uint64_t count = LIST_LARGE_FROM; count < ((uint64_t)1 << LIST_COUNT_BITS) + 10; count++) {
        CHECK_EQ(list_count(handle), count); /* also where it becomes LARGE */
        handle = list_reserve(handle);
        CHECK(list_is_touched(handle));
    }
    CHECK_EQ(list_kind(handle), LIST_LARGE);
    const uint64_t most = list_make(LIST_LARGE, 0, LIST_MOST_VALUES, 0);
    CHECK_EQ(list_reserve(most), most);
}
