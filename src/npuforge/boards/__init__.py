"""The boards room: run something somewhere - host, emulator, serial."""

from npuforge.boards.host import HostBoard, RunResult, placed_steps

__all__ = ["HostBoard", "RunResult", "placed_steps"]
