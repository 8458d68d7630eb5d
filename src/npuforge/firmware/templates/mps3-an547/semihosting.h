/* Semihosting: text, files and the exit code through the debugger or emulator. */
#ifndef SEMIHOSTING_H
#define SEMIHOSTING_H

#include <stddef.h>
#include <stdint.h>

void sh_write_text(const char *text);
void sh_write_hex(uint32_t value);
void sh_write_dec(int32_t value);
/* Open a file of the host; binary. Returns a handle, or -1. */
int32_t sh_open_read(const char *name);
int32_t sh_open_write(const char *name);
/* Whole blocks only: 0 when all bytes went through, else -1. */
int sh_read(int32_t handle, void *data, uint32_t bytes);
int sh_write(int32_t handle, const void *data, uint32_t bytes);
void sh_close(int32_t handle);
_Noreturn void sh_exit(int code);

#endif
