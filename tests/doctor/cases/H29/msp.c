/* XSPI2 */
void HAL_XSPI_MspInit(XSPI_HandleTypeDef *hxspi)
{
  RCC_PeriphCLKInitTypeDef PeriphClkInit = {0};
  PeriphClkInit.Xspi2ClockSelection = RCC_XSPI2CLKSOURCE_HCLK;
  HAL_RCCEx_PeriphCLKConfig(&PeriphClkInit);
}
