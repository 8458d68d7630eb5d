"""The cost room: the work of each step. It annotates; it places nothing."""

from npuforge.cost.work import Cost, StepWork, count_work

__all__ = ["Cost", "StepWork", "count_work"]
