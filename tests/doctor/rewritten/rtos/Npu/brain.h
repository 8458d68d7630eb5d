#ifndef BRAIN_H
#define BRAIN_H
#include <stdint.h>
int brain_wake(void);
uint8_t *brain_eye(uint32_t *room);
const int8_t *brain_think(uint32_t *many);
#endif
