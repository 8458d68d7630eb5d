#include "tx_api.h"
#include "stm32n6xx_hal.h"
#include "observer.hpp"

static TX_THREAD watcher;
static UCHAR watcher_stack[16384];
static Observer observer;
alignas(32) static uint8_t snapshot[9216];

static void watch(ULONG)
{
  if (!observer.begin()) {
    return;
  }
  while (true) {
    camera_wait(snapshot);
    const int winner = observer.look(snapshot, sizeof snapshot);
    if (winner >= 0) {
      feeder_open(winner);
    }
    tx_thread_sleep(2);
  }
}

extern "C" void tx_application_define(void *)
{
  tx_thread_create(&watcher, (CHAR *)"watcher", watch, 0, watcher_stack, sizeof watcher_stack, 8, 8,
                   TX_NO_TIME_SLICE, TX_AUTO_START);
}

extern "C" void HAL_TIM_PeriodElapsedCallback(TIM_HandleTypeDef *)
{
  HAL_IncTick();
}
