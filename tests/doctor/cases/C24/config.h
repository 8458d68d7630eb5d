#define NN_WIDTH 256
#define NN_HEIGHT 192
