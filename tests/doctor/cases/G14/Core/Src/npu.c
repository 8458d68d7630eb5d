/* NPU cache */
CACHEAXI_HandleTypeDef hcacheaxi;
void npu_cache(void)
{
  HAL_CACHEAXI_Init(&hcacheaxi);
}
