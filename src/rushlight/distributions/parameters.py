"""Parameters of distributions: broadcast to one shape, chances and their logarithms into each other."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar, overload

import rushlight as rl
from rushlight import Tensor
from rushlight.support.errors import fail

T = TypeVar("T")


def broadcast_all(*values: Any) -> tuple[Tensor, ...]:
    """Return numbers and tensors as tensors of one shape; numbers take the first tensor's dtype.

    Without tensors the default dtype is taken. Errors: A001 for what is neither.
    """
    dtype = rl.get_default_dtype()
    for value in values:
        if not isinstance(value, (Tensor, int, float)):
            fail("A001", "broadcast_all: a number or a tensor is expected", value=value)
    first = next((value for value in values if isinstance(value, Tensor)), None)
    if first is not None:
        dtype = first.dtype
    return rl.broadcast_tensors(
        *[value if isinstance(value, Tensor) else rl.tensor(value, dtype=dtype) for value in values]
    )


def is_number(*values: object) -> bool:
    """Return whether all are Python numbers, so that a distribution of them has no batch dims."""
    return all(isinstance(value, (int, float)) for value in values)


def clamp_probs(probs: Tensor) -> Tensor:
    """Return chances an epsilon away from 0 and 1, so that their logarithms are finite."""
    eps = rl.finfo(probs.dtype).eps
    return probs.clamp(eps, 1 - eps)


def logits_to_probs(logits: Tensor, is_binary: bool = False) -> Tensor:
    """Return chances of logits: by the sigmoid for two outcomes, else by softmax over the last dim."""
    return rl.sigmoid(logits) if is_binary else rl.softmax(logits, -1)


def probs_to_logits(probs: Tensor, is_binary: bool = False) -> Tensor:
    """Return logits of chances: log odds for two outcomes, else logarithms."""
    inside = clamp_probs(probs)
    return inside.log() - (-inside).log1p() if is_binary else inside.log()


def sum_rightmost(value: Tensor, dim: int) -> Tensor:
    """Return the sum over so many dims at the right."""
    return value if not dim else value.reshape(*value.shape[: value.ndim - dim], -1).sum(-1)


class lazy_property(Generic[T]):  # noqa: N801 - PyTorch's name
    """A property that is computed when it is first asked for, and then kept in the instance."""

    def __init__(self, compute: Callable[[Any], T]) -> None:
        self.compute = compute
        self.name = compute.__name__
        self.__doc__ = compute.__doc__

    @overload
    def __get__(self, instance: None, owner: type) -> lazy_property[T]: ...

    @overload
    def __get__(self, instance: object, owner: type) -> T: ...

    def __get__(self, instance: object | None, owner: type) -> lazy_property[T] | T:
        if instance is None:
            return self
        with rl.enable_grad():
            value = self.compute(instance)
        instance.__dict__[self.name] = value
        return value
