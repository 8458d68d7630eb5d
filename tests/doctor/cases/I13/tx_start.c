#include <stdint.h>
extern uint8_t _end;

void tx_memory_init(void)
{
  tx_byte_pool_create(&pool, "pool", &_end, 65536);
}
