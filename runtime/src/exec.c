#include "nf/nf.h"

int nf_exec(const nf_program *program, uint8_t *const *spaces, uint32_t first, uint32_t count,
            nf_hook hook, void *context)
{
    if (first > program->step_count || count > program->step_count - first)
        return -1;
    for (uint32_t s = first; s < first + count; ++s)
        if (program->steps[s].operand_count > NF_MAX_OPERANDS)
            return -1;

    nf_view views[NF_MAX_OPERANDS];
    for (uint32_t s = first; s < first + count; ++s) {
        const nf_step *step = &program->steps[s];
        for (uint32_t i = 0; i < step->operand_count; ++i) {
            const nf_operand *operand = &step->operands[i];
            views[i].data = spaces[operand->space] + operand->offset;
            views[i].shape = operand->shape;
        }
        step->run(views, step->params);
        if (hook)
            hook(context, s);
    }
    return 0;
}
