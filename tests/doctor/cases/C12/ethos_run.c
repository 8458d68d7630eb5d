#include "ethosu_driver.h"

int run(void *commands, uint32_t size)
{
  uint64_t base_addrs[2];
  size_t base_addrs_size[2];
  base_addrs[0] = (uint64_t)(uintptr_t)weights;
  base_addrs[1] = 0x31000000;
  return ethosu_invoke(&ethosu0, commands, size, base_addrs, base_addrs_size, 2);
}
