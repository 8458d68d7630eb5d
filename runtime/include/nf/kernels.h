/* The kernels: parameters, operands and entry points, each declared once.
 *
 * NF_KERNELS lists every kernel with the list of its parameters; the host table that Python reads
 * is made from it, so that a name cannot drift. A parameter is I(name) for int32_t or F(name) for
 * float.
 *
 * Operand order is written beside each kernel: inputs, constants, outputs, scratch last.
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

/* --- linear operators -------------------------------------------------------------------------
 * x, weights OHWI or 1HWC, bias int32, multiplier int32, shift int32 (left positive), y */
#define NF_PARAMS_conv2d_s8(I, F)                                                                  \
    NF_WINDOW_PARAMS(I, F) I(in_offset) I(out_offset) NF_RANGE_PARAMS(I, F) I(groups)
#define NF_PARAMS_depthwise_conv2d_s8(I, F) NF_PARAMS_conv2d_s8(I, F)
/* x, weights, bias int32, scale float32, y */
#define NF_PARAMS_conv2d_s8_f32scale(I, F) NF_PARAMS_conv2d_s8(I, F)
#define NF_PARAMS_depthwise_conv2d_s8_f32scale(I, F) NF_PARAMS_conv2d_s8(I, F)
/* x, weights, bias int32, multiplier, shift, y; all 8-bit data unsigned */
#define NF_PARAMS_conv2d_u8(I, F) NF_PARAMS_conv2d_s8(I, F) I(weight_offset)
#define NF_PARAMS_depthwise_conv2d_u8(I, F) NF_PARAMS_conv2d_u8(I, F)
/* x int16, weights int8, bias int64, multiplier, shift, y int16 */
#define NF_PARAMS_conv2d_s16(I, F) NF_WINDOW_PARAMS(I, F) NF_RANGE_PARAMS(I, F) I(groups)
#define NF_PARAMS_depthwise_conv2d_s16(I, F) NF_PARAMS_conv2d_s16(I, F)
/* x, weights, bias, y */
#define NF_PARAMS_conv2d_f32(I, F) NF_WINDOW_PARAMS(I, F) F(low) F(high) I(groups)
#define NF_PARAMS_depthwise_conv2d_f32(I, F) NF_PARAMS_conv2d_f32(I, F)
/* x float32, weights int8, weight scale float32, bias float32, y float32, scratch (the input as
 * int8); each image is quantised with a scale of its own first */
#define NF_PARAMS_conv2d_hybrid(I, F) NF_PARAMS_conv2d_f32(I, F) I(depthwise) I(asymmetric)

/* x [rows, depth], weights [outputs, depth], bias int32, multiplier int32, shift int32, y */
#define NF_PARAMS_fully_connected_s8(I, F)                                                         \
    I(rows) I(depth) I(in_offset) I(weight_offset) I(out_offset) NF_RANGE_PARAMS(I, F)
#define NF_PARAMS_fully_connected_u8(I, F) NF_PARAMS_fully_connected_s8(I, F)
/* x, weights, bias int32, scale float32 or float64, y */
#define NF_PARAMS_fully_connected_s8_f32scale(I, F) NF_PARAMS_fully_connected_s8(I, F)
#define NF_PARAMS_fully_connected_s8_f64scale(I, F) NF_PARAMS_fully_connected_s8(I, F)
#define NF_PARAMS_fully_connected_u8_f64scale(I, F) NF_PARAMS_fully_connected_s8(I, F)
/* x int16, weights int8, bias int64, multiplier, shift, y int16 */
#define NF_PARAMS_fully_connected_s16(I, F) I(rows) I(depth) NF_RANGE_PARAMS(I, F)
/* x int16, weights int8, bias int64, scale float64, y int16 */
#define NF_PARAMS_fully_connected_s16_f64scale(I, F) NF_PARAMS_fully_connected_s16(I, F)
/* x, weights, bias, y */
#define NF_PARAMS_fully_connected_f32(I, F) I(rows) I(depth) F(low) F(high)
/* x float32, weights int8, weight scale float32 (one an output), bias float32, y, scratch */
#define NF_PARAMS_fully_connected_hybrid(I, F) NF_PARAMS_fully_connected_f32(I, F) I(asymmetric)

/* x, weights OHWI, bias, multiplier, shift, y */
#define NF_PARAMS_transpose_conv2d_s8(I, F)                                                        \
    I(kernel_h) I(kernel_w) I(stride_h) I(stride_w) I(pad_top) I(pad_left) I(in_offset)            \
        I(out_offset) NF_RANGE_PARAMS(I, F)
#define NF_PARAMS_transpose_conv2d_s8_f32scale(I, F) NF_PARAMS_transpose_conv2d_s8(I, F)
#define NF_PARAMS_transpose_conv2d_u8(I, F) NF_PARAMS_transpose_conv2d_s8(I, F) I(weight_offset)
/* x int16, weights int8, bias int64, multiplier, shift, y int16 */
#define NF_PARAMS_transpose_conv2d_s16(I, F)                                                       \
    I(kernel_h) I(kernel_w) I(stride_h) I(stride_w) I(pad_top) I(pad_left) NF_RANGE_PARAMS(I, F)
/* x, weights, bias, y */
#define NF_PARAMS_transpose_conv2d_f32(I, F)                                                       \
    I(kernel_h) I(kernel_w) I(stride_h) I(stride_w) I(pad_top) I(pad_left) F(low) F(high)

/* a, b, y: views (n, h, rows, depth), (n, h, columns, depth), (n, h, rows, columns) */
#define NF_PARAMS_matmul_s8(I, F)                                                                  \
    I(depth) I(a_offset) I(b_offset) I(out_offset) I(multiplier) I(shift)
#define NF_PARAMS_matmul_s8_f32scale(I, F) I(depth) I(a_offset) I(b_offset) I(out_offset) F(scale)
#define NF_PARAMS_matmul_s16(I, F) I(depth) I(multiplier) I(shift)
#define NF_PARAMS_matmul_f32(I, F) I(depth)

/* --- elementwise operators --------------------------------------------------------------------
 * a, b, y; broadcasting through strides of 0 */
#define NF_PARAMS_add_s8(I, F)                                                                     \
    I(a_offset) I(a_multiplier) I(a_shift) I(b_offset) I(b_multiplier) I(b_shift) I(b_sign)        \
    I(left_shift) I(out_offset) I(out_multiplier) I(out_shift) NF_RANGE_PARAMS(I, F)
#define NF_PARAMS_add_u8(I, F) NF_PARAMS_add_s8(I, F)
#define NF_PARAMS_add_s16(I, F) NF_PARAMS_add_s8(I, F)
#define NF_PARAMS_squared_difference_s8(I, F) NF_PARAMS_add_s8(I, F)
#define NF_PARAMS_squared_difference_s16(I, F) NF_PARAMS_add_s8(I, F)
/* y = rint(a * a_scale + (b * b_scale + offset)), saturated */
#define NF_PARAMS_add_s8_f32scale(I, F) F(a_scale) F(b_scale) F(offset) NF_RANGE_PARAMS(I, F)
/* y = ((a + a_offset) * (b + b_offset)) requantised + out_offset */
#define NF_PARAMS_mul_s8(I, F)                                                                     \
    I(a_offset) I(b_offset) I(out_offset) I(out_multiplier) I(out_shift) NF_RANGE_PARAMS(I, F)
#define NF_PARAMS_mul_u8(I, F) NF_PARAMS_mul_s8(I, F)
#define NF_PARAMS_mul_s16(I, F) NF_PARAMS_mul_s8(I, F)
/* y = rint((a + a_offset) * (b + b_offset) * scale) + out_offset */
#define NF_PARAMS_mul_s8_f32scale(I, F)                                                            \
    I(a_offset) I(b_offset) I(out_offset) F(scale) NF_RANGE_PARAMS(I, F)
/* The larger or smaller stored value. */
#define NF_PARAMS_extreme_s8(I, F) I(largest)
#define NF_PARAMS_extreme_u8(I, F) I(largest)
#define NF_PARAMS_extreme_s16(I, F) I(largest)
/* x int8, alpha int8, y: x or x * alpha, requantised */
#define NF_PARAMS_prelu_s8(I, F)                                                                   \
    I(in_offset) I(alpha_offset) I(out_offset) I(multiplier) I(shift) I(alpha_multiplier)          \
    I(alpha_shift)
/* a, b, y: operator by number, see nf_binary; dequantises, computes, quantises half to even */
#define NF_PARAMS_binary_s8_float(I, F)                                                            \
    I(op) I(a_zero) I(b_zero) I(out_zero) F(a_scale) F(b_scale) F(out_scale)
#define NF_PARAMS_binary_f32(I, F) I(op) F(low) F(high)
#define NF_PARAMS_binary_s32(I, F) I(op)
#define NF_PARAMS_binary_s64(I, F) I(op)
/* a, b, y bool; `dtype` of the operands, see nf_dtype */
#define NF_PARAMS_compare(I, F) I(op) I(dtype)
/* condition bool, a, b, y */
#define NF_PARAMS_select(I, F) I(element)

/* x, table[256] indexed by the stored byte, y; any unary operator on rows of 8-bit elements;
 * row distances in bytes */
#define NF_PARAMS_lut_8(I, F) I(rows) I(count) I(x_row) I(y_row)
/* x int16, table int16[513], y int16: linear interpolation between 512 sections */
#define NF_PARAMS_lut_16(I, F) I(count)
/* x int16, table uint16[256] (sigmoid), y int16 */
#define NF_PARAMS_sigmoid_s16(I, F) I(count) I(multiplier) I(shift) I(tanh)
/* x, y: operator by number, see nf_unary */
#define NF_PARAMS_unary_f32(I, F) I(op) I(count) F(alpha)
#define NF_PARAMS_quantize_f32_s8(I, F) I(count) I(out_zero) F(scale) I(half_even)
#define NF_PARAMS_quantize_f32_u8(I, F) NF_PARAMS_quantize_f32_s8(I, F)
#define NF_PARAMS_quantize_f32_s16(I, F) NF_PARAMS_quantize_f32_s8(I, F)
#define NF_PARAMS_dequantize_s8_f32(I, F) I(count) I(in_zero) F(scale)
#define NF_PARAMS_dequantize_u8_f32(I, F) NF_PARAMS_dequantize_s8_f32(I, F)
#define NF_PARAMS_dequantize_s16_f32(I, F) NF_PARAMS_dequantize_s8_f32(I, F)
/* x, y; integer types by nf_dtype */
#define NF_PARAMS_change_scale(I, F)                                                               \
    I(count) I(from) I(to) I(in_zero) I(out_zero) I(multiplier) I(shift)
/* x, y; types by nf_dtype */
#define NF_PARAMS_cast(I, F) I(count) I(from) I(to)

/* --- windows and reductions ------------------------------------------------------------------- */
/* x, y */
#define NF_PARAMS_average_pool2d_s8(I, F) NF_WINDOW_PARAMS(I, F) NF_RANGE_PARAMS(I, F)
#define NF_PARAMS_average_pool2d_u8(I, F) NF_PARAMS_average_pool2d_s8(I, F)
#define NF_PARAMS_average_pool2d_s16(I, F) NF_PARAMS_average_pool2d_s8(I, F)
#define NF_PARAMS_average_pool2d_f32(I, F) NF_WINDOW_PARAMS(I, F) F(low) F(high) I(count_padding)
/* mean of the real numbers, divided by the scale of the result, rounded half to even */
#define NF_PARAMS_average_pool2d_s8_f32scale(I, F)                                                 \
    NF_WINDOW_PARAMS(I, F) I(in_zero) I(out_zero) F(in_scale) F(out_scale) I(count_padding)
#define NF_PARAMS_max_pool2d_s8(I, F) NF_WINDOW_PARAMS(I, F) NF_RANGE_PARAMS(I, F)
#define NF_PARAMS_max_pool2d_u8(I, F) NF_PARAMS_max_pool2d_s8(I, F)
#define NF_PARAMS_max_pool2d_s16(I, F) NF_PARAMS_max_pool2d_s8(I, F)
#define NF_PARAMS_max_pool2d_f32(I, F) NF_WINDOW_PARAMS(I, F) F(low) F(high)

/* x [outer, reduced, inner], y [outer, inner]; sum, minus reduced * zero point, requantised */
#define NF_PARAMS_mean_s8(I, F)                                                                    \
    I(outer) I(reduced) I(inner) I(in_zero) I(out_zero) I(multiplier) I(shift)
#define NF_PARAMS_mean_s8_f32scale(I, F) I(outer) I(reduced) I(inner) I(in_zero) I(out_zero) F(scale)
/* x, y: three kept and three reduced axes, strides in elements; `kind` see nf_reduce */
#define NF_REDUCE_PARAMS(I, F)                                                                     \
    I(kind) I(k0) I(k1) I(k2) I(ks0) I(ks1) I(ks2) I(r0) I(r1) I(r2) I(rs0) I(rs1) I(rs2)
#define NF_PARAMS_reduce_8(I, F)                                                                   \
    NF_REDUCE_PARAMS(I, F) I(is_unsigned) I(in_zero) I(out_zero) I(multiplier) I(shift)
#define NF_PARAMS_reduce_s16(I, F)                                                                 \
    NF_REDUCE_PARAMS(I, F) I(in_zero) I(out_zero) I(multiplier) I(shift)
#define NF_PARAMS_reduce_f32(I, F) NF_REDUCE_PARAMS(I, F)
#define NF_PARAMS_reduce_s32(I, F) NF_REDUCE_PARAMS(I, F)

/* x [rows, depth], table int32[256] (exp of minus the index, Q0.31), y */
#define NF_PARAMS_softmax_s8(I, F) I(rows) I(depth) I(diff_min)
#define NF_PARAMS_softmax_u8(I, F) NF_PARAMS_softmax_s8(I, F)
/* x int8 [rows, depth], table float32[256] (exp of minus the index), y int8: float arithmetic */
#define NF_PARAMS_softmax_s8_f32(I, F) I(rows) I(depth) I(out_zero) F(out_steps)
/* x int16 [rows, depth], exp table int16[513], reciprocal table int16[513], y int16 */
#define NF_PARAMS_softmax_s16(I, F) I(rows) I(depth) I(multiplier) I(shift)
/* x, y */
#define NF_PARAMS_softmax_f32(I, F) I(rows) I(depth) F(beta) I(logarithm)
#define NF_PARAMS_l2_normalization_f32(I, F) I(rows) I(depth)
#define NF_PARAMS_l2_normalization_s8(I, F) I(rows) I(depth) I(in_zero)
/* x [outer, axis, inner], y int32 or int64 [outer, inner] */
#define NF_PARAMS_arg_extreme(I, F) I(outer) I(axis) I(inner) I(dtype) I(largest) I(wide)

/* --- data movement ---------------------------------------------------------------------------- */
/* x, y: same logical shape, elements of `element` bytes, any strides */
#define NF_PARAMS_copy(I, F) I(element)
/* x, y: y is filled with `value` outside of x, which lies at (top, left, front) */
#define NF_PARAMS_pad(I, F) I(element) I(value) I(pad_n) I(pad_top) I(pad_left) I(pad_front)
/* x, y (dense); dims are the output's, strides in elements of the input's */
#define NF_PARAMS_transpose(I, F)                                                                  \
    I(element) I(d0) I(d1) I(d2) I(d3) I(d4) I(d5) I(d6) I(d7) I(s0) I(s1) I(s2) I(s3) I(s4) I(s5) \
    I(s6) I(s7)
/* x [outer, axis, inner bytes], indices int32 or int64 [count], y [outer, count, inner bytes];
 * an index outside of the axis yields zeros */
#define NF_PARAMS_gather(I, F) I(outer) I(axis) I(inner) I(count) I(wide)

/* x, row table int32 (y0, y1) and float32 weight, column table likewise, y.
 * Interpolates stored values, then requantises: rint(v * scale + offset), saturated. */
#define NF_PARAMS_resize_bilinear_s8(I, F) F(scale) F(offset)
#define NF_PARAMS_resize_bilinear_f32(I, F) I(four_products)
#define NF_PARAMS_resize_bilinear_u8(I, F) I(channels)
/* x, row table int32 (y0, y1, weight Q10), column table, y: 20-bit products, half away from zero */
#define NF_PARAMS_resize_bilinear_8_fixed(I, F) I(channels)
/* x, row index int32[h_out], column index int32[w_out], y */
#define NF_PARAMS_resize_nearest(I, F) I(element)

/* boxes, scores, anchors float32, boxes out, classes out, scores out, number out, scratch */
#define NF_PARAMS_detection_postprocess(I, F)                                                      \
    I(boxes) I(box_width) I(anchor_width) I(scores) I(classes) I(max_detections)                   \
    I(max_classes_per_detection) I(regular) I(detections_per_class) F(score_threshold)             \
    F(iou_threshold) F(scale_y) F(scale_x) F(scale_h) F(scale_w)

#define NF_KERNELS(K)                                                                              \
    K(conv2d_s8) K(depthwise_conv2d_s8) K(conv2d_s8_f32scale) K(depthwise_conv2d_s8_f32scale)      \
    K(conv2d_u8) K(depthwise_conv2d_u8) K(conv2d_s16) K(depthwise_conv2d_s16)                      \
    K(conv2d_f32) K(depthwise_conv2d_f32) K(conv2d_hybrid)                                         \
    K(fully_connected_s8) K(fully_connected_s8_f32scale) K(fully_connected_s8_f64scale)            \
    K(fully_connected_u8) K(fully_connected_u8_f64scale) K(fully_connected_s16)                    \
    K(fully_connected_s16_f64scale) K(fully_connected_f32)                                         \
    K(fully_connected_hybrid)                                                                      \
    K(transpose_conv2d_s8) K(transpose_conv2d_s8_f32scale) K(transpose_conv2d_u8)                  \
    K(transpose_conv2d_s16) K(transpose_conv2d_f32)                                                \
    K(matmul_s8) K(matmul_s8_f32scale) K(matmul_s16) K(matmul_f32)                                 \
    K(add_s8) K(add_u8) K(add_s16) K(add_s8_f32scale)                                              \
    K(squared_difference_s8) K(squared_difference_s16)                                             \
    K(mul_s8) K(mul_u8) K(mul_s16) K(mul_s8_f32scale)                                              \
    K(extreme_s8) K(extreme_u8) K(extreme_s16) K(prelu_s8) K(binary_s8_float)                      \
    K(binary_f32) K(binary_s32) K(binary_s64) K(compare) K(select)                                 \
    K(lut_8) K(lut_16) K(sigmoid_s16) K(unary_f32)                                                 \
    K(quantize_f32_s8) K(quantize_f32_u8) K(quantize_f32_s16)                                      \
    K(dequantize_s8_f32) K(dequantize_u8_f32) K(dequantize_s16_f32) K(change_scale) K(cast)          \
    K(average_pool2d_s8) K(average_pool2d_u8) K(average_pool2d_s16) K(average_pool2d_f32)          \
    K(average_pool2d_s8_f32scale)                                                                  \
    K(max_pool2d_s8) K(max_pool2d_u8) K(max_pool2d_s16) K(max_pool2d_f32)                          \
    K(mean_s8) K(mean_s8_f32scale) K(reduce_8) K(reduce_s16) K(reduce_f32) K(reduce_s32)           \
    K(softmax_s8) K(softmax_u8) K(softmax_s8_f32) K(softmax_s16) K(softmax_f32)                    \
    K(l2_normalization_f32) K(l2_normalization_s8) K(arg_extreme)                                  \
    K(copy) K(pad) K(transpose) K(gather)                                                          \
    K(resize_bilinear_s8) K(resize_bilinear_u8) K(resize_bilinear_f32)                             \
    K(resize_bilinear_8_fixed) K(resize_nearest)                                                   \
    K(detection_postprocess)

/* Numbers of operators that are parameters. */
enum nf_binary {
    NF_ADD, NF_SUB, NF_MUL, NF_DIV, NF_MINIMUM, NF_MAXIMUM, NF_SQUARED_DIFFERENCE, NF_FLOOR_DIV,
    NF_FLOOR_MOD, NF_POWER, NF_PRELU
};
enum nf_compare {
    NF_EQUAL, NF_NOT_EQUAL, NF_LESS, NF_LESS_EQUAL, NF_GREATER, NF_GREATER_EQUAL, NF_LOGICAL_AND,
    NF_LOGICAL_OR
};
enum nf_unary {
    NF_RELU, NF_RELU6, NF_RELU_N1_TO_1, NF_LOGISTIC, NF_TANH, NF_HARD_SWISH, NF_HARD_SIGMOID,
    NF_ELU, NF_EXP, NF_LOG, NF_SQRT, NF_RSQRT, NF_SQUARE, NF_ABS, NF_NEG, NF_ROUND, NF_FLOOR,
    NF_CEIL, NF_SIGN, NF_SIN, NF_COS, NF_ERF, NF_SOFTPLUS, NF_RECIPROCAL, NF_LOGICAL_NOT,
    NF_LEAKY_RELU, NF_GELU, NF_GELU_TANH
};
enum nf_reduce { NF_MEAN, NF_SUM, NF_REDUCE_MAX, NF_REDUCE_MIN, NF_REDUCE_PROD };

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
