/* Camera and terminal of the small application. */
#include <stdio.h>
#include "app.h"

void capture(uint8_t *frame)
{
  for (uint32_t i = 0; i < FRAME_BYTES; i++) {
    frame[i] = (uint8_t)SPI5->RXDR;
  }
}

void show_result(const int8_t *scores, uint32_t bytes)
{
  uint32_t best = 0;
  for (uint32_t i = 1; i < bytes; i++) {
    if (scores[i] > scores[best]) {
      best = i;
    }
  }
  printf("class %lu\r\n", (unsigned long)best);
}
