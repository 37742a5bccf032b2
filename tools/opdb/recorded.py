"""Samples of the database with PyTorch's answers, in a file that needs no PyTorch to be read."""

from __future__ import annotations

import base64
import gzip
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np

from tools.opdb.calls import Array, Call, Name


@dataclass(frozen=True)
class Recorded:
    """A call of the function that PyTorch calls `name`, and what PyTorch answers."""

    name: str
    call: Call
    results: list[Any]
    gradients: list[Any]
    tolerance: tuple[float, float]

    def parts(self) -> tuple[Any, ...]:
        """What is told as trees of leaves."""
        return self.call.args, self.call.kwargs, self.results, self.gradients


def encoded(value: Any) -> Any:
    """A tree of leaves as JSON."""
    if isinstance(value, Array):
        storage = base64.b64encode(value.storage.tobytes()).decode()
        return {"tensor": [value.dtype, value.shape, value.strides, value.offset, value.requires_grad, storage]}
    if isinstance(value, Name):
        return {"name": value.text}
    if isinstance(value, complex):
        return {"complex": [value.real, value.imag]}
    if isinstance(value, tuple):
        return {"tuple": [encoded(part) for part in value]}
    if isinstance(value, list):
        return [encoded(part) for part in value]
    if isinstance(value, dict):
        return {"dict": {name: encoded(part) for name, part in value.items()}}
    return value


def decoded(value: Any) -> Any:
    """What `encoded` wrote down."""
    if isinstance(value, list):
        return [decoded(part) for part in value]
    if not isinstance(value, dict):
        return value
    ((kind, content),) = value.items()
    if kind == "tensor":
        dtype, shape, strides, offset, requires_grad, storage = content
        number = np.dtype(ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype)
        flat = np.frombuffer(base64.b64decode(storage), number)
        return Array(dtype, tuple(shape), tuple(strides), offset, flat, requires_grad)
    if kind == "dict":
        return {name: decoded(part) for name, part in content.items()}
    if kind == "tuple":
        return tuple([decoded(part) for part in content])
    return Name(content) if kind == "name" else complex(*content)


def write(path: Path, samples: list[Recorded]) -> None:
    """Write samples, compressed; the same samples give the same bytes."""
    rows = [[one.name, *map(encoded, one.parts()), one.tolerance] for one in samples]
    path.write_bytes(gzip.compress(json.dumps(rows).encode(), 9, mtime=0))


def read(path: Path) -> list[Recorded]:
    """The samples of a file."""
    rows = json.loads(gzip.decompress(path.read_bytes()))
    return [
        Recorded(name, Call(decoded(args), decoded(kwargs)), decoded(results), decoded(gradients), tuple(tolerance))
        for name, args, kwargs, results, gradients, tolerance in rows
    ]
