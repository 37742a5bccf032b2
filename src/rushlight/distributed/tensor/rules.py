"""Sharding rules, derived from the loops of operators.

An operator's `lower` says which elements of its operands an element of a result is made of. If the result is shifted by
one place along an axis, and each operand's element along one dim with it, then that axis can be divided among ranks:
a `Division`. If an axis is reduced, the ranks' results are partial ones. Blocks of places shift together where dims are
merged or split. What is linear in some operands gives partial sums for partial sums.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set
from typing import Any

from rushlight.distributed.tensor.divisions import output_divisions, reductions
from rushlight.distributed.tensor.linearity import linear_sets
from rushlight.distributed.tensor.loops import Bodies
from rushlight.distributed.tensor.rule import Derived, Placeholder, Rule, Signature
from rushlight.distributed.tensor.spec import DTensorSpec
from rushlight.eager.execution.attributes import split_sizes, with_sizes
from rushlight.eager.execution.operands import structure_of, unflatten
from rushlight.ir.placement import Shard
from rushlight.ir.type import TensorType
from rushlight.ops.index_ranges import ranges_of
from rushlight.ops.record import Fact, Operator, calls_host
from rushlight.support.errors import RushlightError


def opened(types: Sequence[TensorType], specs: Sequence[DTensorSpec]) -> tuple[TensorType, ...]:
    """Types for rules, in which a dim of one place that is divided counts as one of several places.

    It does where all operands of as many dims have one place there: a sole row is then divided as several rows are,
    and does not go to another dim.
    """
    dims: dict[int, set[int]] = {}
    for type_, spec in zip(types, specs, strict=True):
        rank = len(type_.shape)
        sole = {one.dim for one in spec.placements if isinstance(one, Shard) and type_.shape[one.dim] == 1}
        dims[rank] = dims.get(rank, set()) | sole
    if not any(dims.values()):
        return tuple(types)
    for type_ in types:
        dims[len(type_.shape)] -= {dim for dim, size in enumerate(type_.shape) if size != 1}
    return tuple([_with_places(type_, dims[len(type_.shape)]) for type_ in types])


def _with_places(type_: TensorType, dims: Set[int]) -> TensorType:
    shape = tuple([2 if dim in dims else size for dim, size in enumerate(type_.shape)])
    return TensorType(shape, type_.dtype, type_.device, weak=type_.weak) if dims else type_


def signature_of(
    op: Operator,
    operands: tuple[object, ...],
    types: Sequence[TensorType],
    attrs: Mapping[str, object],
    shown: Sequence[TensorType],
) -> Signature:
    """The signature of a call: ranks, dtypes, which sizes are `shown` as 1, attributes that are no sizes."""
    static, sizes = split_sizes(op, attrs)
    forms = tuple([(type_.dtype, type_.weak, *[size == 1 for size in type_.shape]) for type_ in shown])
    dims = tuple([(at, dim) for at, one in enumerate(shown) for dim, seen in enumerate(one.shape) if seen != 1])
    values: list[Any] = [types[at].shape[dim] for at, dim in dims]
    places = [Placeholder(len(values) + at) for at in range(len(sizes))]
    attributes = with_sizes(op, attrs, places)
    return Signature((op, structure_of(operands), forms, static), (*values, *sizes), dims, attributes)


def derive(
    op: Operator, operands: tuple[object, ...], types: Sequence[TensorType], attrs: Mapping[str, object]
) -> Rule:
    """The rule of a call like this one. `operands` says which are there; `types` are those of all that are."""
    none = Rule((), (), frozenset())
    fixed = Fact.RANDOM | Fact.DATA_DEPENDENT | Fact.CONTROL
    if op.lower_rule is None or op.facts & fixed or calls_host(op, types, attrs):
        return none
    # What is asked of neighbouring elements, as that offsets ascend from 0, does not hold for parts.
    ranges = ranges_of(op, unflatten(structure_of(operands), types), attrs)
    if any(one.derived is not None for one in ranges):
        return none
    attempts = [*_attempts(op, operands, types, attrs)]
    # Indices into one place are not read, but they are checked.
    if not attempts or (ranges and attempts[0].unread):
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
