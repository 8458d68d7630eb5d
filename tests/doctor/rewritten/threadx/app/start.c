#include "stm32n6xx_hal.h"
#include "tx_api.h"
#include "power.h"

int main(void)
{
  HAL_Init();
  clocks_to_nominal();
  power_up_npu();
  power_up_banks();
  open_windows();
  map_the_flash();
  keep_awake();
  cpu_caches_on();
  tx_kernel_enter();
  return 0;
}
