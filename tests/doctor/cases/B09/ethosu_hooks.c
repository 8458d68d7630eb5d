#include <stdint.h>
#include <stddef.h>

void ethosu_invalidate_dcache(uint32_t *p, size_t bytes)
{
  if (p == NULL) {
    SCB_InvalidateDCache();
  } else {
    SCB_InvalidateDCache_by_Addr(p, bytes);
  }
}
