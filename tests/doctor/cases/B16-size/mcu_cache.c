#include "mcu_cache.h"

int mcu_cache_clean_range(uint32_t addr, uint32_t size)
{
  SCB_CleanDCache_by_Addr((volatile void *)addr, (int32_t)size);
  return 0;
}
