"""Carries out the steps of a plan on the parts that ranks hold."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rushlight.distributed.tensor.layout import Box, shape_of, within
from rushlight.distributed.tensor.planning import Step, common, is_sent_by, keeps_value
from rushlight.eager.memory import array_of, tensor_of
from rushlight.eager.tensor import Tensor
from rushlight.ir.placement import Partial
from rushlight.ir.process_group import Buffer

Array = NDArray[Any]


def move(local: Tensor, step: Step, shape: Sequence[int]) -> Tensor:
    """What this rank holds after a step of a tensor of this global shape."""
    return tensor_of(_MOVES[step.verb](array_of(local), step, tuple(shape)))


def _flat(array: Array) -> Buffer:
    return np.ascontiguousarray(array).reshape(-1)


def _places(step: Step) -> tuple[Any, list[tuple[int, ...]]]:
    """The group of the ranks that take part, and their coordinates in the order of the group."""
    mesh = step.before.mesh
    group = mesh.group_along(step.axes)
    at = {mesh.rank_at(coordinate): coordinate for coordinate in mesh.row(step.axes)}
    return group, [at[rank] for rank in group.ranks]


def _all_reduce(local: Array, step: Step, shape: tuple[int, ...]) -> Array:
    placement = step.before.placements[step.axes[0]]
    assert isinstance(placement, Partial)
    group, _ = _places(step)
    buffer = _flat(local).copy()
    group.all_reduce(buffer, placement.reduce_op).wait()
    return buffer.reshape(local.shape)


def _reduce_scatter(local: Array, step: Step, shape: tuple[int, ...]) -> Array:
    axis = step.axes[0]
    placement = step.before.placements[axis]
    assert isinstance(placement, Partial)
    group, coordinates = _places(step)
    held = step.before.box(shape)
    boxes = [step.after.box(shape, coordinate) for coordinate in coordinates]
    whole = np.concatenate([_flat(local[within(box, held)]) for box in boxes])
    own = step.after.box(shape)
    out = np.empty(_count(own), local.dtype)
    group.reduce_scatter(out, whole, [_count(box) for box in boxes], placement.reduce_op).wait()
    return out.reshape(shape_of(own))


def _count(box: Box | None) -> int:
    count = 1
    for begin, end in box or ((0, 0),):
        count *= end - begin
    return count


def _all_gather(local: Array, step: Step, shape: tuple[int, ...]) -> Array:
    group, coordinates = _places(step)
    boxes = [step.before.box(shape, coordinate) for coordinate in coordinates]
    counts = [_count(box) for box in boxes]
    gathered = np.empty(sum(counts), local.dtype)
    group.all_gather(gathered, _flat(local), counts).wait()
    own = step.after.box(shape)
    return _put_together(gathered, [(box, common(box, own)) for box in boxes], own)


def _all_to_all(local: Array, step: Step, shape: tuple[int, ...]) -> Array:
    group, coordinates = _places(step)
    own = step.before.mesh.own_coordinate()
    held, wanted = step.before.box(shape), step.after.box(shape)
    sent: list[Box | None] = []
    taken: list[Box | None] = []
    for other in coordinates:
        gives = is_sent_by(step.before, step.axes, own, other)
        takes = is_sent_by(step.before, step.axes, other, own)
        sent.append(common(held, step.after.box(shape, other)) if gives else None)
        taken.append(common(step.before.box(shape, other), wanted) if takes else None)
    parts = [_flat(local[within(box, held)]) for box in sent if box is not None]
    whole = np.concatenate(parts) if parts else np.empty(0, local.dtype)
    out = np.empty(sum(map(_count, taken)), local.dtype)
    group.all_to_all(out, list(map(_count, taken)), whole, list(map(_count, sent))).wait()
    return _put_together(out, [(box, box) for box in taken], wanted)


def _put_together(buffer: Buffer, pieces: Sequence[tuple[Box | None, Box | None]], own: Box) -> Array:
    """The array of a box from pieces that follow each other in a buffer: of each box the part that is wanted."""
    result = np.empty(shape_of(own), buffer.dtype)
    begin = 0
    for box, wanted in pieces:
        count = _count(box)
        if box is not None and wanted is not None:
            piece = buffer[begin : begin + count].reshape(shape_of(box))
            result[within(wanted, own)] = piece[within(wanted, box)]
        begin += count
    return result


def _slice(local: Array, step: Step, shape: tuple[int, ...]) -> Array:
    held, wanted = step.before.box(shape), step.after.box(shape)
    return np.ascontiguousarray(local[within(wanted, held)]).copy()


def _make_partial(local: Array, step: Step, shape: tuple[int, ...]) -> Array:
    coordinate = step.before.mesh.own_coordinate()
    for axis in step.axes:
        placement = step.after.placements[axis]
        assert isinstance(placement, Partial)
        if not keeps_value(placement, coordinate[axis] == 0):
            neutral = 1 if placement.reduce_op == "product" else 0
            return np.full_like(local, neutral)
    return local.copy()


_MOVES: Mapping[str, Callable[[Array, Step, tuple[int, ...]], Array]] = MappingProxyType(
    {
        "all_reduce": _all_reduce,
        "reduce_scatter": _reduce_scatter,
        "all_gather": _all_gather,
        "all_to_all": _all_to_all,
        "slice": _slice,
        "make_partial": _make_partial,
    }
)
