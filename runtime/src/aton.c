/* Compiled Neural-ART programs: the step loop and the operators that stay on the CPU. */
#include "nf/aton.h"

#include <math.h>
#include <string.h>

static double load(const nf_aton_tensor *t, uintptr_t at)
{
    float real;
    switch (t->type) {
    case NF_ATON_INT8:
        return *(const int8_t *)at;
    case NF_ATON_UINT8:
        return *(const uint8_t *)at;
    default:
        memcpy(&real, (const void *)at, sizeof real);
        return (double)real;
    }
}

/* Real value of an element. */
static double real_at(const nf_aton_map *m, uintptr_t at)
{
    const double held = load(&m->input, at);
    if (m->input.type == NF_ATON_FLOAT32)
        return held;
    return (held - (double)m->from.zero) * (double)m->from.scale;
}

static void store(const nf_aton_tensor *t, uintptr_t at, double value)
{
    const double low = t->type == NF_ATON_INT8 ? -128.0 : 0.0;
    const double high = low + 255.0;
    if (t->type == NF_ATON_FLOAT32) {
        const float real = (float)value;
        memcpy((void *)at, &real, sizeof real);
        return;
    }
    /* not a number becomes the lowest value */
    value = !(value > low) ? low : value > high ? high : value;
    *(uint8_t *)at = (uint8_t)(int32_t)value;
}

/* Store a real value: in steps of the output where that is an integer tensor. */
static void store_real(const nf_aton_map *m, uintptr_t at, double value)
{
    if (m->output.type != NF_ATON_FLOAT32)
        value = rint(value / (double)m->to.scale) + (double)m->to.zero;
    store(&m->output, at, value);
}

static uintptr_t place(const nf_aton_tensor *t, uint32_t b, uint32_t h, uint32_t w, uint32_t c)
{
    return t->address + (uintptr_t)b * t->strides[0] + (uintptr_t)h * t->strides[1] +
           (uintptr_t)w * t->strides[2] + (uintptr_t)c * t->strides[3];
}

/* Every element of the output with the input's element at the same position. */
#define EACH(t)                                            \
    for (uint32_t b = 0; b < (t)->dims[0]; ++b)            \
        for (uint32_t h = 0; h < (t)->dims[1]; ++h)        \
            for (uint32_t w = 0; w < (t)->dims[2]; ++w)    \
                for (uint32_t c = 0; c < (t)->dims[3]; ++c)

void nf_aton_run_move(const void *work)
{
    const nf_aton_move *m = work;
    uint32_t at[5] = {0, 0, 0, 0, 0};
    for (;;) {
        uintptr_t from = m->from, to = m->to;
        for (int i = 0; i < 4; ++i) {
            from += (uintptr_t)at[i] * m->from_strides[i];
            to += (uintptr_t)at[i] * m->to_strides[i];
        }
        for (uint32_t i = 0; i < m->dims[4]; ++i)
            memcpy((void *)(to + (uintptr_t)i * m->to_strides[4]),
                   (const void *)(from + (uintptr_t)i * m->from_strides[4]), m->size);
        int axis = 3;
        while (axis >= 0 && ++at[axis] == m->dims[axis])
            at[axis--] = 0;
        if (axis < 0)
            return;
    }
}

void nf_aton_run_dequantize(const void *work)
{
    const nf_aton_map *m = work;
    EACH(&m->output)
    {
        /* one product of two floats, as the reference rounds it */
        const float steps = (float)(load(&m->input, place(&m->input, b, h, w, c)) - m->from.zero);
        store(&m->output, place(&m->output, b, h, w, c), (double)(steps * m->from.scale));
    }
}

void nf_aton_run_quantize(const void *work)
{
    const nf_aton_map *m = work;
    EACH(&m->output)
    store_real(m, place(&m->output, b, h, w, c), real_at(m, place(&m->input, b, h, w, c)));
}

void nf_aton_run_softmax(const void *work)
{
    const nf_aton_softmax *s = work;
    const nf_aton_tensor *in = &s->map.input, *out = &s->map.output;
    const uint32_t count = in->dims[s->axis], step = in->strides[s->axis];
    nf_aton_tensor lines = *out;
    lines.dims[s->axis] = 1;
    EACH(&lines)
    {
        const uintptr_t from = place(in, b, h, w, c), to = place(out, b, h, w, c);
        double top = real_at(&s->map, from), sum = 0.0;
        for (uint32_t i = 1; i < count; ++i)
            top = fmax(top, real_at(&s->map, from + (uintptr_t)i * step));
        for (uint32_t i = 0; i < count; ++i)
            sum += exp(real_at(&s->map, from + (uintptr_t)i * step) - top);
        for (uint32_t i = 0; i < count; ++i)
            store_real(&s->map, to + (uintptr_t)i * out->strides[s->axis],
                       exp(real_at(&s->map, from + (uintptr_t)i * step) - top) / sum);
    }
}

static double clipped(double x, double low, double high)
{
    return x < low ? low : x > high ? high : x;
}

void nf_aton_run_function(const void *work)
{
    const nf_aton_function *f = work;
    const double a = f->alpha;
    EACH(&f->map.output)
    {
        const double x = real_at(&f->map, place(&f->map.input, b, h, w, c));
        double y = x;
        switch (f->curve) {
        case NF_ATON_HARD_SIGMOID:
            y = clipped(a * x + f->beta, 0.0, 1.0);
            break;
        case NF_ATON_HARD_SWISH:
            y = x * clipped(x / 6.0 + 0.5, 0.0, 1.0);
            break;
        case NF_ATON_SIGMOID:
            y = 1.0 / (1.0 + exp(-x));
            break;
        case NF_ATON_TANH:
            y = tanh(x);
            break;
        case NF_ATON_RELU:
            y = x > 0.0 ? x : 0.0;
            break;
        case NF_ATON_LEAKY_RELU:
            y = x > 0.0 ? x : a * x;
            break;
        case NF_ATON_EXP:
            y = exp(x);
            break;
        case NF_ATON_SQRT:
            y = sqrt(x);
            break;
        case NF_ATON_ABS:
            y = fabs(x);
            break;
        case NF_ATON_RECIPROCAL:
            y = 1.0 / x;
            break;
        case NF_ATON_NEG:
            y = -x;
            break;
        case NF_ATON_LOG:
            y = log(x);
            break;
        case NF_ATON_SIN:
            y = sin(x);
            break;
        case NF_ATON_COS:
            y = cos(x);
            break;
        case NF_ATON_SIGN:
            y = x > 0.0 ? 1.0 : x < 0.0 ? -1.0 : x;
            break;
        case NF_ATON_ROUND:
            y = rint(x);
            break;
        case NF_ATON_FLOOR:
            y = floor(x);
            break;
        case NF_ATON_CEIL:
            y = ceil(x);
            break;
        case NF_ATON_SWISH:
            y = x / (1.0 + exp(-x));
            break;
        }
        store_real(&f->map, place(&f->map.output, b, h, w, c), y);
    }
}

static double paired(nf_aton_pairing how, double x, double y)
{
    switch (how) {
    case NF_ATON_ADD:
        return x + y;
    case NF_ATON_SUB:
        return x - y;
    case NF_ATON_MUL:
        return x * y;
    case NF_ATON_DIV:
        return x / y;
    case NF_ATON_MIN:
        return x < y ? x : y;
    default:
        return x > y ? x : y;
    }
}

void nf_aton_run_pair(const void *work)
{
    const nf_aton_pair *p = work;
    EACH(&p->first.output)
    {
        const double x = real_at(&p->first, place(&p->first.input, b, h, w, c));
        const double y = real_at(&p->second, place(&p->second.input, b, h, w, c));
        store_real(&p->first, place(&p->first.output, b, h, w, c), paired(p->how, x, y));
    }
}

void nf_aton_run_resize(const void *work)
{
    const nf_aton_resize *r = work;
    const nf_aton_tensor *in = &r->map.input;
    EACH(&r->map.output)
    {
        const nf_aton_tap *row = &r->rows[h], *column = &r->columns[w];
        double part[2];
        for (int side = 0; side < 2; ++side) {
            const uint32_t x = side ? column->second : column->first;
            const double top = real_at(&r->map, place(in, b, row->first, x, c));
            const double bottom = real_at(&r->map, place(in, b, row->second, x, c));
            part[side] = top * (1.0 - row->part) + bottom * row->part;
        }
        store_real(&r->map, place(&r->map.output, b, h, w, c),
                   part[0] * (1.0 - column->part) + part[1] * column->part);
    }
}

void nf_aton_run_conv(const void *work)
{
    const nf_aton_conv *v = work;
    const nf_aton_tensor *in = &v->map.input, *k = &v->kernels;
    const uint32_t each = k->dims[0] / v->groups, deep = k->dims[3];
    EACH(&v->map.output)
    {
        const uint32_t first = c / each * deep;
        int64_t total = v->bias ? v->bias[c] : 0;
        for (uint32_t i = 0; i < k->dims[1]; ++i)
            for (uint32_t j = 0; j < k->dims[2]; ++j) {
                /* unsigned: a row above the picture is a huge number */
                const uint32_t y = h * v->stride[0] + i - v->pad[0];
                const uint32_t x = w * v->stride[1] + j - v->pad[1];
                if (y >= in->dims[1] || x >= in->dims[2])
                    continue;
                for (uint32_t d = 0; d < deep; ++d) {
                    const int32_t value =
                        (int32_t)load(in, place(in, b, y, x, first + d)) - v->map.from.zero;
                    total += (int64_t)value *
                             ((int32_t)load(k, place(k, c, i, j, d)) - v->zeros[c]);
                }
            }
        store_real(&v->map, place(&v->map.output, b, h, w, c), (double)total * v->gains[c]);
    }
}

int nf_aton_run(const nf_aton_program *program, const nf_aton_port *port, nf_aton_hook hook,
                void *context)
{
    for (uint32_t i = 0; i < program->step_count; ++i) {
        const nf_aton_step *step = &program->steps[i];
        const nf_aton_cache *range = step->caches;
        for (uint32_t n = 0; n < step->before; ++n)
            port->cache(port->context, range++);
        if (step->run)
            step->run(step->work);
        else {
            const int status = port->npu(port->context, program, step->number);
            if (status != 0)
                return status;
        }
        for (uint32_t n = 0; n < step->after; ++n)
            port->cache(port->context, range++);
        if (hook)
            hook(context, i);
    }
    return 0;
}
