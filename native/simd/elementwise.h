/* Elementwise kernels, tables, means and pools of one instruction set; see kernels.h for the words. */

/* Walk the rows of y: `body` sees the row's pa, pb and py. */
#define FOR_ROWS(v, q, ...)                                                                        \
    for (int32_t i0 = 0; i0 < (q)->size[0]; ++i0)                                                  \
        for (int32_t i1 = 0; i1 < (q)->size[1]; ++i1)                                              \
            for (int32_t i2 = 0; i2 < (q)->size[2]; ++i2) {                                        \
                const uint8_t *pa = (v)[0].data + row_at(&(q)->a, i0, i1, i2);                     \
                const uint8_t *pb = (v)[1].data + row_at(&(q)->b, i0, i1, i2);                     \
                uint8_t *py = (v)[2].data + row_at(&(q)->y, i0, i1, i2);                           \
                __VA_ARGS__                                                                        \
            }

NF_INLINE ptrdiff_t row_at(const nf_simd_rows *r, int32_t i0, int32_t i1, int32_t i2)
{
    return r->start + (ptrdiff_t)i0 * r->stride[0] + (ptrdiff_t)i1 * r->stride[1] +
           (ptrdiff_t)i2 * r->stride[2];
}

/* Elements i.. of a row plus an offset, or its only element. */
NF_INLINE V values(const uint8_t *row, int32_t i, int32_t step, V offset)
{
    return v_add_16(step ? v_widen(row + i) : v_set1_16((int8_t)*row), offset);
}

NF_INLINE V scaled(V high_halves, int32_t left, const uniform *u)
{
    return v_requantize_uniform(v_shift_left(high_halves, left), u);
}

static void add_row(const nf_prepared_binary *q, const uint8_t *pa, const uint8_t *pb, uint8_t *py)
{
    const uniform ua = spread(&q->scale_a), ub = spread(&q->scale_b), uy = spread(&q->scale_y);
    const V oa = v_set1_16(q->a_offset), ob = v_set1_16(q->b_offset), zero = v_zero();
    /* a byte in the upper half of a lane is shifted left by 16 already, and is to be doubled */
    const int32_t left = q->left_shift + 1 - 16;
    for (int32_t i = 0; i < q->count; i += 2 * LANES) {
        const V a = values(pa, i, q->a.step, oa), b = values(pb, i, q->b.step, ob);
        V low = scaled(v_interleave_low(zero, a), left, &ua);
        V high = scaled(v_interleave_high(zero, a), left, &ua);
        const V other_low = scaled(v_interleave_low(zero, b), left, &ub);
        const V other_high = scaled(v_interleave_high(zero, b), left, &ub);
        low = q->subtract ? v_sub(low, other_low) : v_add(low, other_low);
        high = q->subtract ? v_sub(high, other_high) : v_add(high, other_high);
        v_store_bytes(py + i, q->count - i,
                      v_pack(v_requantize_uniform(v_add(low, low), &uy),
                             v_requantize_uniform(v_add(high, high), &uy), q->out_offset,
                             q->act_min, q->act_max));
    }
}

static void add(const nf_view *v, const void *params)
{
    const nf_prepared_binary *q = params;
    FOR_ROWS(v, q, add_row(q, pa, pb, py);)
}

static void mul_row(const nf_prepared_binary *q, const uint8_t *pa, const uint8_t *pb, uint8_t *py)
{
    const uniform uy = spread(&q->scale_y);
    const V oa = v_set1_16(q->a_offset), ob = v_set1_16(q->b_offset), zero = v_zero();
    for (int32_t i = 0; i < q->count; i += 2 * LANES) {
        const V a = values(pa, i, q->a.step, oa);
        V b = values(pb, i, q->b.step, ob);
        b = v_add_16(b, b);
        const V low = v_pairs(v_interleave_low(a, zero), v_interleave_low(b, zero));
        const V high = v_pairs(v_interleave_high(a, zero), v_interleave_high(b, zero));
        v_store_bytes(py + i, q->count - i,
                      v_pack(v_requantize_uniform(low, &uy), v_requantize_uniform(high, &uy),
                             q->out_offset, q->act_min, q->act_max));
    }
}

static void mul(const nf_view *v, const void *params)
{
    const nf_prepared_binary *q = params;
    FOR_ROWS(v, q, mul_row(q, pa, pb, py);)
}

static void lut(const nf_view *v, const void *params)
{
    const nf_params_lut_8 *p = params;
    const uint8_t *x = v[0].data, *table = v[1].data;
    uint8_t *y = v[2].data;
    const lookup all = spread_table(table);
    for (int32_t row = 0; row < p->rows; ++row, x += p->x_row, y += p->y_row) {
        int32_t i = 0;
        for (; i + 4 * LANES <= p->count; i += 4 * LANES)
            v_store(y + i, v_lookup(v_load(x + i), &all));
        for (; i < p->count; ++i)
            y[i] = table[x[i]];
    }
}

/* x [outer, reduced, inner]: 16 columns at a time, two rows as pairs times one. */
static void mean(const nf_view *v, const void *params)
{
    const nf_params_mean_s8 *p = params;
    const V one = v_set1_16(1), bias = v_set1(-p->in_zero * p->reduced);
    const V multiplier = v_set1(p->multiplier), shift = v_set1(p->shift);
    for (int32_t o = 0; o < p->outer; ++o) {
        const uint8_t *x = v[0].data + (ptrdiff_t)o * p->reduced * p->inner;
        uint8_t *y = v[1].data + (ptrdiff_t)o * p->inner;
        for (int32_t i = 0; i < p->inner; i += 2 * LANES) {
            V low = bias, high = bias;
            int32_t r = 0;
            for (; r + 1 < p->reduced; r += 2) {
                const V a = v_widen(x + (ptrdiff_t)r * p->inner + i);
                const V b = v_widen(x + (ptrdiff_t)(r + 1) * p->inner + i);
                low = v_dot(low, v_interleave_low(a, b), one);
                high = v_dot(high, v_interleave_high(a, b), one);
            }
            if (r < p->reduced) {
                const V a = v_widen(x + (ptrdiff_t)r * p->inner + i);
                low = v_dot(low, v_interleave_low(a, v_zero()), one);
                high = v_dot(high, v_interleave_high(a, v_zero()), one);
            }
            v_store_bytes(y + i, p->inner - i,
                          v_pack(requantize(low, multiplier, shift),
                                 requantize(high, multiplier, shift), p->out_zero, INT8_MIN,
                                 INT8_MAX));
        }
    }
}

static void max_pool(const nf_view *v, const void *params)
{
    const nf_params_max_pool2d_s8 *p = params;
    const nf_view *x = &v[0], *y = &v[1];
    const nf_shape *in = x->shape, *out = y->shape;
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
                for (int32_t c = 0; c < out->c; c += 2 * LANES) {
                    B best = b_set1(INT8_MIN);
                    for (int32_t ky = y_first; ky < y_last; ++ky)
                        for (int32_t kx = x_first; kx < x_last; ++kx)
                            best = b_max(best, b_load(nf_at(x, n, top + ky * p->dilation_h,
                                                            left + kx * p->dilation_w) + c));
                    best = b_min(b_max(best, b_set1(p->act_min)), b_set1(p->act_max));
                    v_store_bytes(dst + c, out->c - c, best);
                }
            }
        }
}
