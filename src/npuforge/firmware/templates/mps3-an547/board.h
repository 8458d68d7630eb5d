/* What a board gives to the application. */
#ifndef BOARD_H
#define BOARD_H

#include "nf/port.h"

extern const nf_port nf_board_port;

/* Bring the board up. Before nf_init. */
void board_init(void);

/* Processor clocks since board_init. */
uint64_t board_ticks(void);

#endif
