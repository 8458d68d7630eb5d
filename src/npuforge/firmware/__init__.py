"""The firmware room: the C project of a deployment."""

from npuforge.firmware.names import identifier
from npuforge.firmware.network import Network, capture_order
from npuforge.firmware.project import KnownAnswer, project_files, runtime_folder

__all__ = [
    "KnownAnswer",
    "Network",
    "capture_order",
    "identifier",
    "project_files",
    "runtime_folder",
]
