"""Sharding rules, derived from the loops of operators.

An operator's `lower` says which elements of its operands an element of a result is made of. If the result is shifted by
one place along an axis, and each operand's element along one dim with it, then that axis can be divided among ranks:
a `Division`. If an axis is reduced, the ranks' results are partial ones. Blocks of places shift together where dims are
merged or split. What is linear in some operands gives partial sums for partial sums.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rushlight.distributed.tensor.divisions import output_divisions, reductions
from rushlight.distributed.tensor.linearity import linear_sets
from rushlight.distributed.tensor.loops import Bodies
from rushlight.distributed.tensor.rule import Derived, Rule, Signature
from rushlight.eager.execution.attributes import split_sizes
from rushlight.eager.execution.operands import structure_of
from rushlight.ir.type import TensorType
from rushlight.ops.record import Fact, Operator, calls_host
from rushlight.support.errors import RushlightError


def signature_of(
    op: Operator, operands: tuple[object, ...], types: Sequence[TensorType], attrs: Mapping[str, object]
) -> Signature:
    """The signature of a call: ranks, dtypes, which sizes are 1, attributes that are no sizes."""
    static, sizes = split_sizes(op, attrs)
    forms = tuple([(type_.dtype, type_.weak, *[size == 1 for size in type_.shape]) for type_ in types])
    values: list[Any] = [size for type_ in types for size in type_.shape if size != 1]
    return Signature((op, structure_of(operands), forms, static), (*values, *sizes))


def derive(
    op: Operator, operands: tuple[object, ...], types: Sequence[TensorType], attrs: Mapping[str, object]
) -> Rule:
    """The rule of a call like this one. `operands` says which are there; `types` are those of all that are."""
    none = Rule((), (), frozenset())
    fixed = Fact.RANDOM | Fact.DATA_DEPENDENT | Fact.CONTROL
    if op.lower_rule is None or op.facts & fixed or calls_host(op, types, attrs):
        return none
    attempts = [*_attempts(op, operands, types, attrs)]
    if not attempts:
        return none
    return Rule(tuple(map(_derived, attempts)), tuple(linear_sets(attempts[0])), attempts[0].unread)


def _attempts(
    op: Operator, operands: tuple[object, ...], types: Sequence[TensorType], attrs: Mapping[str, object]
) -> Iterator[Bodies]:
    """The loops for sizes that are independent, and for sizes that are equal where they meet in a dim."""
    for aligned in (False, True) if len(types) > 1 else (False,):
        try:
            yield Bodies(op, operands, types, attrs, aligned)
        except RushlightError:  # loops for sizes that are known: each rank computes all of it
            continue


def _derived(bodies: Bodies) -> Derived:
    conditions = tuple([guard.condition for guard in bodies.scope.guards])
    divisions = tuple(dict.fromkeys([*output_divisions(bodies), *reductions(bodies)]))
    return Derived(divisions, tuple(bodies.symbols), conditions)
