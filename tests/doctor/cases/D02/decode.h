/* network constants */
#define OUT0_SCALE 0.0245098f
