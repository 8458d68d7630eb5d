/* network post-processing */
int keep(const float *conf, int n, float thr)
{
  int kept = 0;
  for (int i = 0; i < n; i++) {
    if (conf[i] > thr) {
      kept++;
    }
  }
  return kept;
}
