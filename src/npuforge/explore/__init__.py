"""The explore room: propose choices, run the stages, rank."""
