"""Functions of numpy on numbers, dtypes and sequences of them, which give numbers and change nothing."""

from __future__ import annotations

from typing import Any

import numpy as np

from rushlight.capture.resume.breaks import CALL, Break
from rushlight.capture.resume.calling import SCALARS
from rushlight.capture.resume.interpreters.identifying import NUMBERS, concrete

_DISPATCHING = type(np.sum)  # of numpy's functions that arrays may answer
_WRITING = frozenset({"save", "savez", "savez_compressed", "savetxt", "array2string", "array_repr", "array_str"})
_TYPES = (bool, int, float, complex)


def is_of_numbers(function: object, args: tuple[object, ...], kwargs: dict[str, object]) -> bool:
    """Whether a function of numpy without effects is given numbers alone."""
    if isinstance(function, type):
        known = issubclass(function, (np.generic, np.dtype))
    else:
        dispatches = isinstance(function, _DISPATCHING) and getattr(function, "__name__", "") not in _WRITING
        known = dispatches or isinstance(function, np.ufunc)
    return known and all(map(_is_number, (*args, *kwargs.values())))


def _is_number(value: object) -> bool:
    if isinstance(value, (list, tuple)):
        return all(map(_is_number, value))
    if isinstance(value, type):
        return value in _TYPES or issubclass(value, np.generic)
    return type(value) in SCALARS or type(value) in NUMBERS or isinstance(value, (np.generic, np.dtype))


def result_on_numbers(function: Any, args: tuple[object, ...], kwargs: dict[str, object]) -> object:
    """What such a function gives for the numbers of the call. Breaks where that is an array, or a warning is given."""
    name = f"numpy.{getattr(function, '__name__', '')}"
    try:
        with np.errstate(all="raise"):
            result = function(*concrete(list(args), {}), **concrete(kwargs, {}))
    except FloatingPointError:
        raise Break(CALL, f"{name} warns") from None
    if not _is_number(result):
        raise Break(CALL, f"{name} is called")
    return result
