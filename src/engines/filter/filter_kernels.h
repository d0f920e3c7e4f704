/* The bulk work on a filter that a machine supplies. Arguments are checked, the handle's lock is held. */
#ifndef LOOM_FILTER_KERNELS_H
#define LOOM_FILTER_KERNELS_H

#include "core/machine.h"
#include "core/map_engine.h"
#include "engines/filter/filter_layout.h"

/* What reading a whole filter tells. */
typedef struct loom__filter_survey {
    uint64_t bits_set;
    double false_positive_rate;
} loom__filter_survey;

typedef struct loom__filter_kernels {
    /* All bits zero. Does not wait. */
    loom_status (*clear)(loom__machine *machine, const loom__filter_view *view, loom_stream stream);

    /* As bulk calls of maps: batch->keys, n, found, result, stream. `outcome` is the status that the result gets. With
     * batch->by_partition keys are sorted by partition first, and nobody else sets bits meanwhile; if the flags do not ask for it
     * (LOOM_BY_PARTITION), and it cannot be, they go directly. */
    loom_status (*insert)(loom__machine *machine, const loom__filter_view *view, const loom__batch *batch,
                          loom_status outcome);
    loom_status (*contains)(loom__machine *machine, const loom__filter_view *view, const loom__batch *batch);

    /* Is inserting so many keys by partition faster? And the temporary memory that it takes; 0: it cannot be. */
    int (*bulk_pays)(loom__machine *machine, const loom__filter_view *view, uint64_t n);
    uint64_t (*bulk_bytes)(loom__machine *machine, const loom__filter_view *view, uint64_t n);

    /* `to` becomes the union of both, which have the same blocks. Nobody else sets bits there. Does not wait. */
    loom_status (*merge)(loom__machine *machine, const loom__filter_view *to, const loom__filter_view *from,
                         loom_stream stream);

    /* Waits. */
    loom_status (*survey)(loom__machine *machine, const loom__filter_view *view, loom__filter_survey *survey,
                          loom_stream stream);
} loom__filter_kernels;

#endif
