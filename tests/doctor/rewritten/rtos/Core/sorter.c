/* Looks at what the belt brings and says where it goes. */
#include "FreeRTOS.h"
#include "task.h"
#include "board_support.h"
#include "brain.h"

#define PICTURE (48 * 64 * 3)
static uint8_t picture[PICTURE] __attribute__((aligned(32)));

void Sorter_Task(void *argument)
{
  uint32_t room, many;
  (void)argument;
  if (brain_wake() != 0) {
    vTaskDelete(NULL);
  }
  for (;;) {
    int i, best = 0;
    const int8_t *said;
    uint8_t *eye = brain_eye(&room);
    belt_picture(picture, sizeof(picture));
    for (i = 0; i < PICTURE; i++) {
      eye[i] = (uint8_t)(picture[i] ^ 0x80u);
    }
    said = brain_think(&many);
    if (said == NULL) {
      continue;
    }
    for (i = 1; i < (int)many; i++) {
      if (said[i] > said[best]) {
        best = i;
      }
    }
    belt_gate(best);
  }
}
