"""Neural-ART programs: text form and program model."""

from npuforge.aton.program import Epoch, Route, Unit, epochs_of
from npuforge.aton.text import assemble, disassemble

__all__ = ["Epoch", "Route", "Unit", "assemble", "disassemble", "epochs_of"]
