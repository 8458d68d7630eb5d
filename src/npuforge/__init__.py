"""npuforge: from a trained network to a validated deployment on a microcontroller with an NPU.

The command line mirrors the functions exported here. Everything is imported on first use, so that
``import npuforge`` and ``npuforge --help`` stay fast.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

# public name -> module that defines it
_EXPORTS = {
    "NpuforgeError": "npuforge.errors",
    "load_model": "npuforge.importers",
    "load_target": "npuforge.targets",
    "Graph": "npuforge.graph",
    "run_model": "npuforge.api",
    "analyze_model": "npuforge.api",
    "validate_model": "npuforge.api",
    "deploy_model": "npuforge.api",
    "convert_model": "npuforge.api",
    "aton_document": "npuforge.api",
    "aton_translate": "npuforge.api",
}

__all__ = [
    "Graph",
    "NpuforgeError",
    "analyze_model",
    "aton_document",
    "aton_translate",
    "convert_model",
    "deploy_model",
    "load_model",
    "load_target",
    "run_model",
    "validate_model",
]

if TYPE_CHECKING:
    from npuforge.api import (
        analyze_model,
        aton_document,
        aton_translate,
        convert_model,
        deploy_model,
        run_model,
        validate_model,
    )
    from npuforge.errors import NpuforgeError
    from npuforge.graph import Graph
    from npuforge.importers import load_model
    from npuforge.targets import load_target


def __getattr__(name: str) -> Any:
    module = _EXPORTS.get(name)
    if module is None:
        raise AttributeError(f"module 'npuforge' has no attribute {name!r}")
    return getattr(importlib.import_module(module), name)
