/* The list of streams whose events the cuda machine keeps (cuda_kept_streams.h). The tests need no device. */
#include "harness/harness.h"
#include "machines/cuda/core/cuda_kept_streams.h"

/* A stream gets the same place in every call. No stream is evicted while there are free places. */
TEST(test_cuda_kept_streams_have_places)
{
    kept_streams kept = {0};
    int evicts;
    for (int round = 0; round < 3; round++)
        for (int i = 0; i < KEPT_STREAMS; i++) {
            CHECK_EQ(kept_streams_place(&kept, 100 + (unsigned)i, &evicts), i);
            CHECK(!evicts);
            CHECK_EQ(kept.count, round == 0 ? i + 1 : KEPT_STREAMS);
        }
}

/* When there are more streams than places, the stream that called longest ago is evicted. A list ordered by the last
 * call is the reference. */
TEST(test_cuda_kept_streams_evict_the_oldest)
{
    for (unsigned streams = KEPT_STREAMS + 1; streams <= 2 * KEPT_STREAMS; streams++) {
        kept_streams kept = {0};
        unsigned long long order[KEPT_STREAMS]; /* oldest first */
        int count = 0, evicts;
        for (int call = 0; call < 2000; call++) {
            unsigned long long id = call < 200 ? (unsigned)call % streams : random_below(&t->random, streams);
            int at = 0, known;
            while (at < count && order[at] != id)
                at++;
            known = at < count;
            unsigned long long oldest = order[0];
            if (!known && count == KEPT_STREAMS)
                at = 0;
            if (known || count == KEPT_STREAMS) {
                for (; at + 1 < count; at++)
                    order[at] = order[at + 1];
                count--;
            }
            kept_streams before = kept;
            int place = kept_streams_place(&kept, id, &evicts);
            test_note("call %d of stream %llu, one of %u", call, id, streams);
            CHECK_EQ(evicts, !known && before.count == KEPT_STREAMS);
            if (known)
                CHECK_EQ(before.ids[place], id);
            else if (evicts)
                CHECK_EQ(before.ids[place], oldest);
            CHECK_EQ(kept.ids[place], id);
            order[count++] = id;
            CHECK_EQ(kept.count, count);
        }
    }
}
