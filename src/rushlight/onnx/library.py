"""The door to the library `onnx` (extra `onnx`)."""

from __future__ import annotations

import importlib
from types import ModuleType

from rushlight.support.errors import error


def library(name: str = "onnx") -> ModuleType:
    """The module of that name of the library; N004 where it is not installed."""
    try:
        return importlib.import_module(name)
    except ImportError as cause:
        raise error("N004", "onnx: the library onnx is not installed", hint="pip install 'rushlight[onnx]'") from cause
