/* loom_measure_limit: every kind returns a rate and a shape. No test depends on how fast the machine is. */
#include "harness/map_fixture.h"

#include <string.h>

/* Each kind takes a second or two. The short tier tests one kind: its benchmark rows measure limits as well. */
TEST(test_api_measure_limit_every_kind, .threads = 1, .long_tier = 1, .timeout_seconds = 180)
{
    static const struct {
        loom_limit_kind kind;
        uint32_t access_bytes;
        uint64_t footprint;
    } cases[] = {
        {LOOM_LIMIT_COPY, 0, 1 << 20},
        {LOOM_LIMIT_RANDOM_READ, 64, 1 << 20},
        {LOOM_LIMIT_RANDOM_CAS, 0, 1 << 20},
    };
    loom_context *context = make_context_with(t, 2, 1);
    uint32_t first, end;
    test_sample(t, sizeof cases / sizeof cases[0], &first, &end);
    for (uint32_t i = first; i < end; i++) {
        loom_limit limit = LOOM_LIMIT_INIT;
        limit.kind = cases[i].kind;
        limit.access_bytes = cases[i].access_bytes;
        limit.footprint_bytes = cases[i].footprint;
        test_note("case %u", i);
        CHECK_OK(loom_measure_limit(context, &limit));
        CHECK(limit.rate > 1000 && limit.rate < 1e15);
        CHECK(memchr(limit.shape, 0, sizeof limit.shape) != NULL);
        CHECK(limit.shape[0] != 0);
        CHECK_EQ(limit.kind, cases[i].kind);
        CHECK_EQ(limit.access_bytes, cases[i].access_bytes);
        CHECK_EQ(limit.footprint_bytes, cases[i].footprint);
    }
    loom_context_destroy(context);
}

TEST(test_api_measure_limit_wrong_arguments)
{
    loom_context *context = make_context_with(t, 1, 1);
    loom_limit limit = LOOM_LIMIT_INIT;
    limit.footprint_bytes = 1 << 20;
    limit.access_bytes = 64;
    limit.kind = LOOM_LIMIT_RANDOM_READ;
    CHECK_REFUSED(loom_measure_limit(NULL, &limit), LOOM_INVALID_ARGUMENT);
    CHECK_REFUSED(loom_measure_limit(context, NULL), LOOM_INVALID_ARGUMENT);
    static const uint32_t widths[] = {0, 1, 4, 7, 24, 256};
    for (size_t i = 0; i < sizeof widths / sizeof widths[0]; i++) {
        limit.access_bytes = widths[i];
        CHECK_REFUSED(loom_measure_limit(context, &limit), LOOM_INVALID_ARGUMENT);
    }
    limit.access_bytes = 64;
    limit.footprint_bytes = 4095;
    CHECK_REFUSED(loom_measure_limit(context, &limit), LOOM_INVALID_ARGUMENT);
    limit.footprint_bytes = UINT64_MAX;
    CHECK_REFUSED_EITHER(loom_measure_limit(context, &limit), LOOM_OUT_OF_MEMORY, LOOM_INVALID_ARGUMENT);
    limit.footprint_bytes = 1 << 20;
    limit.kind = (loom_limit_kind)0;
    CHECK_REFUSED(loom_measure_limit(context, &limit), LOOM_INVALID_ARGUMENT);
    limit.kind = (loom_limit_kind)10;
    CHECK_REFUSED(loom_measure_limit(context, &limit), LOOM_INVALID_ARGUMENT);
    static const loom_limit_kind of_the_link[] = {LOOM_LIMIT_HOST_COPY, LOOM_LIMIT_TO_HOST_COPY,
                                                  LOOM_LIMIT_HOST_RANDOM_READ, LOOM_LIMIT_HOST_ORDERED_READ,
                                                  LOOM_LIMIT_HOST_GATHER};
    for (size_t i = 0; i < sizeof of_the_link / sizeof of_the_link[0]; i++) { /* the cpu machine has none */
        limit.kind = of_the_link[i];
        CHECK_REFUSED(loom_measure_limit(context, &limit), LOOM_UNSUPPORTED);
        limit.access_bytes = 7;
        CHECK_REFUSED_EITHER(loom_measure_limit(context, &limit), LOOM_UNSUPPORTED, LOOM_INVALID_ARGUMENT);
        limit.access_bytes = 64;
    }
    limit.kind = LOOM_LIMIT_ANSWERED_READ;
    CHECK_REFUSED(loom_measure_limit(context, &limit), LOOM_UNSUPPORTED);
    limit.kind = LOOM_LIMIT_RANDOM_READ;
    limit.struct_size = 0;
    CHECK_REFUSED(loom_measure_limit(context, &limit), LOOM_INVALID_ARGUMENT);
    limit.struct_size = sizeof limit + 8;
    CHECK_REFUSED(loom_measure_limit(context, &limit), LOOM_INVALID_ARGUMENT);
    loom_context_destroy(context);
}
