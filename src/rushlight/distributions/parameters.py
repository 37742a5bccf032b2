"""Parameters of distributions: broadcast to one shape, chances and their logarithms into each other."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Generic, TypeAlias, TypeVar, overload

import rushlight as rl
from rushlight import Tensor
from rushlight.eager.symbols import SymFloat, SymInt
from rushlight.eager.tracing import TracedNumber
from rushlight.support.errors import fail, require

T = TypeVar("T")

Number: TypeAlias = Tensor | float
"""A parameter as callers give it."""
Shape: TypeAlias = int | Iterable[Any]
"""The shape of samples, or their number."""

EULER = 0.5772156649015329
"""The Euler-Mascheroni constant."""


_NUMBERS = (int, float, TracedNumber, SymInt, SymFloat)


def broadcast_all(*values: object) -> tuple[Tensor, ...]:
    """Return numbers and tensors as tensors of one shape; numbers take the first tensor's dtype.

    Without tensors the default dtype is taken. Errors: A001 for what is neither.
    """
    dtype = rl.get_default_dtype()
    for value in values:
        if not isinstance(value, (Tensor, *_NUMBERS)):
            fail("A001", "broadcast_all: a number or a tensor is expected", value=value)
    first = next((value for value in values if isinstance(value, Tensor)), None)
    if first is not None:
        dtype = first.dtype
    return rl.broadcast_tensors(
        *[value if isinstance(value, Tensor) else rl.tensor(value, dtype=dtype) for value in values]
    )


def is_number(*values: object) -> bool:
    """Return whether all are Python numbers, so that a distribution of them has no batch dims."""
    return all(isinstance(value, _NUMBERS) for value in values)


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


def vec_to_tril_matrix(vec: Tensor, diag: int = 0) -> Tensor:
    """Return lower triangular matrices of vectors, which fill them row by row up to a diagonal."""
    size = round((-(1 + 2 * diag) + ((1 + 2 * diag) ** 2 + 8 * vec.shape[-1] + 4 * abs(diag) * (diag + 1)) ** 0.5) / 2)
    fits = _count_of_triangle(size, diag) == vec.shape[-1]
    require(fits, "A002", "vec_to_tril_matrix: no triangle has so many numbers", size=vec.shape[-1])
    rows, columns = rl.tril_indices(size, size, diag)
    flat = vec.new_zeros((*vec.shape[:-1], size * size))
    places = (rows * size + columns).expand(vec.shape)
    return flat.scatter(-1, places, vec).reshape(*vec.shape[:-1], size, size)


def _count_of_triangle(size: int, diag: int) -> int:
    return sum(max(0, min(size, row + diag + 1)) for row in range(size))


def tril_matrix_to_vec(mat: Tensor, diag: int = 0) -> Tensor:
    """Return the numbers of square matrices up to a diagonal, row by row, as vectors."""
    size = mat.shape[-1]
    require(-size <= diag < size, "A002", "tril_matrix_to_vec: there is no such diagonal", diag=diag, size=size)
    rows, columns = rl.tril_indices(size, size, diag)
    return mat[..., rows, columns]


class Undefined:
    """An attribute that a subclass has to define: asking an object for it is A006."""

    def __init__(self, quantity: str) -> None:
        self.what = quantity

    def __get__(self, instance: object, owner: type) -> Undefined:
        require(instance is None, "A006", f"{owner.__name__}: {self.what} is not defined")
        return self


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
