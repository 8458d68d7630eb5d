/* The runtime of this project: its networks, the board's memories and port. */
#ifndef SETUP_H
#define SETUP_H

#include "nf/runtime.h"

extern nf_runtime runtime;

/* Bring up the board and the runtime. */
nf_status start(void);

#endif
