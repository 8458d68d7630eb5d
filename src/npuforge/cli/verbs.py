"""The verbs of the command line and the functions behind them."""

from __future__ import annotations

from collections.abc import Callable

<<<<<<< HEAD
from npuforge.cli import analyze, aton, convert, deploy, optimize, run, targets, validate
=======
from npuforge.cli import analyze, aton, convert, deploy, doctor, run, targets, validate
>>>>>>> main

VERBS: dict[str, Callable[..., None]] = {
    "analyze": analyze.command,
    "aton": aton.command,
    "convert": convert.command,
    "deploy": deploy.command,
<<<<<<< HEAD
    "optimize": optimize.command,
=======
    "doctor": doctor.command,
>>>>>>> main
    "run": run.command,
    "validate": validate.command,
    "targets": targets.command,
}
