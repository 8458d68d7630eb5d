"""Names of the functions that matter, as patterns over whole names."""

from __future__ import annotations

import re

RUNTIME_INIT = re.compile(r"LL_ATON_RT_RuntimeInit|stai_runtime_init|LL_ATON_RT_Main")
RUNTIME_DEINIT = re.compile(r"LL_ATON_RT_RuntimeDeInit|stai_runtime_deinit")
NETWORK_INIT = re.compile(r"LL_ATON_RT_Init_Network|stai_(?!runtime|ext)\w+_init")
RUN_EPOCH = re.compile(r"LL_ATON_RT_RunEpochBlock")
MAIN_RUN = re.compile(r"LL_ATON_RT_Main")
RUN = re.compile(r"LL_ATON_RT_RunEpochBlock|LL_ATON_RT_Main|stai_(?!runtime|ext)\w*_run")
RESET = re.compile(
    r"LL_ATON_RT_(?:Reset|Init|DeInit)_Network|LL_ATON_RT_Main|stai_ext_\w*new_inference|"
    r"stai_\w+_new_inference|stai_(?!runtime|ext)\w+_init"
)
SET_USER = re.compile(
    r"LL_ATON_Set_User_(Input|Output)_Buffer\w*|stai_(?!runtime)\w+_set_(inputs|outputs)"
)
ENABLE_IRQ = re.compile(r"(?:HAL_)?NVIC_EnableIRQ|__NVIC_EnableIRQ")
SET_PRIORITY = re.compile(r"(?:HAL_)?NVIC_SetPriority|__NVIC_SetPriority")
NPU_IRQ = re.compile(r"\bNPU(?:_END_OF_EPOCH|_?INT)?\d?_IRQn\b|\bCDNN\d_IRQn\b")
KERNEL = {
    "FREERTOS": re.compile(r"vTaskStartScheduler|osKernelStart"),
    "THREADX": re.compile(r"tx_kernel_enter|MX_ThreadX_Init"),
    "ZEPHYR": re.compile(r"k_thread_create|k_sem_take"),
}
TASK_CREATE = re.compile(
    r"xTaskCreate(?:Static)?|osThreadNew|osThreadCreate|tx_thread_create|k_thread_create"
)
