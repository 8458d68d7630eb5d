/* A camera's frame as the input of a network: scaled, cropped or letterboxed, and each byte replaced by
 * what the network stores for it. Tables are generated; the same declaration makes the same bytes on a
 * PC. Integer arithmetic only. */
#ifndef PICTURE_H
#define PICTURE_H

#include <stdint.h>

/* One direction: output i is the sum of weights[i * taps + k] * input[first[i] + k] for k < count[i], in
 * units of 2^-22. */
typedef struct nf_axis {
    const uint16_t *first;
    const uint16_t *count;
    const int32_t *weights;
    uint16_t taps;
    uint16_t outputs;
} nf_axis;

typedef struct nf_picture {
    uint16_t frame_width, frame_height; /* of the frame, which has `channels` bytes a pixel */
    uint16_t width, height;             /* of the network's input */
    uint16_t left, top;                 /* where the frame's part begins in it */
    uint8_t channels;                   /* 1: grey; 3: red, green, blue in the frame */
    uint8_t reversed;                   /* whether the network takes blue, green, red */
    uint8_t planar;                     /* whether the input is channel, row, column */
    uint8_t item;                       /* bytes of one stored number */
    uint8_t background;                 /* byte around the frame's part */
    nf_axis across, down;
    const uint8_t *values; /* channels x 256 stored numbers */
    uint8_t *rows;         /* down.taps x across.outputs x channels bytes to work in */
} nf_picture;

/* Fill an input. `stride`: bytes from one row of the frame to the next. */
void nf_picture_input(const nf_picture *picture, const uint8_t *frame, uint32_t stride, void *input);

#endif
