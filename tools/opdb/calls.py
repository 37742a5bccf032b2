"""Calls as data: arguments, results and gradients that need neither PyTorch nor Rushlight to be told."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Array:
    """A tensor: the elements of its storage in order, and how it looks at them (strides and offset in elements)."""

    dtype: str
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int
    storage: np.ndarray[Any, Any]
    requires_grad: bool = False

    def values(self) -> np.ndarray[Any, Any]:
        """The elements as the tensor shows them."""
        width = self.storage.dtype.itemsize
        strides = tuple([stride * width for stride in self.strides])
        return np.lib.stride_tricks.as_strided(self.storage[self.offset :], self.shape, strides)


@dataclass(frozen=True)
class Name:
    """A constant of the namespace, such as `float32`."""

    text: str


@dataclass(frozen=True)
class Call:
    """Arguments of one call; leaves are Arrays, Names and plain values."""

    args: tuple[Any, ...]
    kwargs: dict[str, Any]

    def __str__(self) -> str:
        parts = [described(value) for value in self.args]
        return ", ".join([*parts, *(f"{name}={described(value)}" for name, value in self.kwargs.items())])


@dataclass
class Outcome:
    """What a call did: flat results, gradients of the inputs that require them, inputs after it; or its error."""

    results: list[Any] = field(default_factory=list)
    gradients: list[Any] = field(default_factory=list)
    inputs: list[Any] = field(default_factory=list)
    error: BaseException | None = None
    stage: str = "forward"


def described(value: Any) -> str:
    """A short text of an argument."""
    if isinstance(value, Array):
        dense = Array(value.dtype, value.shape, dense_strides(value.shape), 0, value.storage)
        layout = "" if dense.strides == value.strides and value.offset == 0 else f" strides {list(value.strides)}"
        return f"{value.dtype}{list(value.shape)}{layout}"
    if isinstance(value, Name):
        return value.text
    if isinstance(value, (list, tuple)):
        return f"[{', '.join([described(part) for part in value])}]"
    return repr(value)


def dense_strides(shape: tuple[int, ...]) -> tuple[int, ...]:
    """The strides of a row-major array of this shape."""
    strides: list[int] = []
    count = 1
    for size in reversed(shape):
        strides.insert(0, count)
        count *= max(size, 1)
    return tuple(strides)


def mapped(value: Any, change: Callable[[Any], Any]) -> Any:
    """`value` with every leaf changed; lists and tuples keep their type."""
    if isinstance(value, (list, tuple)):
        parts = [mapped(part, change) for part in value]
        return tuple(parts) if isinstance(value, tuple) else parts
    if isinstance(value, dict):
        return {name: mapped(part, change) for name, part in value.items()}
    return change(value)


def leaves(value: Any) -> Iterator[Any]:
    """Every leaf in order."""
    if isinstance(value, (list, tuple)):
        for part in value:
            yield from leaves(part)
    elif isinstance(value, dict):
        for part in value.values():
            yield from leaves(part)
    else:
        yield value


def cotangent(shape: tuple[int, ...], position: int, is_complex: bool) -> np.ndarray[Any, Any]:
    """The gradient that result `position` is given: the same numbers everywhere, exact in bfloat16."""
    rng = np.random.default_rng(position + 1)
    whole = rng.integers(-8, 9, shape) / 4
    return whole + 1j * (rng.integers(-8, 9, shape) / 4) if is_complex else whole
