/* What the application does: where inputs come from and where results go. application.c is the place to
 * put a camera, a microphone or a link. */
#ifndef APPLICATION_H
#define APPLICATION_H

#include "nf/runtime.h"

/* Once, after the self test: buffers and drivers. */
nf_status application_start(nf_runtime *runtime);

/* Fill the inputs of network 0. NF_PENDING: nothing new yet; NF_E_IDLE: no more. */
nf_status application_input(nf_runtime *runtime);

/* A result of network 0, valid until the next input. */
void application_output(uint32_t index, const void *data);

#endif
