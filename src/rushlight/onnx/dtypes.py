"""Element types by ONNX's numbers."""

from __future__ import annotations

from typing import Any

import rushlight as rl
from rushlight.support.errors import fail

DTYPES: dict[int, rl.dtype] = {
    1: rl.float32,
    2: rl.uint8,
    3: rl.int8,
    4: rl.uint16,
    5: rl.int16,
    6: rl.int32,
    7: rl.int64,
    9: rl.bool,
    10: rl.float16,
    11: rl.float64,
    12: rl.uint32,
    13: rl.uint64,
    14: rl.complex64,
    15: rl.complex128,
    16: rl.bfloat16,
    17: rl.float8_e4m3fn,
    18: rl.float8_e4m3fnuz,
    19: rl.float8_e5m2,
    20: rl.float8_e5m2fnuz,
}
_NAMES = {8: "string", 21: "uint4", 22: "int4", 23: "float4e2m1", 24: "float8e8m0", 25: "uint2", 26: "int2"}
NUMBERS: dict[Any, int] = {dtype: number for number, dtype in DTYPES.items()}


def dtype_of(number: int) -> rl.dtype:
    """The dtype of ONNX's number; D001 of a type that tensors here do not have."""
    found = DTYPES.get(number)
    if found is None:
        fail(
            "D001",
            f"onnx: there are no tensors of type {_NAMES.get(number, number)}",
            hint="convert the model's values",
        )
    return found
