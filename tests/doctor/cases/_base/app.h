#ifndef APP_H
#define APP_H
#include <stdint.h>
#define FRAME_BYTES (64 * 48 * 3)
void capture(uint8_t *frame);
void show_result(const int8_t *scores, uint32_t bytes);
#endif
