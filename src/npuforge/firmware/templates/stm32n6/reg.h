/* Access to registers. With NF_REG_MODEL the accesses go to functions of a model, so that bring-up code
 * runs on a PC against a modelled chip. */
#ifndef REG_H
#define REG_H

#include <stdint.h>

#ifdef NF_REG_MODEL
uint32_t reg_read(uint32_t address);
void reg_write(uint32_t address, uint32_t value);
void reg_write8(uint32_t address, uint8_t value);
void reg_barrier(void);
#else
static inline uint32_t reg_read(uint32_t address)
{
    return *(volatile uint32_t *)address;
}

static inline void reg_write(uint32_t address, uint32_t value)
{
    *(volatile uint32_t *)address = value;
}

static inline void reg_write8(uint32_t address, uint8_t value)
{
    *(volatile uint8_t *)address = value;
}

static inline void reg_barrier(void)
{
    __asm volatile("dsb sy\n isb" ::: "memory");
}
#endif

static inline void reg_set(uint32_t address, uint32_t mask)
{
    reg_write(address, reg_read(address) | mask);
}

static inline void reg_clear(uint32_t address, uint32_t mask)
{
    reg_write(address, reg_read(address) & ~mask);
}

/* Replace the bits of a mask. */
static inline void reg_modify(uint32_t address, uint32_t mask, uint32_t value)
{
    reg_write(address, (reg_read(address) & ~mask) | (value & mask));
}

/* Wait until the bits of a mask have a value; 0 when they never do. The bound is far above what the
 * slowest wait of bring-up (a PLL, the flash) needs at the fastest clock. */
static inline int reg_wait(uint32_t address, uint32_t mask, uint32_t value)
{
    for (uint32_t i = 0u; i < 4000000u; ++i)
        if ((reg_read(address) & mask) == value)
            return 1;
    return 0;
}

#endif
