#include "app.h"

void preprocess(const uint8_t *frame, int8_t *features)
{
  for (int i = 0; i < FRAME_BYTES; i++) {
    features[i] = (int8_t)(frame[i] - 128);
  }
}
