/* network outputs */
void sort_outputs(void)
{
  for (int i = 0; i < 2; i++) {
    if (out_info[i].size == 4800) {
      boxes = out_buffers[i];
    } else {
      scores = out_buffers[i];
    }
  }
}
