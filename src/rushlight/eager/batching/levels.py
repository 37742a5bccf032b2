"""Levels of `vmap`: tensors that stand for one place of a batch, and what they are outside of levels.

A mapped tensor has the form of one place and holds, in `node`, the tensor of all places with the batch in front. Levels
nest: a mapped tensor of an inner level may hold one of an outer level.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rushlight.eager.handle import BATCHED, Handle, make
from rushlight.eager.tensor_meta import form_of
from rushlight.ops.record import OPERATORS
from rushlight.support.frozen import frozen
from rushlight.sym import Size


@frozen
class Level:
    """One active `vmap`: how many are around it, the size of its batch, and what random numbers do."""

    depth: int
    size: Size
    randomness: str


class Mapped:
    """What a mapped tensor holds: `value` has the places of `level` along its first dim."""

    __slots__ = ("level", "value")

    tracer = None  # a tracer that meets a mapped tensor does not take it for its own

    def __init__(self, value: Any, level: Level) -> None:
        self.value = value
        self.level = level


class VmapInfo:
    """What a rule for batches is told of the batch."""

    def __init__(self, batch_size: Any, randomness: str) -> None:
        self.batch_size = batch_size
        self.randomness = randomness


def repeated(value: Any, level: Level) -> Any:
    """A tensor of all places, for one that all of them share."""
    return OPERATORS["expand"](OPERATORS["unsqueeze"](value, 0), (level.size, *value.form.shape))


def spread(value: Any, like: Handle) -> Any:
    """Memory of its own for each place at which another tensor is mapped, with a value everywhere."""
    _, levels = _split(like)
    for level in reversed(levels):
        value = repeated(value, level)
    return _joined(OPERATORS["clone"](value), levels) if levels else value


def in_front(tensor: object, dim: int) -> Any:
    """A tensor with a dim moved to the front."""
    return tensor if dim == 0 else OPERATORS["movedim"](tensor, (dim,), (0,))


def mapped(value: Any, level: Level) -> Any:
    """The tensor that stands for one place of a value's first dim."""
    form = value.form
    tensor = make(
        None, form_of(tuple(form.shape[1:]), form.dtype, form.device, tuple(form.strides[1:]), form.type.weak)
    )
    tensor.keys = BATCHED
    tensor.node = Mapped(value, level)
    return tensor


def level_of(value: object) -> Level | None:
    """The innermost level at which a tensor is mapped."""
    return value.node.level if isinstance(value, Handle) and value.keys & BATCHED else None


def _split(tensor: Any) -> tuple[Any, list[Level]]:
    """The tensor with all levels as dims in front, outermost first, and these levels."""
    levels: list[Level] = []
    while (level := level_of(tensor)) is not None:
        levels.insert(0, level)
        tensor = tensor.node.value
    return tensor, levels


def _joined(whole: object, levels: Sequence[Level]) -> Any:
    for level in levels:
        whole = mapped(whole, level)
    return whole


def lower_to(tensor: object, levels: Sequence[Level]) -> Any:
    """The tensor with these levels as dims in front, repeated along those it does not depend on."""
    whole, have = _split(tensor)
    present = {level.depth for level in have}
    for level in levels:
        if level.depth not in present:
            at = sum(other.depth < level.depth for other in have)
            shape = (*whole.shape[:at], level.size, *whole.shape[at:])
            whole = OPERATORS["expand"](OPERATORS["unsqueeze"](whole, at), shape)
            have.insert(at, level)
    taken = {level.depth for level in levels}
    kept = [at for at, level in enumerate(have) if level.depth not in taken]
    order = (*kept, *[at for at in range(len(have)) if at not in kept], *range(len(have), len(whole.shape)))
    if order != tuple(range(len(order))):
        whole = OPERATORS["permute"](whole, order)
    return _joined(whole, [have[at] for at in kept])


def raise_to(tensor: object, levels: Sequence[Level]) -> Any:
    """What `lower_to` made of a tensor, with its dims in front as levels again."""
    whole, kept = _split(tensor)
    count = len(kept) + len(levels)
    named = sorted(enumerate([*kept, *levels]), key=lambda pair: pair[1].depth)
    order = (*[at for at, _ in named], *range(count, len(whole.shape)))
    if order != tuple(range(len(order))):
        whole = OPERATORS["permute"](whole, order)
    return _joined(whole, [level for _, level in named])
