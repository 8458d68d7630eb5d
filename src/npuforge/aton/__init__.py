"""Neural-ART programs: text form, program model, simulator."""

from npuforge.aton.program import Epoch, Route, Unit, epochs_of
from npuforge.aton.simulate import run_epoch
from npuforge.aton.streams import Memory
from npuforge.aton.text import assemble, disassemble

__all__ = [
    "Epoch",
    "Memory",
    "Route",
    "Unit",
    "assemble",
    "disassemble",
    "epochs_of",
    "run_epoch",
]
