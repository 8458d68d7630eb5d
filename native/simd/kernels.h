/* The kernels of one instruction set, over the vector words its source file defines first:
 * V (int32 lanes), LANES, GROUP, BLOCK, patch_t, weight_t, NAME, VARIANT, v_load, v_set1, v_add,
 * v_dot, v_pair, v_bytes, v_finish, v_store. */
#include <string.h>

#include "../../runtime/src/view.h"

/* Multiply `count` patches by all packed weights; `dst[i]` receives `outputs` bytes. */
NF_INLINE void multiply(const nf_prepared *q, const patch_t *patches, int32_t outputs,
                        uint8_t *const *dst, const int32_t count, int32_t out_offset,
                        int32_t act_min, int32_t act_max)
{
    const int32_t steps = q->k_padded / GROUP;
    const weight_t *w = q->weights;
    for (int32_t o = 0; o < outputs; o += 2 * LANES) {
        V acc[NF_SIMD_PIXELS][2];
        const V b0 = v_load(q->bias + o), b1 = v_load(q->bias + o + LANES);
        for (int32_t i = 0; i < count; ++i) {
            acc[i][0] = b0;
            acc[i][1] = b1;
        }
        for (int32_t k = 0; k < steps; ++k, w += 2 * LANES * GROUP) {
            const V w0 = v_load(w), w1 = v_load(w + LANES * GROUP);
            for (int32_t i = 0; i < count; ++i) {
                int32_t word;
                memcpy(&word, patches + (ptrdiff_t)i * q->k_padded + k * GROUP, sizeof word);
                const V x = v_set1(word);
                acc[i][0] = v_dot(acc[i][0], x, w0);
                acc[i][1] = v_dot(acc[i][1], x, w1);
            }
        }
        for (int32_t half = 0; half < 2; ++half) {
            const int32_t first = o + half * LANES;
            const int32_t held = outputs - first < LANES ? outputs - first : LANES;
            for (int32_t i = 0; i < count && held > 0; ++i)
                v_store(dst[i] + first, held,
                        v_finish(q, acc[i][half], first, out_offset, act_min, act_max));
        }
    }
}

static void multiply_all(const nf_prepared *q, const patch_t *patches, int32_t outputs,
                         uint8_t *const *dst, int32_t count, int32_t out_offset, int32_t act_min,
                         int32_t act_max)
{
    int32_t i = 0;
    for (; i + BLOCK <= count; i += BLOCK)
        multiply(q, patches + (ptrdiff_t)i * q->k_padded, outputs, dst + i, BLOCK, out_offset,
                 act_min, act_max);
    for (; i < count; ++i)
        multiply(q, patches + (ptrdiff_t)i * q->k_padded, outputs, dst + i, 1, out_offset, act_min,
                 act_max);
}

NF_INLINE void gather(patch_t *restrict to, const uint8_t *restrict from, int32_t count,
                      int32_t in_offset)
{
    for (int32_t i = 0; i < count; ++i)
        to[i] = (patch_t)((int8_t)from[i] + in_offset);
}

/* The window at (top, left), in the order of the weights; outside lies zero. */
static void gather_window(patch_t *to, const nf_view *x, const nf_params_conv2d_s8 *p, int32_t n,
                          int32_t top, int32_t left)
{
    const nf_shape *in = x->shape;
    const int32_t depth = in->c, row = p->kernel_w * depth;
    int32_t y_first, y_last, x_first, x_last;
    nf_taps(top, p->kernel_h, p->dilation_h, in->h, &y_first, &y_last);
    nf_taps(left, p->kernel_w, p->dilation_w, in->w, &x_first, &x_last);
    if (y_first > 0 || x_first > 0 || y_last < p->kernel_h || x_last < p->kernel_w)
        memset(to, 0, sizeof(patch_t) * (size_t)(p->kernel_h * row));
    if (x_first >= x_last)
        return;
    for (int32_t ky = y_first; ky < y_last; ++ky) {
        patch_t *dst = to + ky * row;
        const int32_t iy = top + ky * p->dilation_h;
        if (p->dilation_w == 1 && in->sw == depth) {
            gather(dst + x_first * depth, nf_at(x, n, iy, left + x_first),
                   (x_last - x_first) * depth, p->in_offset);
            continue;
        }
        for (int32_t kx = x_first; kx < x_last; ++kx)
            gather(dst + kx * depth, nf_at(x, n, iy, left + kx * p->dilation_w), depth,
                   p->in_offset);
    }
}

static void conv2d(const nf_view *v, const void *params)
{
    const nf_prepared *q = params;
    const nf_params_conv2d_s8 *p = q->params;
    const nf_view *x = &v[0], *y = &v[q->y_operand];
    const nf_shape *out = y->shape;
    patch_t *patches = q->scratch;
    uint8_t *dst[NF_SIMD_PIXELS];
    int32_t count = 0;
    memset(patches, 0, sizeof(patch_t) * NF_SIMD_PIXELS * (size_t)q->k_padded);
    for (int32_t n = 0; n < out->n; ++n)
        for (int32_t oy = out->y0; oy < out->y1; ++oy)
            for (int32_t ox = out->x0; ox < out->x1; ++ox) {
                gather_window(patches + (ptrdiff_t)count * q->k_padded, x, p, n,
                              oy * p->stride_h - p->pad_top, ox * p->stride_w - p->pad_left);
                dst[count++] = nf_at(y, n, oy, ox);
                if (count == NF_SIMD_PIXELS) {
                    multiply_all(q, patches, out->c, dst, count, p->out_offset, p->act_min,
                                 p->act_max);
                    count = 0;
                }
            }
    multiply_all(q, patches, out->c, dst, count, p->out_offset, p->act_min, p->act_max);
}

static void fully_connected(const nf_view *v, const void *params)
{
    const nf_prepared *q = params;
    const nf_params_fully_connected_s8 *p = q->params;
    const int32_t outputs = v[q->y_operand].shape->c;
    patch_t *patches = q->scratch;
    uint8_t *dst[NF_SIMD_PIXELS];
    int32_t count = 0;
    memset(patches, 0, sizeof(patch_t) * NF_SIMD_PIXELS * (size_t)q->k_padded);
    for (int32_t row = 0; row < p->rows; ++row) {
        gather(patches + (ptrdiff_t)count * q->k_padded, v[0].data + (ptrdiff_t)row * p->depth,
               p->depth, p->in_offset);
        dst[count++] = v[q->y_operand].data + (ptrdiff_t)row * outputs;
        if (count == NF_SIMD_PIXELS || row + 1 == p->rows) {
            multiply_all(q, patches, outputs, dst, count, p->out_offset, p->act_min, p->act_max);
            count = 0;
        }
    }
}

static void depthwise(const nf_view *v, const void *params)
{
    const nf_prepared *q = params;
    const nf_params_depthwise_conv2d_s8 *p = q->params;
    const nf_view *x = &v[0], *y = &v[q->y_operand];
    const nf_shape *in = x->shape, *out = y->shape;
    const int32_t *weights = q->weights;
    const V offset = v_set1(p->in_offset);
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
                for (int32_t o = 0; o < out->c; o += LANES) {
                    const int32_t held = out->c - o < LANES ? out->c - o : LANES;
                    V acc = v_load(q->bias + o);
                    for (int32_t ky = y_first; ky < y_last; ++ky)
                        for (int32_t kx = x_first; kx < x_last; ++kx) {
                            const uint8_t *src = nf_at(x, n, top + ky * p->dilation_h,
                                                       left + kx * p->dilation_w);
                            const V value = v_add(v_bytes(src + o, held), offset);
                            acc = v_pair(acc, value,
                                         v_load(weights +
                                                (ptrdiff_t)(ky * p->kernel_w + kx) * q->k_padded +
                                                o));
                        }
                    v_store(dst + o, held,
                            v_finish(q, acc, o, p->out_offset, p->act_min, p->act_max));
                }
            }
        }
}

const nf_simd_variant VARIANT = {NAME, LANES, GROUP, conv2d, depthwise, fully_connected};
