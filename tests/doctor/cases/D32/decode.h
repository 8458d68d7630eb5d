/* network constants */
#define SCORE_SCALE 0.0078125f
#define SCORE_ZERO_POINT 0
