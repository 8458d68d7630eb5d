/* One header declares the kernel on the virtual board. */
#include "FreeRTOS.h"
