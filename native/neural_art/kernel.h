/* The loops of a layer; NA_RUN names the variant. */
#include <stddef.h>
#include <string.h>
#ifdef __AVX2__
#include <immintrin.h>
#endif

#include "layer.h"

static inline int32_t na_clamp(int32_t v, int32_t low, int32_t high)
{
    v = v < low ? low : v;
    return v > high ? high : v;
}

/* v / 2^s, half away from zero; s >= 1 */
static inline int32_t na_round(int32_t v, int32_t s)
{
    return (v + ((int32_t)1 << (s - 1)) - (v < 0)) >> s;
}

static inline int64_t na_round64(int64_t v, int32_t s)
{
    if (s <= 0)
        return v * ((int64_t)1 << -s);
    return (v + ((int64_t)1 << (s - 1)) - (v < 0)) >> s;
}

/* sums[p][o] of one segment: patches [p][2 * pairs], weights [block][pair][lane][2] */
static void na_multiply(const int16_t *patches, const int16_t *weights, int32_t pairs,
                        int32_t padded, int32_t pixels, int32_t *sums)
{
    for (int32_t o = 0; o < padded; o += NA_LANES, weights += (ptrdiff_t)pairs * NA_LANES * 2) {
        for (int32_t p = 0; p < pixels; p += 4) {
            const int32_t held = pixels - p < 4 ? pixels - p : 4;
            const int16_t *row[4];
            for (int32_t i = 0; i < 4; ++i)
                row[i] = patches + (ptrdiff_t)(p + (i < held ? i : 0)) * pairs * 2;
#ifdef __AVX2__
            __m256i acc[4][2];
            for (int32_t i = 0; i < 4; ++i)
                acc[i][0] = acc[i][1] = _mm256_setzero_si256();
            const int16_t *w = weights;
            for (int32_t k = 0; k < pairs; ++k, w += NA_LANES * 2) {
                const __m256i w0 = _mm256_loadu_si256((const __m256i *)w);
                const __m256i w1 = _mm256_loadu_si256((const __m256i *)(w + NA_LANES));
                for (int32_t i = 0; i < 4; ++i) {
                    int32_t pair;
                    memcpy(&pair, row[i] + 2 * k, sizeof pair);
                    const __m256i x = _mm256_set1_epi32(pair);
                    acc[i][0] = _mm256_add_epi32(acc[i][0], _mm256_madd_epi16(x, w0));
                    acc[i][1] = _mm256_add_epi32(acc[i][1], _mm256_madd_epi16(x, w1));
                }
            }
            for (int32_t i = 0; i < held; ++i) {
                int32_t *to = sums + (ptrdiff_t)(p + i) * padded + o;
                _mm256_storeu_si256((__m256i *)to, acc[i][0]);
                _mm256_storeu_si256((__m256i *)(to + NA_LANES / 2), acc[i][1]);
            }
#else
            for (int32_t i = 0; i < held; ++i) {
                int32_t acc[NA_LANES] = {0};
                const int16_t *w = weights;
                for (int32_t k = 0; k < pairs; ++k, w += NA_LANES * 2) {
                    const int32_t a = row[i][2 * k], b = row[i][2 * k + 1];
                    for (int32_t n = 0; n < NA_LANES; ++n)
                        acc[n] += a * w[2 * n] + b * w[2 * n + 1];
                }
                memcpy(sums + (ptrdiff_t)(p + i) * padded + o, acc, sizeof acc);
            }
#endif
        }
    }
}

/* The taps of one part and channel slice around each pixel, padded to pairs. */
static void na_gather(const na_layer *q, const int16_t *x, const int32_t *part, int32_t from,
                      int32_t to, int32_t first, int32_t pixels, int32_t pairs, int16_t *patches)
{
    const int32_t span = to - from, size = part[1] * part[3] * span;
    const int whole = span == q->channels && q->dilation_x == 1;
    for (int32_t p = 0; p < pixels; ++p) {
        const int32_t oy = (first + p) / q->out_width, ox = (first + p) % q->out_width;
        int16_t *at = patches + (ptrdiff_t)p * pairs * 2;
        for (int32_t i = 0; i < part[1]; ++i) {
            const int32_t y = oy * q->stride_y + (part[0] + i) * q->dilation_y;
            const int16_t *line = x + (ptrdiff_t)y * q->width * q->channels;
            const int32_t left = ox * q->stride_x + part[2] * q->dilation_x;
            if (whole) {
                memcpy(at, line + (ptrdiff_t)left * q->channels,
                       (size_t)(part[3] * span) * sizeof *at);
                at += part[3] * span;
                continue;
            }
            for (int32_t j = 0; j < part[3]; ++j, at += span)
                memcpy(at, line + (ptrdiff_t)(left + j * q->dilation_x) * q->channels + from,
                       (size_t)span * sizeof *at);
        }
        if (size & 1)
            *at = 0;
    }
}

static void na_depthwise(const na_layer *q, const int16_t *x, const int32_t *part, int32_t first,
                         int32_t pixels, int32_t padded, int32_t *sums)
{
    for (int32_t p = 0; p < pixels; ++p) {
        const int32_t oy = (first + p) / q->out_width, ox = (first + p) % q->out_width;
        int32_t *to = sums + (ptrdiff_t)p * padded;
        memset(to, 0, (size_t)padded * sizeof *to);
        for (int32_t i = part[0]; i < part[0] + part[1]; ++i) {
            for (int32_t j = part[2]; j < part[2] + part[3]; ++j) {
                const int32_t y = oy * q->stride_y + i * q->dilation_y;
                const int32_t left = ox * q->stride_x + j * q->dilation_x;
                const int16_t *in = x + ((ptrdiff_t)y * q->width + left) * q->channels;
                const int16_t *w =
                    q->weights + ((ptrdiff_t)i * q->kernel_width + j) * q->outputs;
                for (int32_t c = 0; c < q->outputs; ++c)
                    to[c] += in[c] * w[c];
            }
        }
    }
}

/* One part: its passes, each rounded to 16 bit; the result is left in `running`. */
static const int16_t *na_part(const na_layer *q, const int16_t *x, const int32_t *part,
                              const int16_t *weights, int32_t first, int32_t pixels,
                              int32_t padded, int16_t *patches, int32_t *sums, int32_t *running)
{
    const ptrdiff_t count = (ptrdiff_t)pixels * padded;
    const int32_t s = q->outshift;
    for (int32_t pass = 0; pass < q->passes; ++pass) {
        if (pass == 0)
            memset(running, 0, (size_t)count * sizeof *running);
        else
            for (ptrdiff_t i = 0; i < count; ++i)
                running[i] *= (int32_t)1 << s;
        for (int32_t link = 0; link < q->links; ++link) {
            if (q->depthwise) {
                na_depthwise(q, x, part, first, pixels, padded, sums);
            } else {
                const int32_t *bound = q->slice + pass * q->links + link;
                const int32_t size = part[1] * part[3] * (bound[1] - bound[0]);
                const int32_t pairs = (size + 1) / 2;
                na_gather(q, x, part, bound[0], bound[1], first, pixels, pairs, patches);
                na_multiply(patches, weights, pairs, padded, pixels, sums);
                weights += (ptrdiff_t)pairs * 2 * padded;
            }
            if (link + 1 < q->links)
                for (ptrdiff_t i = 0; i < count; ++i)
                    running[i] = na_clamp(running[i] + sums[i], -(1 << 23), (1 << 23) - 1);
            else if (s)
                for (ptrdiff_t i = 0; i < count; ++i)
                    running[i] = na_clamp(na_round(running[i] + sums[i], s), -32768, 32767);
            else
                for (ptrdiff_t i = 0; i < count; ++i)
                    running[i] = na_clamp(running[i] + sums[i], -32768, 32767);
        }
    }
    return weights;
}

static void na_finish_narrow(const na_layer *q, const int32_t *restrict y1, int8_t *restrict y,
                             na_counts *counts)
{
    const int32_t *restrict factor = q->gain, *restrict offset = q->narrow;
    const int32_t r1 = q->gain_shift, r2 = q->global_shift, a2 = q->global_gain;
    const int32_t low = q->low, high = q->high;
    int32_t shift = 0, gain = 0, output = 0, largest = counts->largest;
    for (int32_t c = 0; c < q->outputs; ++c) {
        const int32_t v = y1[c], magnitude = v < 0 ? -v : v;
        shift += (v == 32767) | (v == -32768);
        largest = magnitude > largest ? magnitude : largest;
    }
    if (q->two_stage) {
        for (int32_t c = 0; c < q->outputs; ++c) {
            const int32_t middle = na_round(y1[c] * factor[c], r1);
            const int32_t held = na_clamp(middle, -32768, 32767);
            const int32_t v = na_round(held * a2 + offset[c], r2);
            const int32_t limited = na_clamp(v, low, high);
            gain += held != middle;
            output += limited != v;
            y[c] = (int8_t)limited;
        }
    } else {
        for (int32_t c = 0; c < q->outputs; ++c) {
            const int32_t v = na_round(y1[c] * factor[c] + offset[c], r1);
            const int32_t limited = na_clamp(v, low, high);
            output += limited != v;
            y[c] = (int8_t)limited;
        }
    }
    counts->shift += shift;
    counts->gain += gain;
    counts->output += output;
    counts->largest = largest;
}

static void na_finish_wide(const na_layer *q, const int32_t *y1, int8_t *y, na_counts *counts)
{
    for (int32_t c = 0; c < q->outputs; ++c) {
        const int32_t magnitude = y1[c] < 0 ? -y1[c] : y1[c];
        int64_t v = (int64_t)y1[c] * q->gain[c];
        counts->shift += (y1[c] == 32767) | (y1[c] == -32768);
        counts->largest = magnitude > counts->largest ? magnitude : counts->largest;
        if (q->two_stage) {
            const int64_t middle = na_round64(v, q->gain_shift);
            v = middle < -32768 ? -32768 : middle > 32767 ? 32767 : middle;
            counts->gain += v != middle;
            v = na_round64(v * q->global_gain + q->offset[c], q->global_shift);
        } else {
            v = na_round64(v + q->offset[c], q->gain_shift);
        }
        const int64_t limited = v < q->low ? q->low : v > q->high ? q->high : v;
        counts->output += limited != v;
        y[c] = (int8_t)limited;
    }
}

void NA_RUN(const na_layer *q, const int16_t *x, int8_t *y, int16_t *patches, int32_t *sums,
            int32_t *running, int32_t *total, na_counts *counts)
{
    const int32_t padded =
        q->depthwise ? q->outputs : (q->outputs + NA_LANES - 1) / NA_LANES * NA_LANES;
    const int32_t pixels = q->out_height * q->out_width;
    for (int32_t first = 0; first < pixels; first += NA_BLOCK) {
        const int32_t held = pixels - first < NA_BLOCK ? pixels - first : NA_BLOCK;
        const int16_t *weights = q->weights;
        for (int32_t n = 0; n < q->parts; ++n) {
            int32_t *into = n ? running : total;
            weights = na_part(q, x, q->part + 4 * n, weights, first, held, padded, patches, sums,
                              into);
            if (n)
                for (ptrdiff_t i = 0; i < (ptrdiff_t)held * padded; ++i)
                    total[i] = na_clamp(total[i] + running[i], -32768, 32767);
        }
        for (int32_t p = 0; p < held; ++p) {
            const int32_t *y1 = total + (ptrdiff_t)p * padded;
            int8_t *to = y + (ptrdiff_t)(first + p) * q->outputs;
            if (q->wide)
                na_finish_wide(q, y1, to, counts);
            else
                na_finish_narrow(q, y1, to, counts);
        }
    }
}
