"""The verbs of the command line and the functions behind them."""

from __future__ import annotations

from collections.abc import Callable

from npuforge.cli import (
    analyze,
    aton,
    audit,
    calibrate,
    convert,
    cost,
    deploy,
    doctor,
    evaluate,
    explore,
    lint,
    optimize,
    plan,
    quantize,
    run,
    sensitivity,
    stress,
    targets,
    tune,
    validate,
)

VERBS: dict[str, Callable[..., None]] = {
    "analyze": analyze.command,
    "aton": aton.command,
    "audit": audit.command,
    "calibrate": calibrate.command,
    "convert": convert.command,
    "cost": cost.command,
    "deploy": deploy.command,
    "doctor": doctor.command,
    "evaluate": evaluate.command,
    "explore": explore.command,
    "lint": lint.command,
    "optimize": optimize.command,
    "plan": plan.command,
    "quantize": quantize.command,
    "run": run.command,
    "sensitivity": sensitivity.command,
    "stress": stress.command,
    "tune": tune.command,
    "validate": validate.command,
    "targets": targets.command,
}

OTHER_NAMES = {"memory": "plan"}
"""Names that still work and that help does not list: other name, verb."""
