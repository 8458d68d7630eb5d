/* The NPU's own cache (CACHEAXI) as applications call it. */
#ifndef NPUFORGE_NPU_CACHE_H
#define NPUFORGE_NPU_CACHE_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

void npu_cache_init(void);
void npu_cache_enable(void);
void npu_cache_disable(void);
void npu_cache_invalidate(void);
void npu_cache_clean_range(uint32_t start, uint32_t end);
void npu_cache_clean_invalidate_range(uint32_t start, uint32_t end);

#ifdef __cplusplus
}
#endif
#endif
