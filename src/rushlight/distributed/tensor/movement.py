"""Carries out the steps of a plan on the parts that ranks hold: arrays, or the tensors of a trace.

The collectives are the operators of `ops/collective.py`: what they mean for arrays is their `ref` rule.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np

from rushlight.distributed.tensor.layout import Box, common, count_of, shape_of, tiled_dim, within
from rushlight.distributed.tensor.planning import Step, is_sent_by, keeps_value
from rushlight.eager.dispatch import STATE
from rushlight.eager.memory import array_of, tensor_of
from rushlight.eager.symbols import wrap_size
from rushlight.eager.tensor import Tensor
from rushlight.ir.placement import Partial
from rushlight.ops import collective
from rushlight.ops.record import OPERATORS, Operator

Shape = tuple[int, ...]
Part = Any
"""An array, or a tensor of a trace: both are sliced, reshaped and written to alike."""


def move(local: Tensor, step: Step, shape: Sequence[int]) -> Tensor:
    """What this rank holds after a step of a tensor of this global shape."""
    if STATE.tracer is not None:
        return _MOVES[step.verb](local, step, tuple(shape))
    return tensor_of(_MOVES[step.verb](array_of(local), step, tuple(shape)))


def _call(op: Operator, part: Part, *arguments: object) -> Part:
    if not isinstance(part, np.ndarray):
        return op(part, *arguments)
    assert op.ref_rule is not None
    return op.ref_rule(part, *arguments)


def _joined(local: Part, boxes: Sequence[Box], held: Box) -> Part:
    """Boxes of a part one after another, flat: the part as it is where they follow each other in it."""
    if tiled_dim(boxes, held) == 0:
        return local.reshape(-1)
    flat = [_cut(local, box, held).reshape(-1) for box in boxes] or [_empty((0,), local)]
    return np.concatenate(flat) if isinstance(local, np.ndarray) else OPERATORS["cat"](tuple(flat), 0)


def _empty(shape: Shape, like: Part) -> Part:
    return np.empty(shape, like.dtype) if isinstance(like, np.ndarray) else like.new_empty(tuple(map(wrap_size, shape)))


def _shaped(part: Part, box: Box) -> Part:
    return part.reshape(tuple(map(wrap_size, shape_of(box))))


def _cut(part: Part, inner: Box, outer: Box) -> Part:
    """A box of what is held of another one."""
    if isinstance(part, np.ndarray):
        return part[within(inner, outer)]
    for dim, (own, held) in enumerate(zip(inner, outer, strict=True)):
        if own != held:
            part = OPERATORS["part"](part, dim, own[0] - held[0], own[1] - own[0])
    return part


def _copied(part: Part) -> Part:
    return np.array(part, order="C") if isinstance(part, (np.ndarray, np.generic)) else part.clone()


def _places(step: Step) -> tuple[Any, list[tuple[int, ...]]]:
    """The group of the ranks that take part, and their coordinates in the order of the group."""
    mesh = step.before.mesh
    group = mesh.group_along(step.axes)
    at = {mesh.rank_at(coordinate): coordinate for coordinate in mesh.row(step.axes)}
    return group, [at[rank] for rank in group.ranks]


def _reduction(step: Step) -> str:
    placement = step.before.placements[step.axes[0]]
    assert isinstance(placement, Partial)
    return placement.reduce_op


def _all_reduce(local: Part, step: Step, shape: Shape) -> Part:
    group, _ = _places(step)
    return _call(collective.all_reduce, local, _reduction(step), group.name)


def _reduce_scatter(local: Part, step: Step, shape: Shape) -> Part:
    group, coordinates = _places(step)
    held, own = step.before.box(shape), step.after.box(shape)
    boxes = [step.after.box(shape, coordinate) for coordinate in coordinates]
    whole = _joined(local, boxes, held)
    counts = tuple(map(_count, boxes))
    out = _call(collective.reduce_scatter_tensor, whole, _reduction(step), group.size, group.name, counts, _count(own))
    return _shaped(out, own)


def _all_gather(local: Part, step: Step, shape: Shape) -> Part:
    group, coordinates = _places(step)
    boxes = [step.before.box(shape, coordinate) for coordinate in coordinates]
    counts = tuple(map(_count, boxes))
    gathered = _call(collective.all_gather_into_tensor, local.reshape(-1), group.size, group.name, counts)
    own = step.after.box(shape)
    return _put_together(gathered, [(box, common(box, own)) for box in boxes], own)


def _all_to_all(local: Part, step: Step, shape: Shape) -> Part:
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
    whole = _joined(local, [box for box in sent if box is not None], held)
    splits = tuple(map(_count, taken)), tuple(map(_count, sent))
    out = _call(collective.all_to_all_single, whole, *splits, group.name)
    return _put_together(out, [(box, box) for box in taken], wanted)


def _count(box: Box | None) -> Any:
    return 0 if box is None else count_of(box)


def _put_together(buffer: Part, pieces: Sequence[tuple[Box | None, Box | None]], own: Box) -> Part:
    """The part of a box from pieces that follow each other in a buffer: of each box what is wanted of it."""
    there = [(box, wanted) for box, wanted in pieces if box is not None]
    plain = all(box == wanted for box, wanted in there)
    dim = tiled_dim([box for box, _ in there], own) if plain else None
    if dim == 0:
        return _shaped(buffer, own)
    begin: Any = 0
    parts: list[tuple[Part, Box]] = []
    for box, wanted in there:
        count = count_of(box)
        if wanted is not None:
            piece = _shaped(_cut(buffer, ((begin, begin + count),), ((0, None),)), box)
            parts.append((_cut(piece, wanted, box), wanted))
        begin = begin + count
    if dim is not None and not isinstance(buffer, np.ndarray):
        return OPERATORS["cat"](tuple([piece for piece, _ in parts]), dim)
    result = _empty(shape_of(own), buffer)
    for piece, wanted in parts:
        if isinstance(result, np.ndarray):
            result[within(wanted, own)] = piece
        else:
            _cut(result, wanted, own).copy_(piece)
    return result


def _slice(local: Part, step: Step, shape: Shape) -> Part:
    held, wanted = step.before.box(shape), step.after.box(shape)
    return _copied(_cut(local, wanted, held))


def _make_partial(local: Part, step: Step, shape: Shape) -> Part:
    coordinate = step.before.mesh.own_coordinate()
    for axis in step.axes:
        placement = step.after.placements[axis]
        assert isinstance(placement, Partial)
        if not keeps_value(placement, coordinate[axis] == 0):
            neutral = _empty(tuple(local.shape), local)
            neutral[...] = 1 if placement.reduce_op == "product" else 0
            return neutral
    return _copied(local)


_MOVES: Mapping[str, Callable[[Part, Step, Shape], Part]] = MappingProxyType(
    {
        "all_reduce": _all_reduce,
        "reduce_scatter": _reduce_scatter,
        "all_gather": _all_gather,
        "all_to_all": _all_to_all,
        "slice": _slice,
        "make_partial": _make_partial,
    }
)
