"""Bytes that are shifted and then converted: all of them, through every operation that is done in words."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import rushlight as rl
from rushlight.ir.dtype import float32, int8, int32, uint8
from rushlight.ir.scalar import OPS, Buffer, Scalar, apply, cast, constant, guard, index, load, select
from rushlight.ir.type import TensorType
from rushlight.schedule.lower.words import in_words
from rushlight.sym import axis_symbol
from rushlight.term import postorder

Bytes = Any
FUNCTIONS: dict[str, Callable[[Any, Bytes], Any]] = {
    "low": lambda where, w: w << 4 >> 4,
    "high": lambda where, w: w >> 4,
    "all_out": lambda where, w: (w << 7) >> 7,
    "bits": lambda where, w: (w >> 3) ^ (w & 5) | (w << 2),
    "masked": lambda where, w: (w >> 2) & 3,
    "chosen": lambda where, w: where((w & 15) >= 8, (w >> 4) - 16, w >> 4),
    "signed": lambda where, w: where(w >> 4 >= 0, w >> 1, w << 1),
    "sum": lambda where, w: (w >> 2) + (w >> 3),
    "wraps": lambda where, w: (w << 1) + (w >> 1),
    "wraps_inside": lambda where, w: ((w << 1) - (w >> 1)) >> 2,
    "two_masks": lambda where, w: (w >> 1) & (w & 0x7F),
}
TARGETS = {"float32": np.float32, "int32": np.int32, "int64": np.int64, "float64": np.float64, "int16": np.int16}


@pytest.mark.parametrize("name", list(FUNCTIONS))
@pytest.mark.parametrize("dtype", [np.int8, np.uint8], ids=["int8", "uint8"])
def test_all_bytes_have_the_values_of_numpy(name: str, dtype: type) -> None:
    function = FUNCTIONS[name]
    values = np.arange(256).astype(dtype)
    with np.errstate(over="ignore"):
        wanted = function(np.where, values).astype(dtype)
    for target in TARGETS:
        run = rl.compile(lambda w, target=target: function(rl.where, w).to(getattr(rl, target)))
        for start in (0, 3):  # also with lanes that are left over
            found = run(rl.tensor(values[start:])).numpy()
            assert np.array_equal(found, wanted[start:].astype(TARGETS[target])), (name, target)


def byte(signed: bool) -> Scalar:
    dtype = int8 if signed else uint8
    return load(Buffer("w", TensorType((256,), dtype)), index(axis_symbol(256, "i")))


def shifts_of_bytes(body: Scalar) -> int:
    return sum(term.op in (OPS["shl"], OPS["shr"]) and term.type.itemsize == 1 for term in postorder([body]))


@pytest.mark.parametrize("signed", [True, False], ids=["int8", "uint8"])
def test_no_byte_is_shifted_on_its_way_to_a_wider_value(signed: bool) -> None:
    w = byte(signed)
    low, high = w << 4 >> 4, w >> 4
    condition = apply("lt", index(axis_symbol(256, "j")), index(7))
    for body in (low, high, low ^ high, select(low < high, low, high), guard(condition, low, high), (high & 3) + 2):
        term = cast(body, float32)
        assert shifts_of_bytes(term)
        assert not shifts_of_bytes(in_words(term))


def test_what_gains_nothing_stays_as_it_is() -> None:
    w = byte(signed=True)
    by_data = apply("shl", w, w)
    for term in (cast(w, float32), cast(w & 15, float32), w << 4, cast(by_data, int32), cast((w << 1) + w, float32)):
        assert in_words(term) is term


def test_a_shift_of_all_bits_is_left_to_bytes() -> None:
    w = byte(signed=True)
    term = cast(apply("shr", w, constant(8, int8)), float32)
    assert in_words(term) is term
