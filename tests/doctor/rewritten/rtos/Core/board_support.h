#ifndef BOARD_SUPPORT_H
#define BOARD_SUPPORT_H
void Board_Clocks(void);
void Board_Memories(void);
void Board_Firewall(void);
void Board_ExternalFlash(void);
void Board_CpuCaches(void);
void Sorter_Task(void *argument);
#endif
