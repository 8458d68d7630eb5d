#ifndef LINES_H
#define LINES_H
/* What the CPU wrote, to memory; what another master wrote, to the CPU. */
#define LINES_GIVE(what, count)  do { SCB_CleanDCache_by_Addr((uint32_t *)(what), (int32_t)(count)); } while (0)
#define LINES_TAKE(what, count)  do { SCB_InvalidateDCache_by_Addr((uint32_t *)(what), (int32_t)(count)); } while (0)
#endif
