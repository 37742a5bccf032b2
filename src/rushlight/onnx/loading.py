"""`load`: a model's file as a module."""

from __future__ import annotations

import os
from pathlib import Path

from rushlight.onnx import ops
from rushlight.onnx.checking import require_operators
from rushlight.onnx.module import OnnxModule
from rushlight.onnx.reading import read, validate

__all__ = ["load"]
RULES = ops.MODULES


def load(path: str | os.PathLike[str]) -> OnnxModule:
    """The model of an ONNX file as a module: call it, train it, compile it, export it.

    O001 names all operators that are missing, before anything runs; P002 says what is malformed. Inputs may have any
    sizes, as far as the model allows them.
    """
    place = Path(path)
    model = read(place)
    require_operators(model)
    validate(place)
    return OnnxModule(model)
