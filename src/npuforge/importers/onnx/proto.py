"""The messages of the ONNX format without the rest of the ``onnx`` package.

Importing ``onnx`` also imports its helpers and their number types, which takes seconds on some
machines; reading a file needs the message classes alone.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from functools import cache
from pathlib import Path
from types import ModuleType

_GENERATED = "onnx_ml_pb2"


@cache
def messages() -> ModuleType:
    """The module with ``ModelProto`` and its parts; the classes are those of ``onnx`` itself."""
    loaded = sys.modules.get(f"onnx.{_GENERATED}")
    if loaded is not None:
        return loaded
    package = importlib.util.find_spec("onnx")
    for folder in (package.submodule_search_locations or ()) if package is not None else ():
        path = Path(folder, f"{_GENERATED}.py")
        spec = importlib.util.spec_from_file_location(f"onnx.{_GENERATED}", path)
        if path.is_file() and spec is not None and spec.loader is not None:
            module = importlib.util.module_from_spec(spec)
            spec.loader.exec_module(module)
            return module
    return importlib.import_module("onnx")
