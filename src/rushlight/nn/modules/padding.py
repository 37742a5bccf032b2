"""Padding as layers."""

from __future__ import annotations

from rushlight.eager.tensor import Tensor
from rushlight.nn import functional
from rushlight.nn.modules.module import Module
from rushlight.nn.spatial import PerDim, per_dim

__all__ = [
    "CircularPad1d",
    "CircularPad2d",
    "CircularPad3d",
    "ConstantPad1d",
    "ConstantPad2d",
    "ConstantPad3d",
    "ReflectionPad1d",
    "ReflectionPad2d",
    "ReflectionPad3d",
    "ReplicationPad1d",
    "ReplicationPad2d",
    "ReplicationPad3d",
    "ZeroPad1d",
    "ZeroPad2d",
    "ZeroPad3d",
]


class Padding(Module):
    """Base of the paddings: sizes before and after each of the last dims, from the last one on."""

    _dims = 0
    _mode = "constant"

    def __init__(self, padding: PerDim[int]) -> None:
        super().__init__()
        self.padding = per_dim(padding, 2 * self._dims)

    def forward(self, input: Tensor) -> Tensor:
        """Return the input with elements around it."""
        return functional.pad(input, self.padding, self._mode)

    def extra_repr(self) -> str:
        """Return the sizes."""
        return f"{self.padding}"


class ConstantPadding(Padding):
    """Base of the paddings by a constant."""

    def __init__(self, padding: PerDim[int], value: float) -> None:
        super().__init__(padding)
        self.value = value

    def forward(self, input: Tensor) -> Tensor:
        """Return the input with the constant around it."""
        return functional.pad(input, self.padding, "constant", self.value)

    def extra_repr(self) -> str:
        """Return the sizes and the constant."""
        return f"padding={self.padding}, value={self.value}"


class ConstantPad1d(ConstantPadding):
    """A constant around one spatial dim."""

    _dims = 1


class ConstantPad2d(ConstantPadding):
    """A constant around two spatial dims."""

    _dims = 2


class ConstantPad3d(ConstantPadding):
    """A constant around three spatial dims."""

    _dims = 3


class ZeroPad1d(Padding):
    """Zeros around one spatial dim."""

    _dims = 1


class ZeroPad2d(Padding):
    """Zeros around two spatial dims."""

    _dims = 2


class ZeroPad3d(Padding):
    """Zeros around three spatial dims."""

    _dims = 3


class ReflectionPad1d(Padding):
    """One spatial dim reflected at its first and last elements."""

    _dims = 1
    _mode = "reflect"


class ReflectionPad2d(Padding):
    """Two spatial dims reflected at their first and last elements."""

    _dims = 2
    _mode = "reflect"


class ReflectionPad3d(Padding):
    """Three spatial dims reflected at their first and last elements."""

    _dims = 3
    _mode = "reflect"


class ReplicationPad1d(Padding):
    """The first and last elements of one spatial dim repeated outwards."""

    _dims = 1
    _mode = "replicate"


class ReplicationPad2d(Padding):
    """The first and last elements of two spatial dims repeated outwards."""

    _dims = 2
    _mode = "replicate"


class ReplicationPad3d(Padding):
    """The first and last elements of three spatial dims repeated outwards."""

    _dims = 3
    _mode = "replicate"


class CircularPad1d(Padding):
    """One spatial dim that goes on with its other end."""

    _dims = 1
    _mode = "circular"


class CircularPad2d(Padding):
    """Two spatial dims that go on with their other end."""

    _dims = 2
    _mode = "circular"


class CircularPad3d(Padding):
    """Three spatial dims that go on with their other end."""

    _dims = 3
    _mode = "circular"
