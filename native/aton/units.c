#include "units.h"

#include <string.h>

static int32_t sign_extended(uint32_t value, int bytes)
{
    const uint32_t half = UINT32_C(1) << (8 * bytes - 1);
    const uint32_t mask = (half << 1) - 1;
    return (int32_t)((value & mask) ^ half) - (int32_t)half;
}

/* A frame without gaps is one run of bytes. */
static au_frame flattened(const au_frame *frame)
{
    au_frame flat = *frame;
    if (flat.columns == 1 || flat.pixel == flat.depth * flat.size) {
        flat.depth *= flat.columns;
        flat.columns = 1;
        if (flat.rows == 1 || flat.line == flat.depth * flat.size) {
            flat.depth *= flat.rows;
            flat.rows = 1;
        }
    }
    return flat;
}

static void load_run(const uint8_t *from, int64_t depth, int size, int sign, int32_t *out)
{
    if (size == 1 && sign) {
        for (int64_t d = 0; d < depth; ++d)
            out[d] = (int8_t)from[d];
    } else if (size == 1) {
        for (int64_t d = 0; d < depth; ++d)
            out[d] = from[d];
    } else {
        for (int64_t d = 0; d < depth; ++d, from += size) {
            uint32_t value = (uint32_t)from[0] | (uint32_t)from[1] << 8;
            if (size == 3)
                value |= (uint32_t)from[2] << 16;
            out[d] = sign ? sign_extended(value, size) : (int32_t)value;
        }
    }
}

int64_t au_gather(const uint8_t *data, const uint8_t *written, const int64_t *starts,
                  int64_t count, const au_frame *frame, int32_t *out)
{
    const au_frame flat = flattened(frame);
    int64_t missing = -1;
    for (int64_t k = 0; k < count; ++k)
        for (int64_t y = 0; y < flat.rows; ++y)
            for (int64_t x = 0; x < flat.columns; ++x, out += flat.depth) {
                const int64_t at = starts[k] + y * flat.line + x * flat.pixel;
                const int64_t bytes = flat.depth * flat.size;
                if (missing < 0 && written != NULL) {
                    const uint8_t *gap = memchr(written + at, 0, (size_t)bytes);
                    if (gap != NULL)
                        missing = gap - written;
                }
                load_run(data + at, flat.depth, flat.size, flat.sign, out);
            }
    return missing;
}

void au_scatter(uint8_t *data, uint8_t *written, const int64_t *starts, int64_t count,
                const au_frame *frame, const int32_t *values)
{
    const au_frame flat = flattened(frame);
    for (int64_t k = 0; k < count; ++k)
        for (int64_t y = 0; y < flat.rows; ++y)
            for (int64_t x = 0; x < flat.columns; ++x) {
                const int64_t at = starts[k] + y * flat.line + x * flat.pixel;
                uint8_t *to = data + at;
                memset(written + at, 1, (size_t)(flat.depth * flat.size));
                for (int64_t d = 0; d < flat.depth; ++d, ++values)
                    for (int lane = 0; lane < flat.size; ++lane)
                        *to++ = (uint8_t)((uint32_t)*values >> 8 * lane);
            }
}

/* Weights of one frame for pairwise products: [kernel row][pair][padded kernels][2]. */
static void pack(const int16_t *weights, const au_shape *s, int64_t padded, int16_t *packed)
{
    const int64_t length = s->kernel_width * s->batch;
    const int64_t pairs = (length + 1) / 2;
    memset(packed, 0, (size_t)(s->kernel_height * pairs * padded * 2) * sizeof *packed);
    for (int64_t k = 0; k < s->kernels; ++k)
        for (int64_t i = 0; i < s->kernel_height; ++i)
            for (int64_t j = 0; j < length; ++j)
                packed[((i * pairs + j / 2) * padded + k) * 2 + j % 2] =
                    weights[(k * s->kernel_height + i) * length + j];
}

/* Sums of one row of output pixels. */
static void row_portable(const int16_t *x, const int16_t *packed, const au_shape *s,
                         int64_t padded, int64_t columns, int32_t *out)
{
    const int64_t length = s->kernel_width * s->batch;
    const int64_t pairs = (length + 1) / 2;
    for (int64_t at = 0; at < columns; ++at, out += s->kernels) {
        int32_t sums[AU_MAX_KERNELS + 9] = {0};
        for (int64_t i = 0; i < s->kernel_height; ++i) {
            const int16_t *in = x + (i * s->width + at * s->across) * s->batch;
            const int16_t *w = packed + i * pairs * padded * 2;
            for (int64_t p = 0; p < pairs; ++p, w += padded * 2) {
                const int32_t first = in[2 * p], second = in[2 * p + 1];
                for (int64_t k = 0; k < padded; ++k)
                    sums[k] += first * w[2 * k] + second * w[2 * k + 1];
            }
        }
        memcpy(out, sums, (size_t)s->kernels * sizeof *out);
    }
}

#if defined(__x86_64__) && (defined(__GNUC__) || defined(__clang__))
#include <immintrin.h>

/* Four pixels by up to 24 kernels at a time; the same sums as row_portable. */
__attribute__((target("avx2"))) static void block_avx2(const int16_t *const *in,
                                                       const int16_t *packed, const au_shape *s,
                                                       int64_t padded, int64_t first, int vectors,
                                                       int pixels, int32_t *const *out)
{
    const int64_t length = s->kernel_width * s->batch;
    const int64_t pairs = (length + 1) / 2;
    __m256i sums[4][3];
    for (int a = 0; a < 4; ++a)
        for (int v = 0; v < 3; ++v)
            sums[a][v] = _mm256_setzero_si256();
    for (int64_t i = 0; i < s->kernel_height; ++i) {
        const int64_t row = i * s->width * s->batch;
        const int16_t *w = packed + (i * pairs * padded + first) * 2;
        for (int64_t p = 0; p < pairs; ++p, w += padded * 2) {
            __m256i kernel[3];
            for (int v = 0; v < 3; ++v)
                kernel[v] = _mm256_loadu_si256((const __m256i *)(w + 16 * (v < vectors ? v : 0)));
            for (int a = 0; a < 4; ++a) {
                int32_t pair;
                memcpy(&pair, in[a < pixels ? a : 0] + row + 2 * p, sizeof pair);
                const __m256i both = _mm256_set1_epi32(pair);
                for (int v = 0; v < 3; ++v)
                    sums[a][v] = _mm256_add_epi32(sums[a][v], _mm256_madd_epi16(both, kernel[v]));
            }
        }
    }
    for (int a = 0; a < pixels; ++a)
        for (int v = 0; v < vectors; ++v) {
            int32_t lane[8];
            const int64_t k = first + 8 * v;
            const int64_t n = s->kernels - k < 8 ? s->kernels - k : 8;
            _mm256_storeu_si256((__m256i *)lane, sums[a][v]);
            memcpy(out[a] + k, lane, (size_t)n * sizeof lane[0]);
        }
}

__attribute__((target("avx2"))) static void block1_avx2(const int16_t *const *in,
                                                        const int16_t *packed, const au_shape *s,
                                                        int64_t padded, int64_t first, int pixels,
                                                        int32_t *const *out)
{
    const int64_t length = s->kernel_width * s->batch;
    const int64_t pairs = (length + 1) / 2;
    __m256i sums[8];
    for (int a = 0; a < 8; ++a)
        sums[a] = _mm256_setzero_si256();
    for (int64_t i = 0; i < s->kernel_height; ++i) {
        const int64_t row = i * s->width * s->batch;
        const int16_t *w = packed + (i * pairs * padded + first) * 2;
        for (int64_t p = 0; p < pairs; ++p, w += padded * 2) {
            const __m256i kernel = _mm256_loadu_si256((const __m256i *)w);
            for (int a = 0; a < 8; ++a) {
                int32_t pair;
                memcpy(&pair, in[a < pixels ? a : 0] + row + 2 * p, sizeof pair);
                sums[a] =
                    _mm256_add_epi32(sums[a], _mm256_madd_epi16(_mm256_set1_epi32(pair), kernel));
            }
        }
    }
    for (int a = 0; a < pixels; ++a) {
        int32_t lane[8];
        const int64_t n = s->kernels - first < 8 ? s->kernels - first : 8;
        _mm256_storeu_si256((__m256i *)lane, sums[a]);
        memcpy(out[a] + first, lane, (size_t)n * sizeof lane[0]);
    }
}

static void row_avx2(const int16_t *x, const int16_t *packed, const au_shape *s, int64_t padded,
                     int64_t columns, int32_t *out)
{
    for (int64_t first = 0; first < padded; first += 24) {
        const int vectors = padded - first >= 24 ? 3 : (int)((padded - first) / 8);
        const int step = vectors == 1 ? 8 : 4;
        for (int64_t at = 0; at < columns; at += step) {
            const int pixels = columns - at < step ? (int)(columns - at) : step;
            const int16_t *in[8];
            int32_t *to[8];
            for (int a = 0; a < pixels; ++a) {
                in[a] = x + (at + a) * s->across * s->batch;
                to[a] = out + (at + a) * s->kernels;
            }
            if (vectors == 1)
                block1_avx2(in, packed, s, padded, first, pixels, to);
            else
                block_avx2(in, packed, s, padded, first, vectors, pixels, to);
        }
    }
}

static int has_avx2(void)
{
    return __builtin_cpu_supports("avx2");
}
#else
#define row_avx2 row_portable
static int has_avx2(void)
{
    return 0;
}
#endif

void au_convolve(const int16_t *x, const int32_t *index, const int16_t *weights, int64_t frames,
                 const au_shape *s, int16_t *scratch, int32_t *out)
{
    const int64_t rows = (s->height - s->kernel_height) / s->down + 1;
    const int64_t columns = (s->width - s->kernel_width) / s->across + 1;
    const int64_t padded = (s->kernels + 7) / 8 * 8;
    const int64_t frame = s->height * s->width * s->batch;
    const int64_t kernel = s->kernels * s->kernel_height * s->kernel_width * s->batch;
    const int fast = has_avx2();
    for (int64_t j = 0; j < frames; ++j) {
        pack(weights + j * kernel, s, padded, scratch);
        for (int64_t y = 0; y < rows; ++y, out += columns * s->kernels) {
            const int16_t *in = x + index[j] * frame + y * s->down * s->width * s->batch;
            (fast ? row_avx2 : row_portable)(in, scratch, s, padded, columns, out);
        }
    }
}

int64_t au_requantise(const int32_t *sums, const int32_t *carry, int64_t count, int in_shift,
                      int out_shift, int round, int limit, int bits, int32_t *out)
{
    const int64_t low = limit == 2 ? 0 : -(INT64_C(1) << (bits - 1));
    const int64_t high = limit == 2 ? (INT64_C(1) << bits) - 1 : (INT64_C(1) << (bits - 1)) - 1;
    const int64_t scale = INT64_C(1) << in_shift;
    const int64_t half = round && out_shift ? INT64_C(1) << (out_shift - 1) : 0;
    const int64_t sign = half ? -1 : 0;
    const int wide = 32 - bits;
    int64_t met = 0;
    for (int64_t i = 0; i < count; ++i) {
        const int64_t total = carry != NULL ? sums[i] + carry[i] * scale : sums[i];
        const int64_t value = (total + half + ((total >> 63) & sign)) >> out_shift;
        const int64_t floor = value < low ? low : value;
        const int64_t kept = floor > high ? high : floor;
        met += kept != value;
        out[i] = limit ? (int32_t)kept : (int32_t)((uint32_t)value << wide) >> wide;
    }
    return limit ? met : 0;
}

/* The table as factors and addends of one affine step; scalars stand in every entry. */
typedef struct {
    int32_t gain[512], second[512];
    int64_t addend[512];
} coefficients;

static void expand(const au_arith_params *p, const int32_t *table, coefficients *to)
{
    const int64_t scale = INT64_C(1) << p->cs;
    for (int n = 0; n < 512; ++n) {
        const int32_t *row = table + 3 * n;
        const uint32_t b = (uint32_t)(p->vector_b ? row[1] : p->b);
        const uint32_t c = (uint32_t)(p->vector_c ? row[2] : p->c);
        to->gain[n] = (int16_t)(p->vector_a ? row[0] : p->a);
        to->second[n] = (int16_t)b;
        to->addend[n] = (p->combine ? (int32_t)(b << 16 | (c & 0xFFFF)) : (int16_t)c) * scale;
    }
}

/* `count` elements whose table index moves by `step` each. */
static inline int64_t arith_run(const int32_t *x, const int32_t *y, int64_t count,
                                const au_arith_params *p, const coefficients *k, int32_t index,
                                int32_t step, int32_t *out)
{
    const int narrow_x = 32 - 8 * p->x_bytes, narrow_y = 32 - 8 * p->y_bytes;
    const int narrow = 32 - 8 * p->bytes, product = p->operation == 7;
    const int64_t low = -(INT64_C(1) << (8 * p->bytes - 1)), high = -low - 1;
    const int64_t half = p->round && p->res ? INT64_C(1) << (p->res - 1) : 0;
    const int64_t sign = half ? -1 : 0;
    int64_t met = 0;
    for (int64_t i = 0; i < count; ++i, index = (index + step) & 511) {
        const int64_t first = (int32_t)((uint32_t)x[i] << narrow_x) >> narrow_x;
        int64_t total = ((k->gain[index] * first) >> p->ax) + k->addend[index];
        if (y != NULL) {
            const int64_t second = (int32_t)((uint32_t)y[i] << narrow_y) >> narrow_y;
            total = product ? first * second
                            : total + (p->combine ? 0 : (k->second[index] * second) >> p->by);
        }
        int64_t value = (total + half + ((total >> 63) & sign)) >> p->res;
        if (p->clip)
            value = value < p->clip_min ? p->clip_min : value > p->clip_max ? p->clip_max : value;
        const int64_t floor = value < low ? low : value;
        const int64_t kept = floor > high ? high : floor;
        met += kept != value;
        out[i] = p->saturate ? (int32_t)kept : (int32_t)((uint32_t)value << narrow) >> narrow;
    }
    return met;
}

int64_t au_arith(const int32_t *x, const int32_t *y, int64_t count, const au_arith_params *p,
                 const int32_t *table, int32_t *out)
{
    coefficients k;
    expand(p, table, &k);
    int64_t met = 0;
    if (!p->vector_a && !p->vector_b && !p->vector_c) {
        met = arith_run(x, y, count, p, &k, 0, 0, out);
        return p->saturate ? met : 0;
    }
    int32_t left[4] = {p->every[0], p->every[1], p->every[2], p->every[3]};
    int32_t index = 0;
    for (int64_t i = 0; i < count;) {
        /* Up to the element that ends a counter the index moves evenly. */
        int64_t run = count - i;
        for (int n = p->every[0] == 1 ? 1 : 0; n < 4; ++n)
            if (left[n] && left[n] < run)
                run = left[n];
        const int32_t even = p->every[0] == 1 ? p->step[0] : 0;
        met += arith_run(x + i, y == NULL ? NULL : y + i, run, p, &k, index, even, out + i);
        index = (int32_t)((index + (run - 1) * even) & 511);
        int32_t step = even;
        for (int n = 0; n < 4; ++n) {
            if (n == 0 && p->every[0] == 1)
                continue;
            if (left[n] && (left[n] -= (int32_t)run) == 0) {
                left[n] = p->every[n];
                step = p->step[n];
            }
        }
        index = (index + step) & 511;
        i += run;
    }
    return p->saturate ? met : 0;
}
