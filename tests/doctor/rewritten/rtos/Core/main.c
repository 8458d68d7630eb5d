/* Firmware of a sorting line: everything starts here, the work is done by tasks. */
#include "stm32n6xx.h"
#include "FreeRTOS.h"
#include "task.h"
#include "board_support.h"

int main(void)
{
  HAL_Init();
  Board_Clocks();
  Board_Memories();
  Board_Firewall();
  Board_ExternalFlash();
  Board_CpuCaches();
  (void)xTaskCreate(Sorter_Task, "sorter", 4096, NULL, 6, NULL);
  vTaskStartScheduler();
  for (;;) {
  }
}
