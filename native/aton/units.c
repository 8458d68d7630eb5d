#include "units.h"

#include <string.h>

/* Loops that are compiled for more than one instruction set. */
#if defined(__GNUC__) || defined(__clang__)
#define AU_INLINE static inline __attribute__((always_inline))
#else
#define AU_INLINE static inline
#endif

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

static const int32_t *store_run(const int32_t *values, int64_t depth, int size, uint8_t *to)
{
    if (size == 1)
        for (int64_t d = 0; d < depth; ++d)
            to[d] = (uint8_t)values[d];
    else
        for (int64_t d = 0; d < depth; ++d)
            for (int lane = 0; lane < size; ++lane)
                *to++ = (uint8_t)((uint32_t)values[d] >> 8 * lane);
    return values + depth;
}

void au_scatter(uint8_t *data, uint8_t *written, const int64_t *starts, int64_t count,
                const au_frame *frame, const int32_t *values)
{
    const au_frame flat = flattened(frame);
    for (int64_t k = 0; k < count; ++k)
        for (int64_t y = 0; y < flat.rows; ++y)
            for (int64_t x = 0; x < flat.columns; ++x) {
                const int64_t at = starts[k] + y * flat.line + x * flat.pixel;
                memset(written + at, 1, (size_t)(flat.depth * flat.size));
                values = store_run(values, flat.depth, flat.size, data + at);
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

#define AU_AVX2 __attribute__((target("avx2")))

/* Four pixels by up to 24 kernels at a time; the same sums as row_portable. */
AU_AVX2 static void block_avx2(const int16_t *const *in,
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

AU_AVX2 static void block1_avx2(const int16_t *const *in,
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

/* Largest magnitude of the values. */
AU_INLINE int64_t magnitude(const int32_t *values, int64_t count)
{
    int32_t low = 0, high = 0;
    for (int64_t i = 0; i < count; ++i) {
        low = values[i] < low ? values[i] : low;
        high = values[i] > high ? values[i] : high;
    }
    return -(int64_t)low > high ? -(int64_t)low : high;
}

typedef struct {
    int64_t low, high;
    int in_shift, out_shift, round, limit, bits;
} requantisation;

/* Totals of 32 bits: what nearly every stream needs. */
AU_INLINE int64_t requantise_32(const int32_t *sums, const int32_t *carry, int64_t count,
                                    const requantisation *q, int32_t *out)
{
    const int32_t low = (int32_t)q->low, high = (int32_t)q->high, scale = 1 << q->in_shift;
    const int32_t half = q->round && q->out_shift ? 1 << (q->out_shift - 1) : 0;
    const int32_t sign = half ? -1 : 0;
    const int wide = 32 - q->bits, shift = q->out_shift, limit = q->limit;
    int32_t met = 0;
    for (int64_t i = 0; i < count; ++i) {
        const int32_t total = carry != NULL ? sums[i] + carry[i] * scale : sums[i];
        const int32_t value = (total + half + ((total >> 31) & sign)) >> shift;
        const int32_t floor = value < low ? low : value;
        const int32_t kept = floor > high ? high : floor;
        met += kept != value;
        out[i] = limit ? kept : (int32_t)((uint32_t)value << wide) >> wide;
    }
    return met;
}

static inline int64_t requantise_64(const int32_t *sums, const int32_t *carry, int64_t count,
                                    const requantisation *q, int32_t *out)
{
    const int64_t low = q->low, high = q->high, scale = INT64_C(1) << q->in_shift;
    const int64_t half = q->round && q->out_shift ? INT64_C(1) << (q->out_shift - 1) : 0;
    const int64_t sign = half ? -1 : 0;
    const int wide = 32 - q->bits;
    int64_t met = 0;
    for (int64_t i = 0; i < count; ++i) {
        const int64_t total = carry != NULL ? sums[i] + carry[i] * scale : sums[i];
        const int64_t value = (total + half + ((total >> 63) & sign)) >> q->out_shift;
        const int64_t floor = value < low ? low : value;
        const int64_t kept = floor > high ? high : floor;
        met += kept != value;
        out[i] = q->limit ? (int32_t)kept : (int32_t)((uint32_t)value << wide) >> wide;
    }
    return met;
}

AU_INLINE int64_t requantise_any(const int32_t *sums, const int32_t *carry, int64_t count,
                                     const requantisation *q, int32_t *out)
{
    int64_t most = magnitude(sums, count) + 1;
    if (q->in_shift < 31 && q->out_shift < 31) {
        if (carry != NULL)
            most += magnitude(carry, count) << q->in_shift;
        if (q->round && q->out_shift)
            most += INT64_C(1) << (q->out_shift - 1);
        if (most < INT64_C(1) << 31)
            return requantise_32(sums, carry, count, q, out);
    }
    return requantise_64(sums, carry, count, q, out);
}

#ifdef AU_AVX2
AU_AVX2 static int64_t requantise_avx2(const int32_t *sums, const int32_t *carry, int64_t count,
                                       const requantisation *q, int32_t *out)
{
    return requantise_any(sums, carry, count, q, out);
}
#else
#define requantise_avx2 requantise_any
#endif

int64_t au_requantise(const int32_t *sums, const int32_t *carry, int64_t count, int in_shift,
                      int out_shift, int round, int limit, int bits, int32_t *out)
{
    const int64_t low = limit == 2 ? 0 : -(INT64_C(1) << (bits - 1));
    const int64_t high = limit == 2 ? (INT64_C(1) << bits) - 1 : (INT64_C(1) << (bits - 1)) - 1;
    const requantisation q = {low, high, in_shift, out_shift, round, limit, bits};
    const int64_t met = (has_avx2() ? requantise_avx2 : requantise_any)(sums, carry, count, &q, out);
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

/* Where the index stands, and the elements left of each counter. */
typedef struct {
    int32_t left[4], index;
} counters;

/* Goes on by at most `most` elements, up to the one that ends a counter: until there the index,
   which starts at `*index`, moves evenly. Returns how many. */
AU_INLINE int64_t advance(const au_arith_params *p, counters *c, int64_t most, int32_t *index)
{
    const int first = p->every[0] == 1 ? 1 : 0;
    const int32_t even = first ? p->step[0] : 0;
    int64_t run = most;
    for (int n = first; n < 4; ++n)
        if (c->left[n] && c->left[n] < run)
            run = c->left[n];
    *index = c->index;
    int32_t step = even;
    for (int n = first; n < 4; ++n)
        if (c->left[n] && (c->left[n] -= (int32_t)run) == 0) {
            c->left[n] = p->every[n];
            step = p->step[n];
        }
    c->index = (int32_t)((c->index + (run - 1) * even + step) & 511);
    return run;
}

enum { AU_BLOCK = 512 };

/* Factors and addends of a block of elements, in their order. */
typedef struct {
    int32_t gain[AU_BLOCK], second[AU_BLOCK], addend[AU_BLOCK];
} block;

AU_INLINE void fill(const au_arith_params *p, const coefficients *k, counters *c, int64_t count,
                        block *to)
{
    const int32_t step = p->every[0] == 1 ? p->step[0] & 511 : 0;
    for (int64_t i = 0; i < count;) {
        int32_t index;
        const int64_t run = advance(p, c, count - i, &index);
        const int64_t end = i + run;
        if (step == 1 && index + run <= 512) {
            const int64_t shift = index - i;
            for (; i < end; ++i) {
                to->gain[i] = k->gain[i + shift];
                to->second[i] = k->second[i + shift];
                to->addend[i] = (int32_t)k->addend[i + shift];
            }
        }
        for (; i < end; ++i, index = (index + step) & 511) {
            to->gain[i] = k->gain[index];
            to->second[i] = k->second[index];
            to->addend[i] = (int32_t)k->addend[index];
        }
    }
}

/* One block whose totals fit 32 bits; the same values as arith_run. */
AU_INLINE int32_t arith_block(const int32_t *x, const int32_t *y, int64_t count,
                                  const au_arith_params *p, const block *k, int32_t *out)
{
    const int narrow_x = 32 - 8 * p->x_bytes, narrow_y = 32 - 8 * p->y_bytes;
    const int narrow = 32 - 8 * p->bytes, ax = p->ax, res = p->res, saturate = p->saturate;
    const int by = p->combine ? 31 : p->by;
    const int32_t low = -(1 << (8 * p->bytes - 1)), high = -low - 1;
    const int32_t half = p->round && res ? 1 << (res - 1) : 0, sign = half ? -1 : 0;
    const int32_t least = p->clip ? p->clip_min : INT32_MIN;
    const int32_t most = p->clip ? p->clip_max : INT32_MAX;
    int32_t met = 0;
#define AU_ELEMENTS(TOTAL)                                                                         \
    for (int64_t i = 0; i < count; ++i) {                                                          \
        const int32_t first = (int32_t)((uint32_t)x[i] << narrow_x) >> narrow_x;                   \
        const int32_t total = (TOTAL);                                                             \
        int32_t value = (total + half + ((total >> 31) & sign)) >> res;                            \
        value = value < least ? least : value > most ? most : value;                               \
        const int32_t floor = value < low ? low : value;                                           \
        const int32_t kept = floor > high ? high : floor;                                          \
        met += kept != value;                                                                      \
        out[i] = saturate ? kept : (int32_t)((uint32_t)value << narrow) >> narrow;                 \
    }
#define AU_SECOND ((int32_t)((uint32_t)y[i] << narrow_y) >> narrow_y)
    if (y == NULL || (p->combine && p->operation != 7)) {
        AU_ELEMENTS(((k->gain[i] * first) >> ax) + k->addend[i])
    } else if (p->operation == 7) {
        AU_ELEMENTS(first * AU_SECOND)
    } else {
        AU_ELEMENTS(((k->gain[i] * first) >> ax) + k->addend[i] +
                    ((k->second[i] * AU_SECOND) >> by))
    }
#undef AU_SECOND
#undef AU_ELEMENTS
    return met;
}

/* Whether every total that the coefficients allow fits 32 bits. */
static int fits_32(const au_arith_params *p, const coefficients *k, int dual)
{
    int64_t first = 0, second = 0, addend = 0;
    if (p->x_bytes > 2 || (dual && p->y_bytes > 2) || p->res > 30)
        return 0;
    for (int n = 0; n < 512; ++n) {
        const int64_t a = k->gain[n], b = k->second[n], c = k->addend[n];
        first = a > first ? a : -a > first ? -a : first;
        second = b > second ? b : -b > second ? -b : second;
        addend = c > addend ? c : -c > addend ? -c : addend;
    }
    const int64_t half = p->round && p->res ? INT64_C(1) << (p->res - 1) : 0;
    int64_t most = ((first << (8 * p->x_bytes - 1)) >> p->ax) + addend + half + 2;
    if (dual)
        most += (second << (8 * p->y_bytes - 1)) >> p->by;
    if (p->operation == 7)
        most = (INT64_C(1) << (8 * (p->x_bytes + p->y_bytes) - 2)) + half + 2;
    return most < INT64_C(1) << 31;
}

AU_INLINE int64_t arith_blocks(const int32_t *x, const int32_t *y, int64_t count,
                                   const au_arith_params *p, const coefficients *k, counters *c,
                                   int32_t *out)
{
    const int moving = p->vector_a || p->vector_b || p->vector_c;
    /* Whole turns of the first counter: then one block often serves for all. */
    const int64_t turn = p->every[1] > 0 && p->every[1] <= AU_BLOCK ? p->every[1] : 1;
    const int64_t step = AU_BLOCK / turn * turn;
    block held;
    counters start, end;
    int64_t met = 0;
    for (int64_t i = 0; i < count; i += step) {
        const int64_t n = count - i < step ? count - i : step;
        if (i == 0 || (moving && memcmp(c, &start, sizeof start) != 0)) {
            start = *c;
            fill(p, k, c, n, &held);
            end = *c;
        } else if (moving) {
            *c = end;
        }
        met += arith_block(x + i, y == NULL ? NULL : y + i, n, p, &held, out + i);
    }
    return met;
}

#ifdef AU_AVX2
AU_AVX2 static int64_t blocks_avx2(const int32_t *x, const int32_t *y, int64_t count,
                                   const au_arith_params *p, const coefficients *k, counters *c,
                                   int32_t *out)
{
    return arith_blocks(x, y, count, p, k, c, out);
}
#else
#define blocks_avx2 arith_blocks
#endif

int64_t au_arith(const int32_t *x, const int32_t *y, int64_t count, const au_arith_params *p,
                 const int32_t *table, int32_t *out)
{
    coefficients k;
    counters c = {{p->every[0], p->every[1], p->every[2], p->every[3]}, 0};
    expand(p, table, &k);
    int64_t met = 0;
    if (fits_32(p, &k, y != NULL)) {
        met = (has_avx2() ? blocks_avx2 : arith_blocks)(x, y, count, p, &k, &c, out);
    } else if (!p->vector_a && !p->vector_b && !p->vector_c) {
        met = arith_run(x, y, count, p, &k, 0, 0, out);
    } else {
        const int32_t even = p->every[0] == 1 ? p->step[0] : 0;
        for (int64_t i = 0; i < count;) {
            int32_t index;
            const int64_t run = advance(p, &c, count - i, &index);
            met += arith_run(x + i, y == NULL ? NULL : y + i, run, p, &k, index, even, out + i);
            i += run;
        }
    }
    return p->saturate ? met : 0;
}
