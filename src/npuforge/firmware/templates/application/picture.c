#include "picture.h"

#include <string.h>

#define FRACTION_BITS 22u
#define HALF (1u << (FRACTION_BITS - 1u))

static uint8_t rounded(uint32_t sum)
{
    const uint32_t value = sum >> FRACTION_BITS;
    return (uint8_t)(value > 255u ? 255u : value);
}

/* One row of the frame, scaled across. */
static void scale_row(const nf_picture *p, const uint8_t *row, uint8_t *out)
{
    const uint32_t channels = p->channels;
    for (uint32_t x = 0u; x < p->across.outputs; ++x) {
        const int32_t *weights = &p->across.weights[x * p->across.taps];
        const uint8_t *first = &row[p->across.first[x] * channels];
        for (uint32_t c = 0u; c < channels; ++c) {
            uint32_t sum = HALF;
            for (uint32_t k = 0u; k < p->across.count[x]; ++k)
                sum += (uint32_t)weights[k] * first[k * channels + c];
            *out = rounded(sum);
            ++out;
        }
    }
}

/* Store what the network takes for a byte of a pixel. */
static void put(const nf_picture *p, uint8_t *input, uint32_t y, uint32_t x, uint32_t channel,
                uint8_t byte)
{
    const uint32_t c = p->reversed != 0u ? p->channels - 1u - channel : channel;
    const uint32_t place = p->planar != 0u ? (c * p->height + y) * p->width + x
                                           : (y * p->width + x) * p->channels + c;
    const uint8_t *value = &p->values[(c * 256u + byte) * p->item];
    if (p->item == 1u)
        input[place] = *value;
    else
        (void)memcpy(&input[place * p->item], value, p->item);
}

static void fill(const nf_picture *p, uint8_t *input, uint32_t y, uint32_t from, uint32_t to)
{
    for (uint32_t x = from; x < to; ++x)
        for (uint32_t c = 0u; c < p->channels; ++c)
            put(p, input, y, x, c, p->background);
}

/* One row of the frame's part: rows that are needed stand in a ring, each scaled across once. */
static void picture_row(const nf_picture *p, uint8_t *input, uint32_t index)
{
    const uint32_t row_bytes = (uint32_t)p->across.outputs * p->channels;
    const int32_t *weights = &p->down.weights[index * p->down.taps];
    const uint32_t first = p->down.first[index];
    for (uint32_t x = 0u; x < p->across.outputs; ++x)
        for (uint32_t c = 0u; c < p->channels; ++c) {
            uint32_t sum = HALF;
            for (uint32_t k = 0u; k < p->down.count[index]; ++k) {
                const uint32_t slot = (first + k) % p->down.taps;
                sum += (uint32_t)weights[k] * p->rows[slot * row_bytes + x * p->channels + c];
            }
            put(p, input, p->top + index, p->left + x, c, rounded(sum));
        }
}

void nf_picture_input(const nf_picture *picture, const uint8_t *frame, uint32_t stride, void *input)
{
    const nf_picture *p = picture;
    const uint32_t row_bytes = (uint32_t)p->across.outputs * p->channels;
    const uint32_t right = (uint32_t)p->left + p->across.outputs;
    const uint32_t bottom = (uint32_t)p->top + p->down.outputs;
    uint32_t next = 0u; /* first row of the frame that is not in the ring */
    for (uint32_t y = 0u; y < p->top; ++y)
        fill(p, input, y, 0u, p->width);
    for (uint32_t i = 0u; i < p->down.outputs; ++i) {
        const uint32_t end = (uint32_t)p->down.first[i] + p->down.count[i];
        if (next < p->down.first[i])
            next = p->down.first[i];
        for (; next < end; ++next)
            scale_row(p, &frame[next * stride], &p->rows[(next % p->down.taps) * row_bytes]);
        fill(p, input, p->top + i, 0u, p->left);
        picture_row(p, input, i);
        fill(p, input, p->top + i, right, p->width);
    }
    for (uint32_t y = bottom; y < p->height; ++y)
        fill(p, input, y, 0u, p->width);
}
