#pragma once
#include <cstdint>

class Observer {
public:
  bool begin();
  int look(const uint8_t *frame, unsigned size);

private:
  void work();
  uint8_t *in_ = nullptr;
  int8_t *out_ = nullptr;
  uint32_t in_size_ = 0;
  uint32_t out_size_ = 0;
};
