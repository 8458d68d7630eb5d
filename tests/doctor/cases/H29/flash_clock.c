/* XSPI2 */
void flash_clock(void)
{
  RCC_PeriphCLKInitTypeDef clock = {0};
  clock.Xspi2ClockSelection = RCC_XSPI2CLKSOURCE_IC3;
  HAL_RCCEx_PeriphCLKConfig(&clock);
}
