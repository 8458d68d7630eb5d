#include <math.h>
/* network features */
void log_mel(_Float16 *out, const float *energy, int n)
{
  for (int i = 0; i < n; i++) {
    out[i] = (_Float16)logf((float)(_Float16)fmaxf(energy[i], 1e-38f));
  }
}
