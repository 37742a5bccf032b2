"""What answers the BATCHED key: inside `vmap` each call of an operator runs over all places of a batch.

Autograd and tracing are below this key and see whole batches, so derivatives and compiled programs know nothing of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rushlight.eager.batching.levels import Level, level_of, mapped
from rushlight.eager.dispatch import STATE, Scope, call_function, dispatch
from rushlight.eager.execution.operands import flatten
from rushlight.eager.handle import AUTOGRAD, BATCHED, Handle
from rushlight.eager.mutation import COPY, Mutation
from rushlight.ir.value import map_operands
from rushlight.ops.batching import over_batch
from rushlight.ops.record import OPERATORS, Fact, Operator
from rushlight.support.errors import fail

_STEP, _WORD = 0x9E3779B97F4A7C15, 1 << 64  # the golden ratio's bits: seeds of neighbours share none


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
    result = over_batch(op, values, mask, attrs, call_function)
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
