/* Stage lines with further numbers. */
#ifndef NF_STAGE_H
#define NF_STAGE_H

#include "nf/port.h"

typedef struct nf_field {
    const char *name;
    uint64_t value;
} nf_field;

void nf_stage_fields(const nf_port *port, const char *name, nf_status status,
                     const nf_field *fields, uint32_t count);

#endif
