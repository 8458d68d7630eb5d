"""The memory room: addresses, pools and the files that follow from them."""

from npuforge.memory.plan import BufferPlace, Plan, Region, plan_memory
from npuforge.memory.verify import verify_plan

__all__ = ["BufferPlace", "Plan", "Region", "plan_memory", "verify_plan"]
