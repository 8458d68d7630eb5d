/* Caches of the Cortex-M55 and the memory protection that says what they may hold. */
#include "board_config.h"
#include "bringup.h"
#include "nf_mpu.h"
#include "reg.h"
#include "stm32n6_regs.h"

#define LINE 32u

static void maintain(uint32_t operation, uintptr_t address, uintptr_t bytes)
{
    const uintptr_t end = address + bytes;
    reg_barrier();
    for (uintptr_t line = address & ~(uintptr_t)(LINE - 1u); line < end; line += LINE)
        reg_write(operation, (uint32_t)line);
    reg_barrier();
}

void board_clean(uintptr_t address, uintptr_t bytes)
{
    maintain(N6_SCB_DCCMVAC, address, bytes);
}

void board_invalidate(uintptr_t address, uintptr_t bytes)
{
    maintain(N6_SCB_DCIMVAC, address, bytes);
}

static void invalidate_all(void)
{
    reg_write(N6_SCB_CSSELR, 0u); /* level 1, data */
    reg_barrier();
    const uint32_t size = reg_read(N6_SCB_CCSIDR);
    const uint32_t sets = ((size >> 13) & 0x7FFFu) + 1u;
    const uint32_t ways = ((size >> 3) & 0x3FFu) + 1u;
    for (uint32_t set = 0u; set < sets; ++set)
        for (uint32_t way = 0u; way < ways; ++way)
            reg_write(N6_SCB_DCISW, set << 5 | way << 30);
}

/* Memory protection first, for it says what may be cached. The boot ROM leaves the caches' power off:
 * without the two bits of MSCR they look enabled and are not. */
nf_status board_caches_on(void)
{
    if (nf_mpu_init() != 0)
        return NF_E_NO_ROOM;
    reg_set(N6_MEMSYSCTL_MSCR, N6_MSCR_ICACTIVE | N6_MSCR_DCACTIVE);
    reg_barrier();
    if ((reg_read(N6_SCB_CCR) & N6_SCB_CCR_IC) == 0u) {
        reg_write(N6_SCB_ICIALLU, 0u);
        reg_barrier();
        reg_set(N6_SCB_CCR, N6_SCB_CCR_IC);
    }
    if ((reg_read(N6_SCB_CCR) & N6_SCB_CCR_DC) == 0u) {
        invalidate_all();
        reg_barrier();
        reg_set(N6_SCB_CCR, N6_SCB_CCR_DC);
    }
    reg_barrier();
    return NF_OK;
}
