"""Value: what rules written in operators act on.

Graph nodes and Tensors both are Values; the one method they implement is `apply(op, args, attrs)`. The operators behind
Python's syntax are looked up in SYNTAX, which the operator registry fills.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Self

from rushlight.ir.dtype import DType
from rushlight.ir.type import Device
from rushlight.sym import Size, SizeExpr

# Python syntax -> the operator that means it, by the name of the special method without underscores.
SYNTAX: dict[str, Callable[..., Any]] = {}


def map_operands(operands: Sequence[object], image: Callable[[Any], object]) -> tuple[Any, ...]:
    """An operator's operands with `image` of each, members of lists included, and None kept."""
    return tuple(
        [
            tuple([None if element is None else image(element) for element in operand])
            if isinstance(operand, tuple)
            else None
            if operand is None
            else image(operand)
            for operand in operands
        ]
    )


def map_sizes(value: object, image: Callable[[SizeExpr], object]) -> Any:
    """An attribute of a call with `image` of each size in it that is no integer."""
    if isinstance(value, SizeExpr):
        return image(value)
    return tuple([map_sizes(element, image) for element in value]) if isinstance(value, tuple) else value


class Value:
    """A tensor value, in whatever form. Shapes may hold symbols."""

    __slots__ = ()

    @abstractmethod
    def apply(self, op: Any, args: tuple[Any, ...], attrs: Mapping[str, Any]) -> Any:
        """The result of an operator on these arguments, in this value's world: computed, recorded or traced."""

    @property
    @abstractmethod
    def shape(self) -> tuple[Size, ...]:
        """The sizes of its dims."""

    @property
    @abstractmethod
    def dtype(self) -> DType:
        """Its element type."""

    @property
    @abstractmethod
    def device(self) -> Device:
        """Where it lives."""

    @property
    def ndim(self) -> int:
        """The number of dims."""
        return len(self.shape)

    @property
    def mT(self) -> Self:  # noqa: N802 - PyTorch's name
        """The last two dims exchanged."""
        return SYNTAX["mT"](self)

    def __add__(self, other: object) -> Self:
        return SYNTAX["add"](self, other)

    def __radd__(self, other: object) -> Self:
        return SYNTAX["add"](other, self)

    def __sub__(self, other: object) -> Self:
        return SYNTAX["sub"](self, other)

    def __rsub__(self, other: object) -> Self:
        return SYNTAX["sub"](other, self)

    def __mul__(self, other: object) -> Self:
        return SYNTAX["mul"](self, other)

    def __rmul__(self, other: object) -> Self:
        return SYNTAX["mul"](other, self)

    def __truediv__(self, other: object) -> Self:
        return SYNTAX["truediv"](self, other)

    def __rtruediv__(self, other: object) -> Self:
        return SYNTAX["truediv"](other, self)

    def __floordiv__(self, other: object) -> Self:
        return SYNTAX["floordiv"](self, other)

    def __rfloordiv__(self, other: object) -> Self:
        return SYNTAX["floordiv"](other, self)

    def __mod__(self, other: object) -> Self:
        return SYNTAX["mod"](self, other)

    def __rmod__(self, other: object) -> Self:
        return SYNTAX["mod"](other, self)

    def __pow__(self, other: object) -> Self:
        return SYNTAX["pow"](self, other)

    def __rpow__(self, other: object) -> Self:
        return SYNTAX["pow"](other, self)

    def __matmul__(self, other: object) -> Self:
        return SYNTAX["matmul"](self, other)

    def __rmatmul__(self, other: object) -> Self:
        return SYNTAX["matmul"](other, self)

    def __neg__(self) -> Self:
        return SYNTAX["neg"](self)

    def __abs__(self) -> Self:
        return SYNTAX["abs"](self)

    def __invert__(self) -> Self:
        return SYNTAX["invert"](self)

    def __and__(self, other: object) -> Self:
        return SYNTAX["and"](self, other)

    def __rand__(self, other: object) -> Self:
        return SYNTAX["and"](other, self)

    def __or__(self, other: object) -> Self:
        return SYNTAX["or"](self, other)

    def __ror__(self, other: object) -> Self:
        return SYNTAX["or"](other, self)

    def __xor__(self, other: object) -> Self:
        return SYNTAX["xor"](self, other)

    def __rxor__(self, other: object) -> Self:
        return SYNTAX["xor"](other, self)

    def __lshift__(self, other: object) -> Self:
        return SYNTAX["lshift"](self, other)

    def __rshift__(self, other: object) -> Self:
        return SYNTAX["rshift"](self, other)

    def __lt__(self, other: object) -> Self:
        return SYNTAX["lt"](self, other)

    def __le__(self, other: object) -> Self:
        return SYNTAX["le"](self, other)

    def __gt__(self, other: object) -> Self:
        return SYNTAX["gt"](self, other)

    def __ge__(self, other: object) -> Self:
        return SYNTAX["ge"](self, other)
