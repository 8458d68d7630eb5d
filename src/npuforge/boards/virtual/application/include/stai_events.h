/* One header declares the interface on the virtual board. */
#include "stai.h"
