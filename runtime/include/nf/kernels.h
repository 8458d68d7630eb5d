/* The kernels: parameters, operands and entry points, each declared once.
 *
 * NF_KERNELS lists every kernel with the list of its parameters; the host table that Python reads
 * is made from it, so that a name cannot drift. A parameter is I(name) for int32_t or F(name) for
 * float.
 *
 * Operand order is written beside each kernel: inputs, constants, scratch, output last.
 * int8 kernels: "offset" parameters are added to the stored value, so an input offset is minus the
 * zero point and an output offset is the zero point.
 */
#ifndef NF_KERNELS_H
#define NF_KERNELS_H

#include "nf/nf.h"

#ifdef __cplusplus
extern "C" {
#endif

#define NF_WINDOW_PARAMS(I, F)                                                                     \
    I(kernel_h) I(kernel_w) I(stride_h) I(stride_w) I(dilation_h) I(dilation_w) I(pad_top) I(pad_left)
#define NF_RANGE_PARAMS(I, F) I(act_min) I(act_max)

/* x, weights OHWI or 1HWC, bias int32, multiplier int32, shift int32 (left positive), y */
#define NF_PARAMS_conv2d_s8(I, F)                                                                  \
    NF_WINDOW_PARAMS(I, F) I(in_offset) I(out_offset) NF_RANGE_PARAMS(I, F) I(groups)
#define NF_PARAMS_depthwise_conv2d_s8(I, F) NF_PARAMS_conv2d_s8(I, F)
/* x, weights, bias int32, scale float32, y */
#define NF_PARAMS_conv2d_s8_f32scale(I, F) NF_PARAMS_conv2d_s8(I, F)
#define NF_PARAMS_depthwise_conv2d_s8_f32scale(I, F) NF_PARAMS_conv2d_s8(I, F)

/* x [rows, depth], weights [outputs, depth], bias int32, multiplier int32, shift int32, y */
#define NF_PARAMS_fully_connected_s8(I, F)                                                         \
    I(rows) I(depth) I(in_offset) I(weight_offset) I(out_offset) NF_RANGE_PARAMS(I, F)
/* x, weights, bias int32, scale float32 or float64, y */
#define NF_PARAMS_fully_connected_s8_f32scale(I, F) NF_PARAMS_fully_connected_s8(I, F)
#define NF_PARAMS_fully_connected_s8_f64scale(I, F) NF_PARAMS_fully_connected_s8(I, F)

/* a, b, y; broadcasting through strides of 0 */
#define NF_PARAMS_add_s8(I, F)                                                                     \
    I(a_offset) I(a_multiplier) I(a_shift) I(b_offset) I(b_multiplier) I(b_shift) I(left_shift)    \
    I(out_offset) I(out_multiplier) I(out_shift) NF_RANGE_PARAMS(I, F)
/* y = rint(a * a_scale + (b * b_scale + offset)), saturated */
#define NF_PARAMS_add_s8_f32scale(I, F) F(a_scale) F(b_scale) F(offset) NF_RANGE_PARAMS(I, F)
/* y = ((a + a_offset) * (b + b_offset)) requantised + out_offset */
#define NF_PARAMS_mul_s8(I, F)                                                                     \
    I(a_offset) I(b_offset) I(out_offset) I(out_multiplier) I(out_shift) NF_RANGE_PARAMS(I, F)

/* x, y */
#define NF_PARAMS_average_pool2d_s8(I, F) NF_WINDOW_PARAMS(I, F) NF_RANGE_PARAMS(I, F)
#define NF_PARAMS_max_pool2d_s8(I, F) NF_WINDOW_PARAMS(I, F) NF_RANGE_PARAMS(I, F)

/* x [outer, reduced, inner], y [outer, inner]; sum, minus reduced * zero point, requantised */
#define NF_PARAMS_mean_s8(I, F)                                                                    \
    I(outer) I(reduced) I(inner) I(in_zero) I(out_zero) I(multiplier) I(shift)
#define NF_PARAMS_mean_s8_f32scale(I, F) I(outer) I(reduced) I(inner) I(in_zero) I(out_zero) F(scale)

/* x [rows, depth], table int32[256] (exp of minus the index, Q0.31), y */
#define NF_PARAMS_softmax_s8(I, F) I(rows) I(depth) I(diff_min)

/* x, table[256] indexed by the stored byte, y; any unary operator on rows of 8-bit elements;
 * row distances in bytes */
#define NF_PARAMS_lut_8(I, F) I(rows) I(count) I(x_row) I(y_row)
/* x, y */
#define NF_PARAMS_quantize_f32_s8(I, F) I(count) I(out_zero) F(scale) I(half_even)
#define NF_PARAMS_dequantize_s8_f32(I, F) I(count) I(in_zero) F(scale)

/* x, y: same logical shape, elements of `element` bytes, any strides */
#define NF_PARAMS_copy(I, F) I(element)
/* x, y: y is filled with `value` outside of x, which lies at (top, left, front) */
#define NF_PARAMS_pad(I, F) I(element) I(value) I(pad_n) I(pad_top) I(pad_left) I(pad_front)
/* x, y (dense); dims are the output's, strides in elements of the input's */
#define NF_PARAMS_transpose(I, F)                                                                  \
    I(element) I(d0) I(d1) I(d2) I(d3) I(d4) I(d5) I(s0) I(s1) I(s2) I(s3) I(s4) I(s5)

/* x, row table int32 (y0, y1) and float32 weight, column table likewise, y.
 * Interpolates stored values, then requantises: rint(v * scale + offset), saturated. */
#define NF_PARAMS_resize_bilinear_s8(I, F) F(scale) F(offset)
/* x, row index int32[h_out], column index int32[w_out], y */
#define NF_PARAMS_resize_nearest(I, F) I(element)

#define NF_KERNELS(K)                                                                              \
    K(conv2d_s8)                                                                                   \
    K(depthwise_conv2d_s8)                                                                         \
    K(conv2d_s8_f32scale)                                                                          \
    K(depthwise_conv2d_s8_f32scale)                                                                \
    K(fully_connected_s8)                                                                          \
    K(fully_connected_s8_f32scale)                                                                 \
    K(fully_connected_s8_f64scale)                                                                 \
    K(add_s8)                                                                                      \
    K(add_s8_f32scale)                                                                             \
    K(mul_s8)                                                                                      \
    K(average_pool2d_s8)                                                                           \
    K(max_pool2d_s8)                                                                               \
    K(mean_s8)                                                                                     \
    K(mean_s8_f32scale)                                                                            \
    K(softmax_s8)                                                                                  \
    K(lut_8)                                                                                       \
    K(quantize_f32_s8)                                                                             \
    K(dequantize_s8_f32)                                                                           \
    K(copy)                                                                                        \
    K(pad)                                                                                         \
    K(transpose)                                                                                   \
    K(resize_bilinear_s8)                                                                          \
    K(resize_nearest)

#define NF_INT_FIELD(name) int32_t name;
#define NF_FLOAT_FIELD(name) float name;
#define NF_DECLARE(kernel)                                                                         \
    typedef struct nf_params_##kernel {                                                            \
        NF_PARAMS_##kernel(NF_INT_FIELD, NF_FLOAT_FIELD)                                           \
    } nf_params_##kernel;                                                                          \
    void nf_##kernel(const nf_view *operands, const void *params);

NF_KERNELS(NF_DECLARE)

#ifdef __cplusplus
}
#endif
#endif
