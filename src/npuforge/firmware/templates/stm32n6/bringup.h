/* Bring-up of the STM32N6 in stages. The order is that of board_stages; what each needs of those before
 * it stands beside its function in bringup.c. */
#ifndef BRINGUP_H
#define BRINGUP_H

#include "nf/status.h"

#include <stdint.h>

typedef struct board_stage {
    const char *name; /* of its line in the staged log */
    nf_status (*run)(void);
} board_stage;

extern const board_stage board_stages[];
extern const uint32_t board_stage_count;

/* Called after a stage that went well; the default does nothing. Define it to add what belongs to a
 * vendor's HAL (its tick, its handles) or to the board (a camera's power). */
void board_hook(const char *stage);

/* Called for external RAM that the memory plan uses. The default says NF_E_UNPOWERED: define it to
 * map the PSRAM at 0x90000000, for example with the board support package. */
nf_status board_map_psram(void);

/* The flash in octal double-rate mode, mapped at 0x70000000. In flash.c. */
nf_status board_map_flash(void);

/* MHz of the flash's clock after board_map_flash: 200, or 50 where the fuses for fast I/O are not
 * programmed (they never are from here: that cannot be undone). */
extern uint32_t board_flash_mhz;

/* Caches and memory protection. In cache.c. */
nf_status board_caches_on(void);
void board_clean(uintptr_t address, uintptr_t bytes);
void board_invalidate(uintptr_t address, uintptr_t bytes);

/* Prepare the console; board_text writes nothing before. */
nf_status board_console_on(void);

#endif
