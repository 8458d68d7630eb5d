/* NPU_ application */
void HAL_UART_MspInit(UART_HandleTypeDef *huart)
{
  __HAL_RCC_USART1_CLK_ENABLE();
}
