/* SSD post-processing: decode boxes against anchors, keep the best, suppress overlaps. */
#include "nf/kernels.h"
#include "view.h"

#include <math.h>

typedef struct box {
    float ymin, xmin, ymax, xmax;
} box;

/* The scratch memory holds a decoded box, a score, an index and a flag for each anchor. */
typedef struct work {
    box *boxes;
    float *scores;
    int32_t *order;
    int32_t *kept;
    int32_t *classes;
    float *all_scores;
    int32_t *all_boxes;
} work;

static void decode(const nf_view *v, const nf_params_detection_postprocess *p, box *boxes)
{
    const float *codes = (const float *)(const void *)v[0].data;
    const float *anchors = (const float *)(const void *)v[2].data;
    for (int32_t i = 0; i < p->boxes; ++i) {
        const float *code = codes + (ptrdiff_t)i * p->box_width;
        const float *anchor = anchors + (ptrdiff_t)i * p->anchor_width;
        const float y = code[0] / p->scale_y * anchor[2] + anchor[0];
        const float x = code[1] / p->scale_x * anchor[3] + anchor[1];
        const float half_h = 0.5f * expf(code[2] / p->scale_h) * anchor[2];
        const float half_w = 0.5f * expf(code[3] / p->scale_w) * anchor[3];
        boxes[i].ymin = y - half_h;
        boxes[i].xmin = x - half_w;
        boxes[i].ymax = y + half_h;
        boxes[i].xmax = x + half_w;
    }
}

static float overlap(const box *a, const box *b)
{
    const float area_a = (a->ymax - a->ymin) * (a->xmax - a->xmin);
    const float area_b = (b->ymax - b->ymin) * (b->xmax - b->xmin);
    if (area_a <= 0.0f || area_b <= 0.0f)
        return 0.0f;
    const float top = a->ymin > b->ymin ? a->ymin : b->ymin;
    const float left = a->xmin > b->xmin ? a->xmin : b->xmin;
    const float bottom = a->ymax < b->ymax ? a->ymax : b->ymax;
    const float right = a->xmax < b->xmax ? a->xmax : b->xmax;
    const float height = bottom > top ? bottom - top : 0.0f;
    const float width = right > left ? right - left : 0.0f;
    const float shared = height * width;
    return shared / (area_a + area_b - shared);
}

/* Indices of the scores above the threshold, best first, equal ones in order of their index. */
static int32_t ranked(const float *scores, int32_t count, float threshold, int32_t *order)
{
    int32_t found = 0;
    for (int32_t i = 0; i < count; ++i) {
        if (!(scores[i] >= threshold))
            continue;
        int32_t at = found++;
        while (at > 0 && scores[order[at - 1]] < scores[i]) {
            order[at] = order[at - 1];
            --at;
        }
        order[at] = i;
    }
    return found;
}

/* Non-maximum suppression: the kept indices, best first. */
static int32_t suppress(const work *w, const float *scores, int32_t count, int32_t limit,
                        const nf_params_detection_postprocess *p, int32_t *kept)
{
    const int32_t candidates = ranked(scores, count, p->score_threshold, w->order);
    int32_t found = 0;
    for (int32_t i = 0; i < candidates && found < limit; ++i) {
        const int32_t index = w->order[i];
        int drop = 0;
        for (int32_t k = 0; k < found && !drop; ++k)
            drop = overlap(&w->boxes[kept[k]], &w->boxes[index]) > p->iou_threshold;
        if (!drop)
            kept[found++] = index;
    }
    return found;
}

static void write_detection(const nf_view *v, const work *w, int32_t slot, int32_t index,
                            float class_number, float score)
{
    float *box_out = (float *)(void *)v[3].data + (ptrdiff_t)slot * 4;
    const box b = index < 0 ? (box){0.0f, 0.0f, 0.0f, 0.0f} : w->boxes[index];
    box_out[0] = b.ymin;
    box_out[1] = b.xmin;
    box_out[2] = b.ymax;
    box_out[3] = b.xmax;
    ((float *)(void *)v[4].data)[slot] = class_number;
    ((float *)(void *)v[5].data)[slot] = score;
}

/* Fast mode: suppress on each box's best score, then report its best classes. Returns the boxes. */
static int32_t fast(const nf_view *v, const nf_params_detection_postprocess *p, const work *w)
{
    const float *scores = (const float *)(const void *)v[1].data;
    const int32_t background = p->scores - p->classes;
    for (int32_t i = 0; i < p->boxes; ++i) {
        const float *row = scores + (ptrdiff_t)i * p->scores + background;
        w->scores[i] = row[0];
        for (int32_t c = 1; c < p->classes; ++c)
            w->scores[i] = row[c] > w->scores[i] ? row[c] : w->scores[i];
    }
    const int32_t found = suppress(w, w->scores, p->boxes, p->max_detections, p, w->kept);
    int32_t slot = 0;
    for (int32_t i = 0; i < found; ++i) {
        const float *row = scores + (ptrdiff_t)w->kept[i] * p->scores + background;
        const int32_t classes = ranked(row, p->classes, -INFINITY, w->classes);
        for (int32_t c = 0; c < p->max_classes_per_detection && c < classes; ++c, ++slot)
            write_detection(v, w, slot, w->kept[i], (float)w->classes[c], row[w->classes[c]]);
    }
    return found;
}

/* Regular mode: suppress class by class, then keep the best of all. */
static int32_t regular(const nf_view *v, const nf_params_detection_postprocess *p, const work *w)
{
    const float *scores = (const float *)(const void *)v[1].data;
    const int32_t background = p->scores - p->classes;
    int32_t total = 0;
    for (int32_t c = 0; c < p->classes; ++c) {
        for (int32_t i = 0; i < p->boxes; ++i)
            w->scores[i] = scores[(ptrdiff_t)i * p->scores + c + background];
        const int32_t found =
            suppress(w, w->scores, p->boxes, p->detections_per_class, p, w->kept);
        /* merge into the best so far, which stay sorted; equal scores keep their order */
        for (int32_t i = 0; i < found; ++i) {
            const float score = w->scores[w->kept[i]];
            int32_t at = total < p->max_detections ? total++ : total;
            if (at == p->max_detections && !(w->all_scores[at - 1] < score))
                continue;
            at = at == p->max_detections ? at - 1 : at;
            while (at > 0 && w->all_scores[at - 1] < score) {
                w->all_scores[at] = w->all_scores[at - 1];
                w->all_boxes[at] = w->all_boxes[at - 1];
                w->classes[at] = w->classes[at - 1];
                --at;
            }
            w->all_scores[at] = score;
            w->all_boxes[at] = w->kept[i];
            w->classes[at] = c;
        }
    }
    for (int32_t i = 0; i < total; ++i)
        write_detection(v, w, i, w->all_boxes[i], (float)w->classes[i], w->all_scores[i]);
    return total;
}

void nf_detection_postprocess(const nf_view *v, const void *params)
{
    const nf_params_detection_postprocess *p = params;
    const int32_t rows = p->boxes > p->max_detections ? p->boxes : p->max_detections;
    const int32_t classes = rows > p->classes ? rows : p->classes;
    work w;
    uint8_t *at = v[7].data;
    w.boxes = (box *)(void *)at;
    at += (size_t)rows * sizeof(box);
    w.scores = (float *)(void *)at;
    at += (size_t)rows * sizeof(float);
    w.order = (int32_t *)(void *)at;
    at += (size_t)rows * sizeof(int32_t);
    w.kept = (int32_t *)(void *)at;
    at += (size_t)rows * sizeof(int32_t);
    w.classes = (int32_t *)(void *)at;
    at += (size_t)classes * sizeof(int32_t);
    w.all_scores = (float *)(void *)at;
    at += (size_t)rows * sizeof(float);
    w.all_boxes = (int32_t *)(void *)at;

    decode(v, p, w.boxes);
    const int32_t found = p->regular ? regular(v, p, &w) : fast(v, p, &w);
    const int32_t slots = p->max_detections * p->max_classes_per_detection;
    const int32_t each = p->regular                                   ? 1
                         : p->max_classes_per_detection < p->classes ? p->max_classes_per_detection
                                                                     : p->classes;
    for (int32_t i = found * each; i < slots; ++i)
        write_detection(v, &w, i, -1, 0.0f, 0.0f);
    ((float *)(void *)v[6].data)[0] = (float)found;
}
