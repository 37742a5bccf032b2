"""Ranges of values: eager checks indices before it runs an operator, since kernels skip what is out of range.

So are weights that must not be negative. A check is one small executable over the operand, whose result is a bool.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import Any, NamedTuple

from rushlight.eager.execution.artifact import artifact_for
from rushlight.eager.execution.operands import NUMBER_FORMS
from rushlight.eager.execution.plan import KernelPlan
from rushlight.eager.execution.signature import signature_of
from rushlight.eager.handle import Handle
from rushlight.eager.memory import array_of
from rushlight.eager.tensor_meta import form_of
from rushlight.ir.dtype import Kind, bool_, int64
from rushlight.ir.graph import Graph, GraphBuilder, Node
from rushlight.ops import OPERATORS
from rushlight.ops.record import Operator
from rushlight.support.errors import fail, require


class Range(NamedTuple):
    """Indices must be in [low, high), or `ignored`; without `high` they are values, not below `low`.

    `operand` is the operand's name.
    """

    operand: str
    low: int
    high: int | None
    ignored: int | None = None
    member: int | None = None  # of a list operand


Named = Mapping[str, Any]  # operands' types and attributes by name
Rule = Callable[[Named], list[Range]]


def _wrapping(operand: str, size: int, member: int | None = None) -> Range:
    return Range(operand, -size, size, None, member)


def _along_dim(named: Named) -> list[Range]:
    shape = named["input"].shape
    return [_wrapping("index", shape[named["dim"]])] if shape else []


def _taken_along_dim(named: Named) -> list[Range]:
    shape, dim = named["input"].shape, named["dim"]
    return [_wrapping("indices", prod(shape) if dim is None else shape[dim])] if shape else []


def _in_order(named: Named) -> list[Range]:
    return [] if named["sorter"] is None else [_wrapping("sorter", named["sorted_sequence"].shape[-1])]


def _in_dims(named: Named) -> list[Range]:
    shape = named["input"].shape
    return [_wrapping("indices", shape[dim], member) for member, dim in enumerate(named["dims"])]


def _in_table(named: Named) -> list[Range]:
    return [Range("input", 0, named["weight"].shape[0])]


def _in_space(named: Named) -> list[Range]:
    return [Range("indices", 0, prod(named["output_size"]))]


def _of_classes(named: Named) -> list[Range]:
    return [Range("tensor", 0, named["num_classes"])]


def _observed(named: Named) -> list[Range]:
    return [Range(name, 0, None) for name in ("fweights", "aweights") if named[name] is not None]


def _classes(named: Named) -> list[Range]:
    shape, target = named["input"].shape, named["target"]
    number = isinstance(target, int | float | complex)  # which is refused
    if not number and (target.dtype.kind is not Kind.INT or not shape):
        return []
    return [Range("target", 0, shape[0 if len(shape) == 1 else 1], named["ignore_index"])]


# Which operand holds indices of what. An operator outside this table has none.
_RULES: dict[str, Rule] = {
    "gather": _along_dim,
    "scatter": _along_dim,
    "scatter_add": _along_dim,
    "scatter_reduce": _along_dim,
    "index_select": _along_dim,
    "take_along_dim": _taken_along_dim,
    "searchsorted": _in_order,
    "index_add": _along_dim,
    "index": _in_dims,
    "index_put": _in_dims,
    "embedding": _in_table,
    "embedding_bag": _in_table,
    "max_unpool": _in_space,
    "nll_loss": _classes,
    "one_hot": _of_classes,
    "cov": _observed,
    "cross_entropy": _classes,
    "class_cross_entropy": _classes,
}
RULES: dict[Operator, Rule] = {OPERATORS[name]: rule for name, rule in _RULES.items() if name in OPERATORS}


class Check(NamedTuple):
    """A range, and where its operand is."""

    range: Range
    position: int
    plan: KernelPlan


def checks_of(op: Operator, operands: Sequence[Any], attrs: Mapping[str, object]) -> list[Check]:
    """What to check before a call of these forms; `operands` are tensors."""
    rule = RULES.get(op)
    if rule is None:
        return []
    names = [parameter.name for parameter in op.schema.operands]
    types = [_type_of(operand) for operand in operands]
    checks: list[Check] = []
    for one in rule({**dict(zip(names, types, strict=True)), **attrs}):
        position = names.index(one.operand)
        index = operands[position] if one.member is None else operands[position][one.member]
        require(isinstance(index, Handle), "A001", f"{op.name}: {one.operand} must be a tensor", given=index)
        if index.form.numel:
            checks.append(Check(one, position, _plan(index, one)))
    return checks


def _type_of(operand: object) -> Any:
    form = getattr(operand, "form", None)
    return form.type if form is not None else operand


def _numbers(one: Range) -> list[int]:
    return [number for number in (one.low, one.high, one.ignored) if number is not None]


def _plan(index: Handle, one: Range) -> KernelPlan:
    whole, numbers = NUMBER_FORMS[int], [0] * len(_numbers(one))
    call = {name: OPERATORS[name] for name in ("lt", "ge", "ne", "bitwise_or", "bitwise_and", "any")}

    def trace(builder: GraphBuilder, nodes: Sequence[Node], sizes: Sequence[object]) -> Graph:
        at = nodes[0]
        if at.dtype.kind <= Kind.INT:  # an unsigned index would make -size a large number
            at = OPERATORS["to_dtype"](at, int64)
        outside = call["lt"](at, nodes[1])
        if one.high is not None:
            outside = call["bitwise_or"](outside, call["ge"](at, nodes[2]))
        if one.ignored is not None:
            outside = call["bitwise_and"](outside, call["ne"](at, nodes[3]))
        return builder.graph([call["any"](outside)])

    signature = signature_of([index.form, *[whole for _ in numbers]])
    result = form_of((), bool_)
    executable = artifact_for(("bounds", one.high is None, one.ignored is None), trace, signature)
    return KernelPlan(executable, [index, *numbers], [*signature.words, result.words], [result], bare=True)


def run_checks(op: Operator, checks: Sequence[Check], operands: Sequence[Any]) -> None:
    """I001 where an index is out of its range, A002 where another value is."""
    for check in checks:
        one = check.range
        index = operands[check.position] if one.member is None else operands[check.position][one.member]
        outside = check.plan.run([index, *_numbers(one)])
        if outside.storage.view()[0]:
            values = array_of(index).reshape(-1).tolist()
            if one.high is None:
                fail("A002", f"{op.name}: {one.operand} must not be below {one.low}", given=min(values))
            wrong = next(value for value in values if not one.low <= value < one.high and value != one.ignored)
            fail("I001", f"{op.name}: index {wrong} is out of range for a dim of size {one.high}", index=index)
