/* Convolution and depthwise convolution on int8, uint8, int16 and float32. */
#include "nf/kernels.h"
#include "rescale.h"
#include "view.h"

NF_INLINE int32_t dot8(const uint8_t *x, const uint8_t *w, int32_t count, int32_t x_offset,
                       int32_t w_offset, int is_unsigned)
{
    int32_t acc = 0;
    for (int32_t i = 0; i < count; ++i)
        acc += is_unsigned ? (x[i] + x_offset) * (w[i] + w_offset)
                           : ((int8_t)x[i] + x_offset) * (int8_t)w[i];
    return acc;
}

NF_INLINE void conv2d(const nf_view *x, const uint8_t *weights, const int32_t *bias,
                      const nf_view *y, const nf_params_conv2d_s8 *p, const rescale *r,
                      int is_unsigned, int32_t weight_offset)
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
                uint8_t *dst = nf_at(y, n, oy, ox);
                for (int32_t o = 0; o < out->c; ++o) {
                    const uint8_t *w = weights + (ptrdiff_t)o * p->kernel_h * row_bytes;
                    const int32_t channel = o / per_group * depth;
                    int32_t acc = bias[o];
                    for (int32_t ky = y_first; ky < y_last; ++ky)
                        for (int32_t kx = x_first; kx < x_last; ++kx)
                            acc += dot8(nf_at(x, n, top + ky * p->dilation_h,
                                              left + kx * p->dilation_w) + channel,
                                        w + ky * row_bytes + kx * depth, depth, p->in_offset,
                                        weight_offset, is_unsigned);
                    dst[o] = nf_finish(r, acc, o);
                }
            }
        }
}

NF_INLINE void depthwise(const nf_view *x, const uint8_t *weights, const int32_t *bias,
                         const nf_view *y, const nf_params_conv2d_s8 *p, const rescale *r,
                         int is_unsigned, int32_t weight_offset)
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
                uint8_t *dst = nf_at(y, n, oy, ox);
                for (int32_t o = 0; o < out->c; ++o) {
                    int32_t acc = bias[o];
                    for (int32_t ky = y_first; ky < y_last; ++ky)
                        for (int32_t kx = x_first; kx < x_last; ++kx)
                            acc += dot8(nf_at(x, n, top + ky * p->dilation_h,
                                              left + kx * p->dilation_w) + o / multiple,
                                        weights + (ky * p->kernel_w + kx) * out->c + o, 1,
                                        p->in_offset, weight_offset, is_unsigned);
                    dst[o] = nf_finish(r, acc, o);
                }
            }
        }
}

#define FIXED_RESCALE(v, p)                                                                        \
    {(const int32_t *)(v)[3].data, (const int32_t *)(v)[4].data, NULL, NULL,                       \
     (p)->out_offset, (p)->act_min, (p)->act_max}
#define FLOAT_RESCALE(v, p)                                                                        \
    {NULL, NULL, (const float *)(v)[3].data, NULL, (p)->out_offset, (p)->act_min, (p)->act_max}

/* `family`: the kernel whose parameters `body` takes */
#define INT8_KERNELS(body, prefix, family)                                                         \
    void nf_##prefix##_s8(const nf_view *v, const void *params)                                    \
    {                                                                                              \
        const nf_params_##family##_s8 *p = params;                                                 \
        const rescale r = FIXED_RESCALE(v, p);                                                     \
        body(&v[0], v[1].data, (const int32_t *)v[2].data, &v[5], p, &r, 0, 0);                    \
    }                                                                                              \
    void nf_##prefix##_s8_f32scale(const nf_view *v, const void *params)                           \
    {                                                                                              \
        const nf_params_##family##_s8 *p = params;                                                 \
        const rescale r = FLOAT_RESCALE(v, p);                                                     \
        body(&v[0], v[1].data, (const int32_t *)v[2].data, &v[4], p, &r, 0, 0);                    \
    }                                                                                              \
    /* the parameters begin like those of the int8 kernel */                                       \
    void nf_##prefix##_u8(const nf_view *v, const void *params)                                    \
    {                                                                                              \
        const nf_params_##family##_s8 *p = params;                                                 \
        const nf_params_##family##_u8 *u = params;                                                 \
        const rescale r = FIXED_RESCALE(v, p);                                                     \
        body(&v[0], v[1].data, (const int32_t *)v[2].data, &v[5], p, &r, 1, u->weight_offset);     \
    }

INT8_KERNELS(conv2d, conv2d, conv2d)
INT8_KERNELS(depthwise, depthwise_conv2d, conv2d)

/* The same loops on other types: `product(a, b)` of an input and a weight element is summed up to
 * `store(dst, acc, o)`. */
#define TYPED_CONVOLUTION(name, depthwise_form, x_type, w_type, acc_type, bias_type, store)         \
    void name(const nf_view *v, const void *params)                                                \
    {                                                                                              \
        const nf_view *x = &v[0], *y = &v[NF_OUT_##x_type];                                        \
        const NF_PARAMS_##x_type *p = params;                                                      \
        const nf_shape *in = x->shape, *out = y->shape;                                            \
        const w_type *weights = (const w_type *)(const void *)v[1].data;                           \
        const bias_type *bias = (const bias_type *)(const void *)v[2].data;                        \
        const int32_t depth = depthwise_form ? 1 : in->c / p->groups;                              \
        const int32_t per_group = depthwise_form ? out->c / in->c : out->c / p->groups;            \
        for (int32_t n = 0; n < out->n; ++n)                                                       \
            for (int32_t oy = out->y0; oy < out->y1; ++oy) {                                       \
                const int32_t top = oy * p->stride_h - p->pad_top;                                 \
                int32_t y_first, y_last;                                                           \
                nf_taps(top, p->kernel_h, p->dilation_h, in->h, &y_first, &y_last);                \
                for (int32_t ox = out->x0; ox < out->x1; ++ox) {                                   \
                    const int32_t left = ox * p->stride_w - p->pad_left;                           \
                    int32_t x_first, x_last;                                                       \
                    nf_taps(left, p->kernel_w, p->dilation_w, in->w, &x_first, &x_last);           \
                    x_type *dst = (x_type *)(void *)nf_at(y, n, oy, ox);                           \
                    for (int32_t o = 0; o < out->c; ++o) {                                         \
                        acc_type acc = 0;                                                          \
                        for (int32_t ky = y_first; ky < y_last; ++ky)                              \
                            for (int32_t kx = x_first; kx < x_last; ++kx) {                        \
                                const x_type *src =                                                \
                                    (const x_type *)(const void *)nf_at(                           \
                                        x, n, top + ky * p->dilation_h, left + kx * p->dilation_w) \
                                    + o / per_group * depth;                                       \
                                const int32_t tap = ky * p->kernel_w + kx;                         \
                                const w_type *w =                                                  \
                                    depthwise_form                                                 \
                                        ? weights + (ptrdiff_t)tap * out->c + o                    \
                                        : weights + ((ptrdiff_t)o * p->kernel_h * p->kernel_w +    \
                                                     tap) * depth;                                 \
                                for (int32_t i = 0; i < depth; ++i)                                \
                                    acc += (acc_type)src[i] * w[i];                                \
                            }                                                                      \
                        store(dst[o], acc + bias[o], o);                                           \
                    }                                                                              \
                }                                                                                  \
            }                                                                                      \
    }

#define NF_PARAMS_int16_t nf_params_conv2d_s16
#define NF_OUT_int16_t 5
#define STORE_S16(dst, acc, o)                                                                     \
    dst = (int16_t)nf_clamp(nf_requantize_wide(acc, ((const int32_t *)v[3].data)[o],               \
                                               ((const int32_t *)v[4].data)[o]),                   \
                            p->act_min, p->act_max)

TYPED_CONVOLUTION(nf_conv2d_s16, 0, int16_t, int8_t, int64_t, int64_t, STORE_S16)
TYPED_CONVOLUTION(nf_depthwise_conv2d_s16, 1, int16_t, int8_t, int64_t, int64_t, STORE_S16)

/* Outputs whose float sums run side by side: one sum alone waits for each of its additions. */
#define F32_BLOCK 8

/* `count` outputs at one place, each summed over taps and depth in that order. */
NF_INLINE void conv2d_f32_outputs(const nf_view *v, const nf_params_conv2d_f32 *p, int32_t n,
                                  int32_t top, int32_t left, const int32_t taps[4], int32_t depth,
                                  int32_t channel, int32_t o, int32_t count, float *dst)
{
    const float *bias = (const float *)(const void *)v[2].data;
    const ptrdiff_t row = (ptrdiff_t)p->kernel_h * p->kernel_w * depth;
    float acc[F32_BLOCK] = {0};
    for (int32_t ky = taps[0]; ky < taps[1]; ++ky)
        for (int32_t kx = taps[2]; kx < taps[3]; ++kx) {
            const float *src =
                (const float *)(const void *)nf_at(&v[0], n, top + ky * p->dilation_h,
                                                   left + kx * p->dilation_w) +
                channel;
            const float *w = (const float *)(const void *)v[1].data + o * row +
                             (ptrdiff_t)(ky * p->kernel_w + kx) * depth;
            for (int32_t i = 0; i < depth; ++i)
                for (int32_t k = 0; k < count; ++k)
                    acc[k] += src[i] * w[k * row + i];
        }
    for (int32_t k = 0; k < count; ++k)
        dst[k] = nf_clampf(acc[k] + bias[o + k], p->low, p->high);
}

void nf_conv2d_f32(const nf_view *v, const void *params)
{
    const nf_params_conv2d_f32 *p = params;
    const nf_shape *in = v[0].shape, *out = v[3].shape;
    const int32_t depth = in->c / p->groups, per_group = out->c / p->groups;
    for (int32_t n = 0; n < out->n; ++n)
        for (int32_t oy = out->y0; oy < out->y1; ++oy) {
            const int32_t top = oy * p->stride_h - p->pad_top;
            int32_t taps[4];
            nf_taps(top, p->kernel_h, p->dilation_h, in->h, &taps[0], &taps[1]);
            for (int32_t ox = out->x0; ox < out->x1; ++ox) {
                const int32_t left = ox * p->stride_w - p->pad_left;
                nf_taps(left, p->kernel_w, p->dilation_w, in->w, &taps[2], &taps[3]);
                float *dst = (float *)(void *)nf_at(&v[3], n, oy, ox);
                for (int32_t group = 0; group < p->groups; ++group) {
                    const int32_t channel = group * depth, end = (group + 1) * per_group;
                    int32_t o = group * per_group;
                    for (; o + F32_BLOCK <= end; o += F32_BLOCK)
                        conv2d_f32_outputs(v, p, n, top, left, taps, depth, channel, o, F32_BLOCK,
                                           dst + o);
                    for (; o < end; ++o)
                        conv2d_f32_outputs(v, p, n, top, left, taps, depth, channel, o, 1, dst + o);
                }
            }
        }
}

/* `count` channels at one place, one output channel an input channel. */
NF_INLINE void depthwise_f32_outputs(const nf_view *v, const nf_params_conv2d_f32 *p, int32_t n,
                                     int32_t top, int32_t left, const int32_t taps[4], int32_t o,
                                     int32_t multiple, int32_t count, float *dst)
{
    const float *bias = (const float *)(const void *)v[2].data;
    const int32_t channels = v[3].shape->c;
    float acc[2 * F32_BLOCK] = {0};
    for (int32_t ky = taps[0]; ky < taps[1]; ++ky)
        for (int32_t kx = taps[2]; kx < taps[3]; ++kx) {
            const float *src =
                (const float *)(const void *)nf_at(&v[0], n, top + ky * p->dilation_h,
                                                   left + kx * p->dilation_w) +
                o / multiple;
            const float *w = (const float *)(const void *)v[1].data +
                             (ptrdiff_t)(ky * p->kernel_w + kx) * channels + o;
            for (int32_t k = 0; k < count; ++k)
                acc[k] += src[k] * w[k];
        }
    for (int32_t k = 0; k < count; ++k)
        dst[k] = nf_clampf(acc[k] + bias[o + k], p->low, p->high);
}

void nf_depthwise_conv2d_f32(const nf_view *v, const void *params)
{
    const nf_params_conv2d_f32 *p = params;
    const nf_shape *in = v[0].shape, *out = v[3].shape;
    const int32_t multiple = out->c / in->c, block = 2 * F32_BLOCK;
    for (int32_t n = 0; n < out->n; ++n)
        for (int32_t oy = out->y0; oy < out->y1; ++oy) {
            const int32_t top = oy * p->stride_h - p->pad_top;
            int32_t taps[4];
            nf_taps(top, p->kernel_h, p->dilation_h, in->h, &taps[0], &taps[1]);
            for (int32_t ox = out->x0; ox < out->x1; ++ox) {
                const int32_t left = ox * p->stride_w - p->pad_left;
                nf_taps(left, p->kernel_w, p->dilation_w, in->w, &taps[2], &taps[3]);
                float *dst = (float *)(void *)nf_at(&v[3], n, oy, ox);
                int32_t o = 0;
                for (; multiple == 1 && o + block <= out->c; o += block)
                    depthwise_f32_outputs(v, p, n, top, left, taps, o, 1, block, dst + o);
                for (; o < out->c; ++o)
                    depthwise_f32_outputs(v, p, n, top, left, taps, o, multiple, 1, dst + o);
            }
        }
}

NF_INLINE void transpose_conv(const nf_view *x, const uint8_t *weights, const int32_t *bias,
                              const nf_view *y, const nf_params_transpose_conv2d_s8 *p,
                              const rescale *r, int is_unsigned, int32_t weight_offset)
{
    const nf_shape *in = x->shape, *out = y->shape;
    for (int32_t n = 0; n < out->n; ++n)
        for (int32_t oy = out->y0; oy < out->y1; ++oy)
            for (int32_t ox = out->x0; ox < out->x1; ++ox) {
                uint8_t *dst = nf_at(y, n, oy, ox);
                for (int32_t o = 0; o < out->c; ++o) {
                    int32_t acc = bias[o];
                    for (int32_t ky = 0; ky < p->kernel_h; ++ky) {
                        const int32_t ty = oy + p->pad_top - ky;
                        if (ty < 0 || ty % p->stride_h || ty / p->stride_h >= in->h)
                            continue;
                        for (int32_t kx = 0; kx < p->kernel_w; ++kx) {
                            const int32_t tx = ox + p->pad_left - kx;
                            if (tx < 0 || tx % p->stride_w || tx / p->stride_w >= in->w)
                                continue;
                            const int32_t tap = (o * p->kernel_h + ky) * p->kernel_w + kx;
                            acc += dot8(nf_at(x, n, ty / p->stride_h, tx / p->stride_w),
                                        weights + (ptrdiff_t)tap * in->c, in->c, p->in_offset,
                                        weight_offset, is_unsigned);
                        }
                    }
                    dst[o] = nf_finish(r, acc, o);
                }
            }
}

INT8_KERNELS(transpose_conv, transpose_conv2d, transpose_conv2d)

/* The same loops on other types, up to `store(dst, acc, o)`. */
#define TYPED_TRANSPOSED(name, params_type, out, x_type, w_type, acc_type, store)                  \
    void name(const nf_view *v, const void *params)                                                \
    {                                                                                              \
        const params_type *p = params;                                                             \
        const nf_view *x = &v[0], *y = &v[out];                                                    \
        const nf_shape *in = x->shape;                                                             \
        const w_type *weights = (const w_type *)(const void *)v[1].data;                           \
        const acc_type *bias = (const acc_type *)(const void *)v[2].data;                          \
        for (int32_t n = 0; n < y->shape->n; ++n)                                                  \
            for (int32_t oy = y->shape->y0; oy < y->shape->y1; ++oy)                               \
                for (int32_t ox = y->shape->x0; ox < y->shape->x1; ++ox) {                         \
                    x_type *dst = (x_type *)(void *)nf_at(y, n, oy, ox);                           \
                    for (int32_t o = 0; o < y->shape->c; ++o) {                                    \
                        acc_type acc = 0;                                                          \
                        for (int32_t ky = 0; ky < p->kernel_h; ++ky) {                             \
                            const int32_t ty = oy + p->pad_top - ky;                               \
                            if (ty < 0 || ty % p->stride_h || ty / p->stride_h >= in->h)           \
                                continue;                                                          \
                            for (int32_t kx = 0; kx < p->kernel_w; ++kx) {                         \
                                const int32_t tx = ox + p->pad_left - kx;                          \
                                if (tx < 0 || tx % p->stride_w || tx / p->stride_w >= in->w)       \
                                    continue;                                                      \
                                const x_type *src = (const x_type *)(const void *)nf_at(           \
                                    x, n, ty / p->stride_h, tx / p->stride_w);                     \
                                const int32_t tap = (o * p->kernel_h + ky) * p->kernel_w + kx;     \
                                const w_type *w = weights + (ptrdiff_t)tap * in->c;                \
                                for (int32_t i = 0; i < in->c; ++i)                                \
                                    acc += (acc_type)src[i] * w[i];                                \
                            }                                                                      \
                        }                                                                          \
                        store(dst[o], acc + bias[o], o);                                           \
                    }                                                                              \
                }                                                                                  \
    }

#define STORE_F32(dst, acc, o) dst = nf_clampf(acc, p->low, p->high)

TYPED_TRANSPOSED(nf_transpose_conv2d_s16, nf_params_transpose_conv2d_s16, 5, int16_t, int8_t,
                 int64_t, STORE_S16)
TYPED_TRANSPOSED(nf_transpose_conv2d_f32, nf_params_transpose_conv2d_f32, 3, float, float, float,
                 STORE_F32)
