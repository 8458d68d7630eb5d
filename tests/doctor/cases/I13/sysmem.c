#include <stdint.h>

extern uint8_t _end;
static uint8_t *heap;

void *_sbrk(int increment)
{
  uint8_t *before;
  if (heap == 0) {
    heap = &_end;
  }
  before = heap;
  heap += increment;
  return before;
}
