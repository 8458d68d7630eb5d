/* NPU_ board */
void SystemClock_Config(void)
{
  RCC_OscInitTypeDef osc = {0};
  osc.PLL1.PLLState = RCC_PLL_ON;
  osc.PLL1.PLLM = 2;
  osc.PLL1.PLLN = 25;
  osc.PLL1.PLLP1 = 1;
  osc.PLL1.PLLP2 = 1;
  HAL_RCC_OscConfig(&osc);
}
