/* See stai.h. */
#include "stai.h"
