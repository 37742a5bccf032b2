"""What lowering yields: for every index of an output, one scalar.

A lowering rule is called as `lower(at, *operands, **attrs)`: `at` holds one loop axis (a size symbol) per output dim;
operands are `Operand`s, indexed like tensors (`a[i, k]`). It returns a Scalar, a tuple of them for several outputs of
one shape, or a `Scatter`. Pull style makes fusion substitution: loading from a producer is evaluating its body there.
"""

from __future__ import annotations

from typing import Protocol

from rushlight.ir.dtype import DType
from rushlight.ir.scalar import Buffer, Scalar
from rushlight.ir.type import TensorType
from rushlight.support.frozen import frozen
from rushlight.sym import Size, SizeExpr, axis_symbol

Index = Scalar | Size


class Operand(Protocol):
    """A tensor as a lowering rule sees it."""

    @property
    def type(self) -> TensorType:
        """Shape, dtype and strides."""
        ...

    @property
    def shape(self) -> tuple[Size, ...]:
        """The sizes of its dims."""
        ...

    @property
    def dtype(self) -> DType:
        """Its element type."""
        ...

    def __getitem__(self, index: Index | tuple[Index, ...]) -> Scalar:
        """The element at an index, one entry per dim; `()` for a 0-d tensor."""
        ...


@frozen
class Definition:
    """`buffer[axes] = body` for every value of the axes; one axis per dim of the buffer."""

    buffer: Buffer
    axes: tuple[SizeExpr, ...]
    body: Scalar


@frozen
class Scatter:
    """A result that starts as `initial`; each value of `axes` combines `value` into it at `index`.

    Axes run in ascending order. combine: "set" (the last one stays), "sum", "prod", "max" or "min". An index outside
    the result is skipped. `initial` is a Scalar over `at`; `index` has one entry per dim of the result. `distinct`: no
    two values are written to one place, so they may come in any order.
    """

    initial: Scalar
    axes: tuple[SizeExpr, ...]
    index: tuple[Index, ...]
    value: Scalar
    combine: str
    distinct: bool = False


@frozen
class ScatterDefinition:
    """A `Scatter` into a buffer; `axes` are those of the initial value."""

    buffer: Buffer
    axes: tuple[SizeExpr, ...]
    scatter: Scatter


def axes_of(shape: tuple[Size, ...], prefix: str = "i") -> tuple[SizeExpr, ...]:
    """Fresh loop axes, one per dim."""
    return tuple([axis_symbol(size, f"{prefix}{dim}") for dim, size in enumerate(shape)])
