"""The BATCHED key: inside `vmap` a tensor stands for one place of a batch, and each call of an operator runs over all.

A mapped tensor has the form of one place and holds, in `node`, the tensor of all places with the batch in front. Levels
of `vmap` nest: a mapped tensor of an inner level may hold one of an outer level. Autograd and tracing are below this
key and see whole batches, so derivatives and compiled programs know nothing of it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any

from rushlight.eager.dispatch import STATE, Key, Scope, call_function, dispatch, register_fallback
from rushlight.eager.execution.operands import flatten
from rushlight.eager.handle import AUTOGRAD, BATCHED, Handle, make
from rushlight.eager.mutation import COPY, Mutation
from rushlight.eager.tensor_meta import form_of
from rushlight.ir.value import map_operands
from rushlight.ops.record import OPERATORS, Fact, Operator
from rushlight.support.errors import fail
from rushlight.support.frozen import frozen
from rushlight.sym import Size

_STEP, _WORD = 0x9E3779B97F4A7C15, 1 << 64  # the golden ratio's bits: seeds of neighbours share none


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


def in_front(tensor: Any, dim: int) -> Any:
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


def run_mapped(op: Any, active: int, operands: tuple[Any, ...], attrs: Mapping[str, Any]) -> Any:
    """The boxed kernel at the BATCHED key: one level, the innermost of the operands, becomes a dim in front."""
    levels = [level for operand in flatten(operands) if (level := level_of(operand)) is not None]
    if op.__class__ is Mutation:
        return _write(op, operands, attrs, max(levels, key=_depth)) if levels else NotImplemented
    if Fact.RANDOM in op.facts and STATE.maps:
        return _draw(op, operands, attrs)
    if not levels:
        return NotImplemented
    return _over(op, operands, attrs, max(levels, key=_depth))


def _depth(level: Level) -> int:
    return level.depth


def _over(op: Operator, operands: tuple[object, ...], attrs: Mapping[str, object], level: Level) -> Any:
    mask = tuple(
        [False if part is None else part for part in map_operands(operands, lambda operand: level_of(operand) == level)]
    )
    values = map_operands(operands, lambda operand: operand.node.value if level_of(operand) == level else operand)
    result = import_module("rushlight.ops.batching").over_batch(op, values, mask, attrs, call_function)
    return tuple([mapped(element, level) for element in result]) if isinstance(result, tuple) else mapped(result, level)


def _draw(op: Operator, operands: tuple[object, ...], attrs: Mapping[str, object]) -> Any:
    """A random operator at the innermost level: the same numbers at all places, or others at each by other seeds."""
    level = STATE.maps[-1]
    outer = STATE.maps[:-1]
    if level.randomness == "error":
        hint = 'say randomness="different" or "same"'
        fail("A006", f"vmap: {op.name} draws random numbers, and it was not said how they relate", hint=hint)
    included = STATE.included if outer else STATE.included & ~BATCHED
    with Scope(maps=outer, included=included):
        if level.randomness == "different":
            seed = [operand.name for operand in op.schema.operands].index("seed")
            steps = OPERATORS["arange"](1, level.size + 1) * _stride(level.depth)
            moved = mapped(steps, level) + operands[seed]
            operands = (*operands[:seed], moved, *operands[seed + 1 :])
        if any(level_of(operand) == level for operand in flatten(operands)):
            return _over(op, operands, attrs, level)
        return call_function(op, operands, attrs)


def _stride(depth: int) -> int:
    """How far apart the seeds of neighbours are, as a signed integer; another number at each depth."""
    step = pow(_STEP, depth + 1, _WORD)
    return step - _WORD if step >= _WORD // 2 else step


def _write(op: Mutation, operands: tuple[Any, ...], attrs: Mapping[str, Any], level: Level) -> Any:
    """An in-place form: what it computes is copied over the batch."""
    target = op.target_of(operands)
    if level_of(target) != level:
        hint = "write to a tensor that the mapped function was given, or use the functional form"
        fail("A006", f"vmap: {op.name} would write each place's value to one tensor", target=target, hint=hint)
    whole = target.node.value
    base = op.base_operands(operands)
    if STATE.grad and op.base is not None:  # what the tape saves of what is overwritten stays as it was
        base = map_operands(base, lambda operand: _apart(operand, whole, level))
    value = base[0] if op.base is None else dispatch(op.base, base, attrs)
    if isinstance(value, Handle):
        op.check(target.form.type, value.form.type)
    if level_of(value) == level:
        value = value.node.value
        while len(value.form.shape) < len(whole.form.shape):
            value = OPERATORS["unsqueeze"](value, 1)
    dispatch(COPY, (whole, value), {})
    target.version.value += 1
    return target


def _apart(operand: Any, whole: Handle, level: Level) -> object:
    """An operand of a write that is recorded; a copy of one whose memory is that of what is written to."""
    if level_of(operand) != level or operand.node.value.version is not whole.version:
        return operand
    value = operand.node.value
    return mapped(OPERATORS["clone"](value), level) if value.keys & AUTOGRAD else operand


register_fallback(Key.BATCHED, run_mapped, reenters=True)


# Between the inside of levels and the outside.


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
