"""Sequences, which are lists, and optional values, which are None where there is none."""

from __future__ import annotations

import numpy as np

import rushlight as rl
from rushlight import Tensor
from rushlight.onnx.program import Subgraph
from rushlight.onnx.registry import operator
from rushlight.onnx.values import Numbers, Value, integers, to_tensor


def _place(position: Numbers | None, length: int) -> int:
    place = length if position is None else int(integers(position)[0])
    return place + length if place < 0 else place


@operator("SequenceConstruct")
def construct(*values: Value) -> list[Value]:
    """A sequence of values."""
    return list(values)


@operator("SequenceEmpty")
def empty(*, dtype: int = 1) -> list[Value]:
    """A sequence of nothing."""
    return []


@operator("SequenceInsert", host=(2,))
def insert(values: list[Value], value: Value, position: Numbers | None = None) -> list[Value]:
    """A sequence with one value more."""
    place = _place(position, len(values))
    return [*values[:place], value, *values[place:]]


@operator("SequenceErase", host=(1,))
def erase(values: list[Value], position: Numbers | None = None) -> list[Value]:
    """A sequence with one value less; by default the last."""
    place = len(values) - 1 if position is None else _place(position, len(values))
    return [*values[:place], *values[place + 1 :]]


@operator("SequenceAt", host=(1,))
def at(values: list[Value], position: Numbers) -> Value:
    """A value of a sequence."""
    return values[int(integers(position)[0])]


@operator("SequenceLength")
def length(values: list[Value]) -> Numbers:
    """How many values there are."""
    return np.asarray(len(values), dtype=np.int64)


@operator("ConcatFromSequence")
def concat(values: list[Value], *, axis: int, new_axis: int = 0) -> Tensor:
    """The values joined along a dim, or a new one."""
    return rl.stack(values, axis) if new_axis else rl.cat(values, axis)


@operator("SplitToSequence", host=(1,))
def split(x: Tensor, lengths: Numbers | None = None, *, axis: int = 0, keepdims: int = 1) -> list[Tensor]:
    """Parts along a dim."""
    if lengths is None:
        parts = list(x.split(1, axis))
        return parts if keepdims else [part.squeeze(axis) for part in parts]
    sizes = [int(part) for part in integers(lengths)]
    return list(x.split(sizes[0] if lengths.ndim == 0 else sizes, axis))


@operator("SequenceMap")
def sequence_map(*operands: Value, body: Subgraph) -> tuple[list[Value], ...]:
    """A graph applied to each value of sequences."""
    count = len(operands[0])
    rows = [body(*[value[place] if isinstance(value, list) else value for value in operands]) for place in range(count)]
    return tuple([[to_tensor(row[place]) for row in rows] for place in range(len(body.program.outputs))])


@operator("Optional")
def optional(value: Value = None, *, type: object = None) -> Value:
    """A value that may be missing."""
    return value


@operator("OptionalHasElement")
def has_element(value: Value = None) -> Numbers:
    """Whether there is a value."""
    return np.asarray(value is not None)


@operator("OptionalGetElement")
def get_element(value: Value) -> Value:
    """The value."""
    return value
