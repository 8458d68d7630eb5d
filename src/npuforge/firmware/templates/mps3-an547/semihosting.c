/* Arm semihosting, M-profile: operation in r0, argument block in r1, breakpoint 0xAB. */
#include "semihosting.h"

#include <string.h>

enum { SYS_OPEN = 0x01, SYS_CLOSE = 0x02, SYS_WRITE0 = 0x04, SYS_WRITE = 0x05, SYS_READ = 0x06,
       SYS_EXIT_EXTENDED = 0x20 };
enum { MODE_READ_BINARY = 1, MODE_WRITE_BINARY = 5 };
enum { ADP_STOPPED_APPLICATION_EXIT = 0x20026 };

static int32_t call(uint32_t operation, const void *argument)
{
    register uint32_t r0 __asm("r0") = operation;
    register const void *r1 __asm("r1") = argument;
    __asm volatile("bkpt 0xab" : "+r"(r0) : "r"(r1) : "memory");
    return (int32_t)r0;
}

void sh_write_text(const char *text)
{
    call(SYS_WRITE0, text);
}

void sh_write_hex(uint32_t value)
{
    char text[11] = "0x";
    for (int i = 0; i < 8; ++i)
        text[2 + i] = "0123456789abcdef"[(value >> (28 - 4 * i)) & 15u];
    text[10] = 0;
    sh_write_text(text);
}

void sh_write_dec(int32_t value)
{
    char text[12];
    char *p = text + sizeof text - 1;
    uint32_t rest = value < 0 ? 0u - (uint32_t)value : (uint32_t)value;
    *p = 0;
    do {
        *--p = (char)('0' + rest % 10u);
        rest /= 10u;
    } while (rest);
    if (value < 0)
        *--p = '-';
    sh_write_text(p);
}

static int32_t open_file(const char *name, uint32_t mode)
{
    const uint32_t block[3] = {(uint32_t)(uintptr_t)name, mode, (uint32_t)strlen(name)};
    return call(SYS_OPEN, block);
}

int32_t sh_open_read(const char *name)
{
    return open_file(name, MODE_READ_BINARY);
}

int32_t sh_open_write(const char *name)
{
    return open_file(name, MODE_WRITE_BINARY);
}

int sh_read(int32_t handle, void *data, uint32_t bytes)
{
    const uint32_t block[3] = {(uint32_t)handle, (uint32_t)(uintptr_t)data, bytes};
    return call(SYS_READ, block) == 0 ? 0 : -1;
}

int sh_write(int32_t handle, const void *data, uint32_t bytes)
{
    const uint32_t block[3] = {(uint32_t)handle, (uint32_t)(uintptr_t)data, bytes};
    return call(SYS_WRITE, block) == 0 ? 0 : -1;
}

void sh_close(int32_t handle)
{
    const uint32_t block[1] = {(uint32_t)handle};
    call(SYS_CLOSE, block);
}

void sh_exit(int code)
{
    const uint32_t block[2] = {ADP_STOPPED_APPLICATION_EXIT, (uint32_t)code};
    call(SYS_EXIT_EXTENDED, block);
    for (;;) {
    }
}
