"""Neural-ART, the NPU of STM32N6."""
