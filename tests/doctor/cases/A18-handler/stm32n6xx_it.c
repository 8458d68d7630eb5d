/* Interrupt handlers of the application. */
#include "app.h"

void HardFault_Handler(void)
{
  while (1)
  {
  }
}
