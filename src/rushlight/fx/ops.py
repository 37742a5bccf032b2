"""Operators as functions of graphs: `rl.fx.ops.matmul` is what a node of a compiled graph calls.

Each has the name, the parameters and the defaults of its schema (`rushlight ops explain NAME`).
"""

from __future__ import annotations

from collections.abc import Sequence

from rushlight.eager.composite.sequences import empty_strided
from rushlight.eager.override.operator_function import OperatorFunction, function_of, identifier
from rushlight.fx.node import Argument
from rushlight.ir.type import dense_order
from rushlight.ops import OPERATORS
from rushlight.runtime.generator import default_generator
from rushlight.support.errors import error
from rushlight.support.names import did_you_mean

__all__ = [
    "OperatorFunction",
    "copy_",
    "draw",
    "relayout",
    "sym_floordiv",
    "sym_item",
    "sym_size",
    "sym_stride",
]


def copy_(target: Argument, value: Argument) -> Argument:
    """Overwrite a tensor with the elements of another; return the first."""
    return target.copy_(value)


def draw(count: int) -> tuple[int, int]:
    """Return the seed of the default generator, and its next ordinal; `count` of them are taken."""
    return default_generator.next_ordinal(count)


def sym_size(x: Argument, dim: int) -> Argument:
    """Return a size of a tensor."""
    return x.shape[dim]


def sym_stride(x: Argument, dim: int) -> Argument:
    """Return a stride of a tensor."""
    return x.stride(dim)


def sym_item(x: Argument, position: int = 0) -> Argument:
    """Return the one element of a tensor as a number."""
    return x.item()


def sym_floordiv(a: Argument, b: Argument) -> Argument:
    """Return how often a size goes into another: that of zero is the size itself."""
    return a if isinstance(b, int) and b == 0 else a // b


def relayout(x: Argument, size: Sequence[Argument], stride: Sequence[Argument]) -> Argument:
    """Return the elements of a tensor in memory with these strides; itself if places would be shared."""
    if tuple(x.stride()) == tuple(stride) or dense_order(tuple(size), tuple(stride)) is None:
        return x
    return empty_strided(tuple(size), tuple(stride), dtype=x.dtype, device=x.device).copy_(x)


def __getattr__(name: str) -> OperatorFunction:
    if not name.startswith("__"):
        for full in (name, name.replace("__", "::", 1)):
            if full in OPERATORS:
                return function_of(full)
        dotted = [full for full in OPERATORS if "." in full and identifier(full) == name]
        if dotted:
            return function_of(dotted[0])
    raise error("N001", f"rushlight.fx.ops has no {name}", hint=did_you_mean(name, OPERATORS))
