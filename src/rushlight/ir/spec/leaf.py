"""Specifications of single arguments: tensors, numbers that a call chooses, and values held fixed."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

from rushlight.ir.dtype import SHORT_NAMES, DType
from rushlight.ir.spec.size import ShapeExpr, ShapeVar, distinct
from rushlight.ir.spec.text import Makers, SpecReader
from rushlight.support.errors import fail, require
from rushlight.support.frozen import frozen

Dim = int | ShapeExpr | None


class TensorSpec:
    """A tensor: its dtype, and for each dim an integer, a variable, an expression, or None for any size.

    `strides` is "contiguous" (row-major, the default) or "any". `TensorSpec.parse` reads `f32[B, 2*B + 1, _]`.
    """

    __slots__ = ("dtype", "shape", "strides")

    dtype: DType
    shape: tuple[Dim, ...]
    strides: str

    def __init__(self, dtype: DType, shape: Sequence[Dim | str], strides: str | None = None) -> None:
        require(isinstance(dtype, DType), "D004", "TensorSpec: not a dtype", dtype=dtype)
        kinds = (None, "contiguous", "any")
        require(strides in kinds, "A002", f'TensorSpec: strides are "contiguous" or "any", not {strides!r}')
        self.dtype = dtype
        self.shape = tuple([_dim(size) for size in shape])
        self.strides = "contiguous" if strides is None else strides

    @staticmethod
    def parse(text: str) -> TensorSpec:
        """The specification that `text` denotes, such as `f32[B, T] strides any`. Errors: C017."""
        return SpecReader(text, MAKERS).tensor()

    @property
    def variables(self) -> tuple[ShapeVar, ...]:
        """The variables in its sizes, each once."""
        sizes = [size for size in self.shape if isinstance(size, ShapeExpr)]
        return distinct([variable for size in sizes for variable in size.variables])

    def _key(self) -> object:
        sizes = tuple([size.size if isinstance(size, ShapeExpr) else size for size in self.shape])
        return self.dtype, self.strides, sizes, frozenset([variable.facts for variable in self.variables])

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TensorSpec) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def __str__(self) -> str:
        sizes = ", ".join(["_" if size is None else str(size) for size in self.shape])
        return f"{SHORT_NAMES[self.dtype]}[{sizes}]{'' if self.strides == 'contiguous' else ' strides any'}"

    def __repr__(self) -> str:
        return f"TensorSpec({str(self)!r})"


class IntSpec:
    """An integer that each call chooses; with a variable or its name, assumptions can be about it."""

    __slots__ = ("variable",)

    variable: ShapeVar | None

    def __init__(self, variable: ShapeVar | str | None = None) -> None:
        self.variable = ShapeVar(variable, min=None) if isinstance(variable, str) else variable

    def __eq__(self, other: object) -> bool:
        return isinstance(other, IntSpec) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def _key(self) -> object:
        return None if self.variable is None else self.variable.facts

    def __str__(self) -> str:
        return "int" if self.variable is None else f"int {self.variable}"

    def __repr__(self) -> str:
        return f"IntSpec({'' if self.variable is None else repr(self.variable)})"


@frozen
class FloatSpec:
    """A float that each call chooses."""

    def __str__(self) -> str:
        return "float"


class ConstSpec:
    """A value that all calls share, and that the program may depend on in any way."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value

    def takes(self, value: object) -> bool:
        """Whether it is the same value: of the same type, and equal, floats to the bit."""
        if value is self.value:
            return True
        if type(value) is not type(self.value):
            return False
        return repr(value) == repr(self.value) if isinstance(value, float) else bool(value == self.value)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ConstSpec) and self.takes(other.value)

    def __hash__(self) -> int:
        return hash(type(self.value))

    def __str__(self) -> str:
        return repr(self.value)

    def __repr__(self) -> str:
        return f"ConstSpec({self.value!r})"


LeafSpec = TensorSpec | IntSpec | FloatSpec | ConstSpec
MAKERS = Makers(TensorSpec, IntSpec, FloatSpec, ConstSpec)


def _dim(size: Any) -> Dim:
    if size is None or size == "_":
        return None
    if isinstance(size, ShapeExpr):
        return size
    try:
        number = operator.index(size)
    except TypeError:
        fail("A001", f"TensorSpec: a size is an integer, a variable, an expression or None, not {type(size).__name__}")
    require(number >= 0, "S007", f"TensorSpec: a size is {number}")
    return number
