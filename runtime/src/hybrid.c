/* Float layers with int8 weights: the input is quantised on the fly, row by row or image by image. */
#include "nf/kernels.h"
#include "view.h"

#include <math.h>

/* Quantise `count` floats to int8. Symmetric: zero 0, largest magnitude 127. Asymmetric: the range
 * from the smaller of 0 and the minimum to the larger of 0 and the maximum over -128..127. */
static float quantize_row(const float *x, int8_t *q, int32_t count, int asymmetric, int32_t *zero)
{
    float low = 0.0f, high = 0.0f;
    for (int32_t i = 0; i < count; ++i) {
        low = x[i] < low ? x[i] : low;
        high = x[i] > high ? x[i] : high;
    }
    *zero = 0;
    if (!asymmetric) {
        const float range = -low > high ? -low : high;
        const float scale = range == 0.0f ? 1.0f : range / 127.0f;
        const float inverse = range == 0.0f ? 0.0f : 127.0f / range;
        for (int32_t i = 0; i < count; ++i)
            q[i] = (int8_t)nf_clamp(nf_round_half_away(x[i] * inverse, -200, 200), -127, 127);
        return scale;
    }
    if (low == high) {
        for (int32_t i = 0; i < count; ++i)
            q[i] = 0;
        return 1.0f;
    }
    const double scale = ((double)high - (double)low) / 255.0;
    const double from_low = -128.0 - (double)low / scale, from_high = 127.0 - (double)high / scale;
    const double low_error = 128.0 + fabs((double)low / scale);
    const double high_error = 127.0 + fabs((double)high / scale);
    const double nudged = low_error < high_error ? from_low : from_high;
    *zero = nudged <= -128.0  ? -128
            : nudged >= 127.0 ? 127
                              : nf_round_half_away_wide(nudged, -129, 128);
    const float single = (float)scale, inverse = 1.0f / single;
    for (int32_t i = 0; i < count; ++i) {
        const int32_t rounded = nf_round_half_away((float)*zero + x[i] * inverse, -200, 200);
        q[i] = (int8_t)nf_clamp(rounded, INT8_MIN, INT8_MAX);
    }
    return single;
}

void nf_fully_connected_hybrid(const nf_view *v, const void *params)
{
    const nf_params_fully_connected_hybrid *p = params;
    const float *scale = (const float *)(const void *)v[2].data;
    const float *bias = (const float *)(const void *)v[3].data;
    const int32_t outputs = v[4].shape->c;
    int8_t *q = (int8_t *)v[5].data;
    for (int32_t row = 0; row < p->rows; ++row) {
        const float *x = (const float *)(const void *)v[0].data + (ptrdiff_t)row * p->depth;
        float *y = (float *)(void *)v[4].data + (ptrdiff_t)row * outputs;
        int32_t zero;
        const float input_scale = quantize_row(x, q, p->depth, p->asymmetric, &zero);
        for (int32_t o = 0; o < outputs; ++o) {
            const int8_t *w = (const int8_t *)v[1].data + (ptrdiff_t)o * p->depth;
            int32_t acc = 0;
            for (int32_t i = 0; i < p->depth; ++i)
                acc += (q[i] - zero) * w[i];
            y[o] = nf_clampf(bias[o] + (float)acc * (input_scale * scale[o]), p->low, p->high);
        }
    }
}

void nf_conv2d_hybrid(const nf_view *v, const void *params)
{
    const nf_params_conv2d_hybrid *p = params;
    const nf_shape *in = v[0].shape, *out = v[4].shape;
    const int8_t *weights = (const int8_t *)v[1].data;
    const float *scale = (const float *)(const void *)v[2].data;
    const float *bias = (const float *)(const void *)v[3].data;
    int8_t *q = (int8_t *)v[5].data;
    const int32_t depth = p->depthwise ? 1 : in->c / p->groups;
    const int32_t per_group = p->depthwise ? out->c / in->c : out->c / p->groups;
    for (int32_t n = 0; n < out->n; ++n) {
        int32_t zero;
        const float *image = (const float *)(const void *)(v[0].data + (ptrdiff_t)n * in->sn);
        const float input_scale =
            quantize_row(image, q, in->h * in->w * in->c, p->asymmetric, &zero);
        for (int32_t oy = out->y0; oy < out->y1; ++oy)
            for (int32_t ox = out->x0; ox < out->x1; ++ox) {
                const int32_t top = oy * p->stride_h - p->pad_top;
                const int32_t left = ox * p->stride_w - p->pad_left;
                int32_t y_first, y_last, x_first, x_last;
                nf_taps(top, p->kernel_h, p->dilation_h, in->h, &y_first, &y_last);
                nf_taps(left, p->kernel_w, p->dilation_w, in->w, &x_first, &x_last);
                float *dst = (float *)(void *)nf_at(&v[4], n, oy, ox);
                for (int32_t o = 0; o < out->c; ++o) {
                    int32_t acc = 0;
                    for (int32_t ky = y_first; ky < y_last; ++ky)
                        for (int32_t kx = x_first; kx < x_last; ++kx) {
                            const int32_t pixel = (top + ky * p->dilation_h) * in->w + left +
                                                  kx * p->dilation_w;
                            const int8_t *src = q + (ptrdiff_t)pixel * in->c + o / per_group * depth;
                            const int32_t tap = ky * p->kernel_w + kx;
                            const int8_t *w =
                                p->depthwise
                                    ? weights + (ptrdiff_t)tap * out->c + o
                                    : weights + ((ptrdiff_t)o * p->kernel_h * p->kernel_w + tap) *
                                                    depth;
                            for (int32_t i = 0; i < depth; ++i)
                                acc += (src[i] - zero) * w[i];
                        }
                    dst[o] = nf_clampf((float)acc * (input_scale * scale[o]) + bias[o], p->low,
                                       p->high);
                }
            }
    }
}
