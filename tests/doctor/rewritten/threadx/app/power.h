#pragma once
#ifdef __cplusplus
extern "C" {
#endif
void clocks_to_nominal(void);
void power_up_npu(void);
void power_up_banks(void);
void open_windows(void);
void map_the_flash(void);
void keep_awake(void);
void cpu_caches_on(void);
#ifdef __cplusplus
}
#endif
