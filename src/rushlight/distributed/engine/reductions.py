"""Reductions over ranks: their names, the dtypes that they take, and what they compute, in numpy."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, ClassVar, Final

import numpy as np

from rushlight.ir.dtype import Kind, from_numpy_dtype
from rushlight.ir.process_group import Buffer
from rushlight.support.errors import fail, require


class ReduceOp:
    """A reduction over ranks: `ReduceOp.SUM` and its like. `PREMUL_SUM` multiplies by `factor` first."""

    __slots__ = ("factor", "text")

    SUM: ClassVar[ReduceOp]
    AVG: ClassVar[ReduceOp]
    PRODUCT: ClassVar[ReduceOp]
    MIN: ClassVar[ReduceOp]
    MAX: ClassVar[ReduceOp]
    BAND: ClassVar[ReduceOp]
    BOR: ClassVar[ReduceOp]
    BXOR: ClassVar[ReduceOp]
    PREMUL_SUM: ClassVar[ReduceOp]
    RedOpType: ClassVar[type[ReduceOp]]  # PyTorch's name for the type of `ReduceOp.SUM` and its like

    def __init__(self, text: str | ReduceOp, factor: float = 1.0) -> None:
        self.text = text.text if isinstance(text, ReduceOp) else text
        self.factor = text.factor if isinstance(text, ReduceOp) else factor

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ReduceOp) and (self.text, self.factor) == (other.text, other.factor)

    def __hash__(self) -> int:
        return hash((self.text, self.factor))

    def __str__(self) -> str:
        return self.text if self.factor == 1.0 else f"{self.text}({self.factor})"

    def __repr__(self) -> str:
        return f"ReduceOp.{self.text.upper()}"


NAMES: Final = ("sum", "avg", "product", "min", "max", "band", "bor", "bxor", "premul_sum")
ReduceOp.SUM, ReduceOp.AVG, ReduceOp.PRODUCT, ReduceOp.MIN, ReduceOp.MAX = [ReduceOp(name) for name in NAMES[:5]]
ReduceOp.RedOpType = ReduceOp
ReduceOp.BAND, ReduceOp.BOR, ReduceOp.BXOR, ReduceOp.PREMUL_SUM = [ReduceOp(name) for name in NAMES[5:]]

_NUMBERS = frozenset((Kind.INT, Kind.FLOAT, Kind.COMPLEX))
_FRACTIONS = frozenset((Kind.FLOAT, Kind.COMPLEX))
_BITS = frozenset((Kind.BOOL, Kind.INT))
_ORDERED = frozenset((Kind.BOOL, Kind.INT, Kind.FLOAT))
KINDS: Mapping[str, frozenset[Kind]] = MappingProxyType(
    {
        "sum": _NUMBERS | {Kind.BOOL},
        "avg": _FRACTIONS,
        "product": _NUMBERS | {Kind.BOOL},
        "min": _ORDERED,
        "max": _ORDERED,
        "band": _BITS,
        "bor": _BITS,
        "bxor": _BITS,
        "premul_sum": _FRACTIONS,
    }
)
"""The kinds of dtypes that a reduction takes. Sums and products of truth values are `or` and `and`."""
Ufunc = Callable[..., Any]
_STEPS: Mapping[str, Ufunc] = MappingProxyType(
    {
        "sum": np.add,
        "avg": np.add,
        "premul_sum": np.add,
        "product": np.multiply,
        "min": np.minimum,
        "max": np.maximum,
        "band": np.bitwise_and,
        "bor": np.bitwise_or,
        "bxor": np.bitwise_xor,
    }
)


def reduction(op: object) -> ReduceOp:
    """The reduction of this name, or this one itself; A002 where there is none."""
    if isinstance(op, ReduceOp):
        return op
    name = str(op).lower()
    require(isinstance(op, str) and name in NAMES, "A002", "distributed: there is no such reduction", op=op)
    return ReduceOp(name)


def check_dtype(op: ReduceOp, dtype: np.dtype[Any]) -> None:
    """D001 where a reduction does not take a dtype."""
    known = from_numpy_dtype(dtype)
    if known is None or known.is_storage_only or known.kind not in KINDS[op.text]:
        fail("D001", f"distributed: {op.text} does not reduce {dtype.name}", hint="convert the tensor first")


def reduced(buffers: Sequence[Buffer], op: ReduceOp) -> Buffer:
    """The reduction of the ranks' buffers, in the order of ranks; a new array.

    16-bit floats are reduced in float32 and rounded once.
    """
    dtype = buffers[0].dtype
    is_short = dtype.itemsize == 2 and from_numpy_dtype(dtype) not in (None,) and dtype.kind not in "iub"
    step = _STEPS[op.text]
    with np.errstate(all="ignore"):
        total: Buffer = _entering(buffers[0], op, is_short)
        for buffer in buffers[1:]:
            step(total, _entering(buffer, op, is_short), out=total)
        if op.text == "avg":
            np.divide(total, len(buffers), out=total)
        return total.astype(dtype) if is_short else total


def _entering(buffer: Buffer, op: ReduceOp, is_short: bool) -> Buffer:
    """A rank's buffer as the reduction takes it: a new array."""
    wide = buffer.astype(np.float32) if is_short else buffer.copy()
    return wide if op.text != "premul_sum" else np.multiply(wide, np.asarray(op.factor, wide.dtype))
