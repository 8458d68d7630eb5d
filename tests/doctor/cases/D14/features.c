/* network input */
#define STEPS 160
#define BINS 100
void fill(int8_t *input, const int8_t *mel)
{
  for (int bin = 0; bin < BINS; bin++) {
    for (int step = 0; step < STEPS; step++) {
      input[bin * STEPS + step] = mel[step];
    }
  }
}
