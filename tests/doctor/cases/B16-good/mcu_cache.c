#include "mcu_cache.h"

int mcu_cache_clean_range(uint32_t start, uint32_t end)
{
  SCB_CleanDCache_by_Addr((volatile void *)start, (int32_t)(end - start));
  for (uint32_t at = start; at < end; at += 32) {
    __DSB();
  }
  return 0;
}
