/* How an accumulator becomes an output byte: the contract of the node. */
#ifndef NF_RESCALE_H
#define NF_RESCALE_H

#include "arith.h"

#include <stddef.h>

typedef struct rescale {
    const int32_t *multiplier;
    const int32_t *shift;
    const float *scale;       /* float32 contract when not NULL */
    const double *scale_wide; /* double, half away from zero, when not NULL */
    int32_t out_offset, act_min, act_max;
} rescale;

NF_INLINE uint8_t nf_finish(const rescale *r, int32_t acc, int32_t channel)
{
    int32_t q;
    if (r->scale)
        q = nf_round_half_even((float)acc * r->scale[channel], -512, 512);
    else if (r->scale_wide)
        q = nf_round_half_away_wide((double)acc * r->scale_wide[channel], -512, 512);
    else
        q = nf_requantize(acc, r->multiplier[channel], r->shift[channel]);
    return (uint8_t)nf_clamp(q + r->out_offset, r->act_min, r->act_max);
}

#endif
