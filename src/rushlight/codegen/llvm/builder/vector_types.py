"""Defines register shapes and writes LLVM types and constants. A shape is a dtype and a number of lanes."""

from __future__ import annotations

import struct
from functools import cache

import numpy as np

from rushlight.ir.dtype import BY_NAME, FLOAT8, DType, Kind
from rushlight.ir.scalar import identity

# Floats of 16 and 8 bits travel as bits: there is no arithmetic in them. Bools are bits in registers, bytes in memory.
_REGISTERS = {
    "bool": "i1",
    "float16": "i16",
    "bfloat16": "i16",
    **{dtype.name: "i8" for dtype in FLOAT8},
    "float32": "float",
    "float64": "double",
    **{name: f"i{dtype.bits}" for name, dtype in BY_NAME.items() if dtype.kind is Kind.INT},
}
_SUFFIXES = {"float": "f32", "double": "f64"}


class Shape:
    """`lanes` elements of a dtype in a register; one lane is a scalar.

    `type` is the LLVM type, `suffix` the end of intrinsics' names (`v16f32`), `scalar` the type of a lane, `memory` its
    type in memory. `bits_type` has integers and `mask_type` bools in the same number of lanes.
    """

    __slots__ = (
        "bits",
        "bits_type",
        "dtype",
        "is_float",
        "itemsize",
        "lanes",
        "mask_type",
        "memory",
        "memory_type",
        "scalar",
        "signed",
        "suffix",
        "type",
    )

    def __init__(self, dtype: DType, lanes: int) -> None:
        if dtype.kind is Kind.COMPLEX:
            raise NotImplementedError(f"codegen: {dtype.name} scalars are split into parts before code is generated")
        self.dtype = dtype
        self.lanes = lanes
        self.scalar = _REGISTERS[dtype.name]
        self.is_float = self.scalar in _SUFFIXES
        self.signed = dtype.signed
        self.itemsize = dtype.itemsize
        self.bits = 1 if dtype.kind is Kind.BOOL else dtype.bits
        self.type = vector_type(lanes, self.scalar)
        suffix = _SUFFIXES.get(self.scalar, self.scalar)
        self.suffix = suffix if lanes == 1 else f"v{lanes}{suffix}"
        self.memory = "i8" if self.bits == 1 else self.scalar
        self.memory_type = vector_type(lanes, self.memory)
        self.bits_type = vector_type(lanes, f"i{self.bits}")
        self.mask_type = vector_type(lanes, "i1")

    @property
    def is_bool(self) -> bool:
        """Whether the elements are bools."""
        return self.bits == 1

    @property
    def is_half(self) -> bool:
        """Whether the elements are 16-bit floats, held as bits."""
        return self.dtype.kind is Kind.FLOAT and not self.is_float

    def constant(self, value: float) -> str:
        """The text of a constant in every lane."""
        return self.splat(literal(value, self.dtype))

    def splat(self, text: str) -> str:
        """The text of a scalar literal in every lane."""
        return text if self.lanes == 1 else f"splat ({self.scalar} {text})"

    def integer(self, value: int) -> str:
        """The text of a constant of the integer type of the same bits in every lane."""
        return str(value) if self.lanes == 1 else f"splat (i{self.bits} {value})"

    def lane_numbers(self) -> str:
        """The text of 0, 1, 2, ... (integers only)."""
        return lane_numbers(self.lanes, self.scalar)


@cache
def shape_of(dtype: DType, lanes: int = 1) -> Shape:
    """The shape of `lanes` elements of a dtype."""
    return Shape(dtype, lanes)


def vector_type(lanes: int, scalar: str) -> str:
    """The LLVM type of `lanes` scalars."""
    return scalar if lanes == 1 else f"<{lanes} x {scalar}>"


@cache
def lane_numbers(lanes: int, scalar: str) -> str:
    """The text of the vector 0, 1, 2, ..."""
    return "0" if lanes == 1 else f"<{', '.join([f'{scalar} {lane}' for lane in range(lanes)])}>"


def literal(value: float, dtype: DType) -> str:
    """The text of a scalar constant; the value of a float32 must be exact in float32."""
    if dtype.kind is Kind.BOOL:
        return "true" if value else "false"
    if dtype.kind is Kind.INT:
        return str(int(value))
    if dtype.itemsize == 2:  # exact in the dtype
        return str(int(np.array(value, np.float64).astype(dtype.numpy).view(np.uint16)))
    if value != value:
        return "0x7FF8000000000000"
    return "0x" + struct.pack(">d", value).hex().upper()


def identity_of(kind: str, dtype: DType) -> str:
    """The text of the scalar that a reduction starts from."""
    return literal(identity(kind, dtype), dtype)
