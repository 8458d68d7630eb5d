/* What Zephyr gives to the application and the runtime. */
#ifndef BOARD_H
#define BOARD_H

#include "nf/runtime.h"

/* Zephyr's clock, cache and console, and a thread that runs the networks. */
extern const nf_port nf_board_port;

/* Prepare the pool table. Before nf_init. */
void board_init(void);

/* Port, memories, networks, and the stack of the calling thread as a place for no buffer. */
void board_config(nf_config *config);

/* Text to Zephyr's console. */
void board_text(const char *text);

/* The end of the program: the calling thread sleeps for ever. */
_Noreturn void board_exit(int code);

#endif
