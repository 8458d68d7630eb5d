/* Read before every file of an application: its main is called by the board, and the memory
 * functions of the C library are watched as its own loads and stores are. */
#define main npuforge_application_main
#include <stddef.h>
void *malloc(size_t) __asm__("npuforge_malloc");
void *calloc(size_t, size_t) __asm__("npuforge_calloc");
void *realloc(void *, size_t) __asm__("npuforge_realloc");
void free(void *) __asm__("npuforge_free");
void *aligned_alloc(size_t, size_t) __asm__("npuforge_aligned_alloc");
void *memalign(size_t, size_t) __asm__("npuforge_aligned_alloc");
void *memcpy(void *, const void *, size_t) __asm__("npuforge_memcpy");
void *memmove(void *, const void *, size_t) __asm__("npuforge_memmove");
void *memset(void *, int, size_t) __asm__("npuforge_memset");
int memcmp(const void *, const void *, size_t) __asm__("npuforge_memcmp");
void exit(int) __asm__("npuforge_exit") __attribute__((noreturn));
void abort(void) __asm__("npuforge_abort") __attribute__((noreturn));
