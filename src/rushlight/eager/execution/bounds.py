"""Ranges of values: eager checks indices before it runs an operator, since kernels skip what is out of range.

So are weights that must not be negative. A check is one small executable over the operand, whose result is a bool.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from rushlight.eager.execution.artifact import artifact_for
from rushlight.eager.execution.operands import NUMBER_FORMS
from rushlight.eager.execution.plan import KernelPlan
from rushlight.eager.execution.signature import signature_of
from rushlight.eager.handle import Handle
from rushlight.eager.memory import array_of, first_element
from rushlight.eager.tensor_meta import form_of
from rushlight.ir.dtype import bool_
from rushlight.ir.graph import Graph, GraphBuilder, Node
from rushlight.ops.index_ranges import RULES, Range, any_outside, ranges_of
from rushlight.ops.record import Operator
from rushlight.support.errors import fail, require


class Check(NamedTuple):
    """A range, and where its operand is."""

    range: Range
    position: int
    plan: KernelPlan
    others: tuple[int, ...]  # where further operands are
    numbers: tuple[int, ...]  # the bounds that its plan takes


def checks_of(op: Operator, operands: Sequence[Any], attrs: Mapping[str, object]) -> list[Check]:
    """What to check before a call of these forms; `operands` are tensors."""
    if op not in RULES:
        return []
    places = {parameter.name: at for at, parameter in enumerate(op.schema.operands)}
    types = [_type_of(operand) for operand in operands]
    checks: list[Check] = []
    for one in ranges_of(op, types, attrs):
        position = places[one.operand]
        index = operands[position] if one.member is None else operands[position][one.member]
        require(isinstance(index, Handle), "A001", f"{op.name}: {one.operand} must be a tensor", given=index)
        if index.form.numel:
            others, numbers = tuple(one.others(places)), tuple(_numbers(one))
            checks.append(Check(one, position, _plan(index, one, [operands[at] for at in others]), others, numbers))
    return checks


def _type_of(operand: object) -> Any:
    form = getattr(operand, "form", None)
    return form.type if form is not None else operand


def _numbers(one: Range) -> list[int]:
    return [int(number) for number in (one.low, one.high, one.ignored) if number is not None]


def _plan(index: Handle, one: Range, others: Sequence[Handle]) -> KernelPlan:
    whole, numbers = NUMBER_FORMS[int], [0] * len(_numbers(one))
    count = len(others) + 1

    def trace(builder: GraphBuilder, nodes: Sequence[Node], sizes: Sequence[object]) -> Graph:
        bounds = iter(nodes[count:])
        low, high, ignored = (None if bound is None else next(bounds) for bound in (one.low, one.high, one.ignored))
        return builder.graph([any_outside(nodes[0], low, high, ignored, one.derived, nodes[1:count])])

    signature = signature_of([index.form, *[other.form for other in others], *[whole for _ in numbers]])
    result = form_of((), bool_, index.form.device)
    program = ("bounds", one.high is None, one.ignored is None, one.derived)
    executable = artifact_for(program, trace, signature, device=index.form.device)
    return KernelPlan(executable, [index, *others, *numbers], [*signature.words, result.words], [result], bare=True)


def run_checks(op: Operator, checks: Sequence[Check], operands: Sequence[Any]) -> None:
    """I001 where an index is out of its range, A002 where another value is."""
    for check in checks:
        one = check.range
        index = operands[check.position] if one.member is None else operands[check.position][one.member]
        others = [operands[at] for at in check.others] if check.others else ()
        if first_element(check.plan.run((index, *others, *check.numbers))):
            values = array_of(index).reshape(-1).tolist()
            if one.derived is not None:
                fail(one.derived.code, one.requirement(op), index=index)
            if one.high is None:
                fail("A002", one.requirement(op), given=min(values))
            wrong = next(value for value in values if not one.low <= value < one.high and value != one.ignored)
            fail("I001", f"{op.name}: index {wrong} is out of range for a dim of size {one.high}", index=index)
