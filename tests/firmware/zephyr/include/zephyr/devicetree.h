#include "devicetree_generated.h"
