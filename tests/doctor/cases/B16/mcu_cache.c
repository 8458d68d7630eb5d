#include "mcu_cache.h"

int mcu_cache_clean_range(uint32_t start, uint32_t end)
{
#ifdef USE_CPU_CACHE_OPS
  SCB_CleanDCache_by_Addr((volatile void *)start, (int32_t)(end - start));
#endif
  for (uint32_t at = start; at < end; at += 32) {
    __DSB();
  }
  return 0;
}
