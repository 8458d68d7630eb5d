/* What a board gives to the application. */
#ifndef BOARD_H
#define BOARD_H

#include "nf/port.h"

#include "bringup.h"

extern const nf_port nf_board_port;

/* Bring the board up: every stage of bringup.h. Before nf_init. A stage that fails is in the log and in
 * board_result; those after it are not run. */
void board_init(void);

/* NF_OK, or the status of the stage that failed. */
extern nf_status board_result;

/* Processor clocks since board_init. */
uint64_t board_ticks(void);

/* Text to the console: USART1, which both boards' ST-LINK shows as a serial port; 115200 8N1. */
void board_text(const char *text);

/* The end of the program: its code goes to the console, the processor sleeps. */
_Noreturn void board_exit(int code);

#endif
