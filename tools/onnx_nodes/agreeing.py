"""The node tests as data, and when a result is what a test says. It needs numpy and the library `onnx` alone."""

from __future__ import annotations

import functools
import importlib
import warnings
from typing import Any

import numpy as np


@functools.cache
def collected() -> list[Any]:
    """The tests of the installed library; some draw numbers, so others in each process."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # overflows are meant
        return importlib.import_module("onnx.backend.test.case.node").collect_testcases(None)


def array_of(value: Any) -> Any:
    """A value of a test as arrays, lists of them, or None."""
    if isinstance(value, (list, tuple)):
        return [array_of(part) for part in value]
    if hasattr(value, "data_type"):
        return importlib.import_module("onnx.numpy_helper").to_array(value)
    return None if value is None else np.asarray(value)


def agree(given: Any, wanted: Any, case: Any) -> bool:
    """Whether a result is what the test says: shape, dtype, and values within its tolerances."""
    if isinstance(wanted, list):
        pairs = isinstance(given, list) and len(given) == len(wanted)
        return pairs and all(agree(one, other, case) for one, other in zip(given, wanted, strict=True))
    if given is None or wanted is None:
        return given is wanted
    given = np.asarray(given)
    if given.shape != wanted.shape:
        return False
    if wanted.dtype.kind in "OSU":
        return list(map(str, given.reshape(-1))) == list(map(str, wanted.reshape(-1)))
    if given.dtype != wanted.dtype:
        return False
    wide = np.complex128 if wanted.dtype.kind == "c" else np.float64
    return np.allclose(given.astype(wide), wanted.astype(wide), rtol=case.rtol, atol=case.atol, equal_nan=True)
