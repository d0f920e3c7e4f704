/* The view structs of open tables with and without rows, as arguments of kernels for one kind of slot. */
#ifndef LOOM_CUDA_OPEN_VIEWS_CUH
#define LOOM_CUDA_OPEN_VIEWS_CUH

#include "engines/open/open_rows.h"

template <loom__slot_kind kind> struct open_view_of {
    typedef loom__open_view type;
};
template <> struct open_view_of<SLOT_TAG> {
    typedef loom__rows_view type;
};
template <> struct open_view_of<SLOT_STRING> {
    typedef loom__rows_view type;
};

/* The view of a table of this kind. */
template <loom__slot_kind kind> const typename open_view_of<kind>::type *open_view_as(const void *view)
{
    return static_cast<const typename open_view_of<kind>::type *>(view);
}

/* What the lane algorithms take. */
__device__ __forceinline__ const loom__open_view *open_lines(const loom__open_view *view)
{
    return view;
}
__device__ __forceinline__ const loom__open_view *open_lines(const loom__rows_view *view)
{
    return &view->lines;
}

/* Calls `call(KIND)` with the kind as a literal, tags and strings included. */
#define OPEN_FOR_KIND(kind, call)       \
    if ((kind) == SLOT_TAG) {           \
        call(SLOT_TAG);                 \
    } else if ((kind) == SLOT_STRING) { \
        call(SLOT_STRING);              \
    } else {                            \
        SLOT_FOR_KIND(kind, call)       \
    }

#endif
