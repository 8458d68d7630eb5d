/* One header declares the interface on the virtual board. */
#include "ll_aton_runtime.h"
#include "stai.h"
