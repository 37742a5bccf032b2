"""Functions that make tensors, with `out=`: a tensor that says the dtype, and is filled instead."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar

from rushlight.eager import creation, random
from rushlight.eager.arguments import element_type, required_tensor
from rushlight.eager.boundary import checked
from rushlight.eager.composite.forms import written
from rushlight.support.errors import require

F = TypeVar("F", bound=Callable[..., Any])


def _filling(function: F) -> F:
    """The function with `out`. Errors: D002 for a dtype that is not that of `out`, and those of `written`."""

    @functools.wraps(function)
    def call(*args: object, **named: Any) -> Any:
        if "out" not in named or named["out"] is None:
            return function(*args, **named)
        target, name = required_tensor(named.pop("out")), function.__name__
        dtype = element_type(named.get("dtype")) or target.dtype
        require(dtype is target.dtype, "D002", f"{name}: the dtype is not that of out", dtype=dtype, out=target)
        return written(function(*args, **{**named, "dtype": dtype}), target, name)

    made: Any = checked(call)
    return made


arange = _filling(creation.arange)
empty = _filling(creation.empty)
eye = _filling(creation.eye)
full = _filling(creation.full)
linspace = _filling(creation.linspace)
ones = _filling(creation.ones)
zeros = _filling(creation.zeros)
rand = _filling(random.rand)
randint = _filling(random.randint)
randn = _filling(random.randn)
randperm = _filling(random.randperm)
