#include "observer.hpp"
#include <cstring>
extern "C" {
#include "ll_aton_runtime.h"
#include "stm32n6xx_hal.h"
}

LL_ATON_DECLARE_NAMED_NN_INSTANCE_AND_INTERFACE(birds)

bool Observer::begin()
{
  LL_ATON_RT_RuntimeInit();
  LL_ATON_RT_Init_Network(&NN_Instance_birds);
  const LL_Buffer_InfoTypeDef *inputs = LL_ATON_Input_Buffers_Info(&NN_Instance_birds);
  const LL_Buffer_InfoTypeDef *outputs = LL_ATON_Output_Buffers_Info(&NN_Instance_birds);
  in_ = LL_Buffer_addr_start(&inputs[0]);
  in_size_ = LL_Buffer_len(&inputs[0]);
  out_ = reinterpret_cast<int8_t *>(LL_Buffer_addr_start(&outputs[0]));
  out_size_ = LL_Buffer_len(&outputs[0]);
  return in_ != nullptr && out_ != nullptr;
}

void Observer::work()
{
  LL_ATON_RT_RetValues_t state;
  do {
    state = LL_ATON_RT_RunEpochBlock(&NN_Instance_birds);
    if (state == LL_ATON_RT_WFE) {
      LL_ATON_OSAL_WFE();
    }
  } while (state != LL_ATON_RT_DONE);
  LL_ATON_RT_Reset_Network(&NN_Instance_birds);
}

int Observer::look(const uint8_t *frame, unsigned size)
{
  if (size != in_size_) {
    return -1;
  }
  std::memcpy(in_, frame, size);
  SCB_CleanDCache_by_Addr(in_, in_size_);
  work();
  SCB_InvalidateDCache_by_Addr(out_, out_size_);
  unsigned best = 0;
  for (unsigned i = 1; i < out_size_; ++i) {
    if (out_[i] > out_[best]) {
      best = i;
    }
  }
  return out_[best] > 40 ? static_cast<int>(best) : -1;
}
