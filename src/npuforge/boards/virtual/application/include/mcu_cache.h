/* Data cache by ranges (start, end), as applications call it. */
#ifndef NPUFORGE_MCU_CACHE_H
#define NPUFORGE_MCU_CACHE_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

int mcu_cache_enabled(void);
int mcu_cache_enable(void);
int mcu_cache_disable(void);
int mcu_cache_invalidate(void);
int mcu_cache_clean(void);
int mcu_cache_clean_invalidate(void);
int mcu_cache_invalidate_range(uint32_t start, uint32_t end);
int mcu_cache_clean_range(uint32_t start, uint32_t end);
int mcu_cache_clean_invalidate_range(uint32_t start, uint32_t end);

#ifdef __cplusplus
}
#endif
#endif
