/* One header declares the interface on the virtual board. */
#include "stm32n6xx_hal.h"
