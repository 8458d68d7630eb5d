/* The second version of the interface. */
#include "cmsis_os2.h"
