/* The network behind three functions. */
#include "brain.h"
#include "lines.h"
#include "network.h"
#include "stai.h"

STAI_NETWORK_CONTEXT_DECLARE(mind, STAI_NETWORK_CONTEXT_SIZE)
static stai_ptr eye[STAI_NETWORK_IN_NUM];
static stai_ptr word[STAI_NETWORK_OUT_NUM];

int brain_wake(void)
{
  stai_size number;
  if (stai_runtime_init() != STAI_SUCCESS) {
    return -1;
  }
  if (stai_network_init(mind) != STAI_SUCCESS) {
    return -2;
  }
  stai_network_get_inputs(mind, eye, &number);
  stai_network_get_outputs(mind, word, &number);
  return 0;
}

uint8_t *brain_eye(uint32_t *room)
{
  *room = STAI_NETWORK_IN_1_SIZE_BYTES;
  return (uint8_t *)eye[0];
}

const int8_t *brain_think(uint32_t *many)
{
  LINES_GIVE(eye[0], STAI_NETWORK_IN_1_SIZE_BYTES);
  if (stai_network_run(mind, STAI_MODE_SYNC) != STAI_SUCCESS) {
    return NULL;
  }
  stai_ext_network_new_inference(mind);
  LINES_TAKE(word[0], STAI_NETWORK_OUT_1_SIZE_BYTES);
  *many = STAI_NETWORK_OUT_1_SIZE_BYTES;
  return (const int8_t *)word[0];
}
