/* Convolution, depthwise convolution and fully connected layers on int8. */
#include "nf/kernels.h"
#include "view.h"

/* How an accumulator becomes an output byte: the contract of the node. */
typedef struct rescale {
    const int32_t *multiplier;
    const int32_t *shift;
    const float *scale;        /* float32 contract when not NULL */
    const double *scale_wide;  /* double, half away from zero, when not NULL */
    int32_t out_offset, act_min, act_max;
} rescale;

NF_INLINE int8_t finish(const rescale *r, int32_t acc, int32_t channel)
{
    int32_t q;
    if (r->scale)
        q = nf_round_half_even((float)acc * r->scale[channel], -512, 512);
    else if (r->scale_wide)
        q = nf_round_half_away_wide((double)acc * r->scale_wide[channel], -512, 512);
    else
        q = nf_requantize(acc, r->multiplier[channel], r->shift[channel]);
    return (int8_t)nf_clamp(q + r->out_offset, r->act_min, r->act_max);
}

NF_INLINE int32_t dot(const int8_t *x, const int8_t *w, int32_t count, int32_t x_offset)
{
    int32_t acc = 0;
    for (int32_t i = 0; i < count; ++i)
        acc += (x[i] + x_offset) * w[i];
    return acc;
}

NF_INLINE void conv2d(const nf_view *x, const int8_t *weights, const int32_t *bias,
                      const nf_view *y, const nf_params_conv2d_s8 *p, const rescale *r)
{
    const nf_shape *in = x->shape;
    const nf_shape *out = y->shape;
    const int32_t depth = in->c / p->groups;
    const int32_t per_group = out->c / p->groups;
    const int32_t row_bytes = p->kernel_w * depth;
    for (int32_t n = 0; n < out->n; ++n)
        for (int32_t oy = out->y0; oy < out->y1; ++oy) {
            const int32_t top = oy * p->stride_h - p->pad_top;
            int32_t y_first, y_last;
            nf_taps(top, p->kernel_h, p->dilation_h, in->h, &y_first, &y_last);
            for (int32_t ox = out->x0; ox < out->x1; ++ox) {
                const int32_t left = ox * p->stride_w - p->pad_left;
                int32_t x_first, x_last;
                nf_taps(left, p->kernel_w, p->dilation_w, in->w, &x_first, &x_last);
                int8_t *dst = (int8_t *)nf_at(y, n, oy, ox);
                for (int32_t o = 0; o < out->c; ++o) {
                    const int8_t *w = weights + (ptrdiff_t)o * p->kernel_h * row_bytes;
                    const int32_t channel = o / per_group * depth;
                    int32_t acc = bias[o];
                    for (int32_t ky = y_first; ky < y_last; ++ky)
                        for (int32_t kx = x_first; kx < x_last; ++kx)
                            acc += dot((const int8_t *)nf_at(x, n, top + ky * p->dilation_h,
                                                             left + kx * p->dilation_w) + channel,
                                       w + ky * row_bytes + kx * depth, depth, p->in_offset);
                    dst[o] = finish(r, acc, o);
                }
            }
        }
}

NF_INLINE void depthwise(const nf_view *x, const int8_t *weights, const int32_t *bias,
                         const nf_view *y, const nf_params_conv2d_s8 *p, const rescale *r)
{
    const nf_shape *in = x->shape;
    const nf_shape *out = y->shape;
    const int32_t multiple = out->c / in->c;
    for (int32_t n = 0; n < out->n; ++n)
        for (int32_t oy = out->y0; oy < out->y1; ++oy) {
            const int32_t top = oy * p->stride_h - p->pad_top;
            int32_t y_first, y_last;
            nf_taps(top, p->kernel_h, p->dilation_h, in->h, &y_first, &y_last);
            for (int32_t ox = out->x0; ox < out->x1; ++ox) {
                const int32_t left = ox * p->stride_w - p->pad_left;
                int32_t x_first, x_last;
                nf_taps(left, p->kernel_w, p->dilation_w, in->w, &x_first, &x_last);
                int8_t *dst = (int8_t *)nf_at(y, n, oy, ox);
                for (int32_t o = 0; o < out->c; ++o) {
                    int32_t acc = bias[o];
                    for (int32_t ky = y_first; ky < y_last; ++ky)
                        for (int32_t kx = x_first; kx < x_last; ++kx) {
                            const int8_t *src = (const int8_t *)nf_at(
                                x, n, top + ky * p->dilation_h, left + kx * p->dilation_w);
                            acc += (src[o / multiple] + p->in_offset) *
                                   weights[(ky * p->kernel_w + kx) * out->c + o];
                        }
                    dst[o] = finish(r, acc, o);
                }
            }
        }
}

NF_INLINE rescale fixed_rescale(const nf_view *v, const nf_params_conv2d_s8 *p)
{
    const rescale r = {(const int32_t *)v[3].data, (const int32_t *)v[4].data, NULL, NULL,
                       p->out_offset, p->act_min, p->act_max};
    return r;
}

NF_INLINE rescale float_rescale(const nf_view *v, const nf_params_conv2d_s8 *p)
{
    const rescale r = {NULL, NULL, (const float *)v[3].data, NULL,
                       p->out_offset, p->act_min, p->act_max};
    return r;
}

void nf_conv2d_s8(const nf_view *v, const void *params)
{
    const nf_params_conv2d_s8 *p = params;
    const rescale r = fixed_rescale(v, p);
    conv2d(&v[0], (const int8_t *)v[1].data, (const int32_t *)v[2].data, &v[5], p, &r);
}

void nf_conv2d_s8_f32scale(const nf_view *v, const void *params)
{
    const nf_params_conv2d_s8 *p = params;
    const rescale r = float_rescale(v, p);
    conv2d(&v[0], (const int8_t *)v[1].data, (const int32_t *)v[2].data, &v[4], p, &r);
}

void nf_depthwise_conv2d_s8(const nf_view *v, const void *params)
{
    const nf_params_conv2d_s8 *p = params;
    const rescale r = fixed_rescale(v, p);
    depthwise(&v[0], (const int8_t *)v[1].data, (const int32_t *)v[2].data, &v[5], p, &r);
}

void nf_depthwise_conv2d_s8_f32scale(const nf_view *v, const void *params)
{
    const nf_params_conv2d_s8 *p = params;
    const rescale r = float_rescale(v, p);
    depthwise(&v[0], (const int8_t *)v[1].data, (const int32_t *)v[2].data, &v[4], p, &r);
}

NF_INLINE void fully_connected(const int8_t *x, const int8_t *weights, const int32_t *bias,
                               int8_t *y, int32_t outputs, const nf_params_fully_connected_s8 *p,
                               const rescale *r)
{
    for (int32_t row = 0; row < p->rows; ++row)
        for (int32_t o = 0; o < outputs; ++o) {
            const int8_t *a = x + (ptrdiff_t)row * p->depth;
            const int8_t *w = weights + (ptrdiff_t)o * p->depth;
            int32_t acc = bias[o];
            for (int32_t i = 0; i < p->depth; ++i)
                acc += (a[i] + p->in_offset) * (w[i] + p->weight_offset);
            y[(ptrdiff_t)row * outputs + o] = finish(r, acc, o);
        }
}

void nf_fully_connected_s8(const nf_view *v, const void *params)
{
    const nf_params_fully_connected_s8 *p = params;
    const rescale r = {(const int32_t *)v[3].data, (const int32_t *)v[4].data, NULL, NULL,
                       p->out_offset, p->act_min, p->act_max};
    fully_connected((const int8_t *)v[0].data, (const int8_t *)v[1].data,
                    (const int32_t *)v[2].data, (int8_t *)v[5].data, v[5].shape->c, p, &r);
}

void nf_fully_connected_s8_f32scale(const nf_view *v, const void *params)
{
    const nf_params_fully_connected_s8 *p = params;
    const rescale r = {NULL, NULL, (const float *)v[3].data, NULL,
                       p->out_offset, p->act_min, p->act_max};
    fully_connected((const int8_t *)v[0].data, (const int8_t *)v[1].data,
                    (const int32_t *)v[2].data, (int8_t *)v[4].data, v[4].shape->c, p, &r);
}

void nf_fully_connected_s8_f64scale(const nf_view *v, const void *params)
{
    const nf_params_fully_connected_s8 *p = params;
    const rescale r = {NULL, NULL, NULL, (const double *)(const void *)v[3].data,
                       p->out_offset, p->act_min, p->act_max};
    fully_connected((const int8_t *)v[0].data, (const int8_t *)v[1].data,
                    (const int32_t *)v[2].data, (int8_t *)v[4].data, v[4].shape->c, p, &r);
}
