/* Addresses inside of a view. Rows and columns are logical; callers stay inside the held part. */
#ifndef NF_VIEW_H
#define NF_VIEW_H

#include "arith.h"
#include "nf/nf.h"

NF_INLINE uint8_t *nf_at(const nf_view *v, int32_t n, int32_t y, int32_t x)
{
    const nf_shape *s = v->shape;
    return v->data + (ptrdiff_t)n * s->sn + (ptrdiff_t)(y - s->y0) * s->sh +
           (ptrdiff_t)(x - s->x0) * s->sw;
}

/* The taps of a window of `kernel` taps at `origin` that lie inside 0..size-1. */
NF_INLINE void nf_taps(int32_t origin, int32_t kernel, int32_t dilation, int32_t size,
                       int32_t *first, int32_t *last)
{
    *first = origin < 0 ? (-origin + dilation - 1) / dilation : 0;
    int32_t end = size > origin ? (size - origin + dilation - 1) / dilation : 0;
    *last = end < kernel ? end : kernel;
}

#endif
