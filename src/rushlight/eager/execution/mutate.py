"""In-place and `out=` forms: straight into the target where that is safe, else into a fresh tensor and then copied."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any, NamedTuple

from rushlight.eager.execution.artifact import artifact_for, with_run_time_sizes
from rushlight.eager.execution.attributes import split_sizes, with_sizes
from rushlight.eager.execution.bounds import checks_of, run_checks
from rushlight.eager.execution.operands import (
    PLAIN,
    attribute_key,
    flatten,
    form_key,
    form_of_operand,
    structure_of,
    unflatten,
)
from rushlight.eager.execution.plan import KernelPlan, Launch
from rushlight.eager.execution.signature import Signature, collapsed_signature, signature_of
from rushlight.eager.execution.tables import block_key, plan_table
from rushlight.eager.handle import Handle, fit_empty
from rushlight.eager.mutation import COPY, Mutation, computed_value, written_value
from rushlight.ir.graph import Graph, GraphBuilder, Node
from rushlight.ir.type import TensorType, dense_order
from rushlight.ops.record import OPERATORS, Fact
from rushlight.support.errors import fail, require
from rushlight.sym import Size, le, maximum, minimum, product, required, statically_known

_MOST_PLANS = 1 << 13
_SAME, APART, _OVERLAP = "same", "apart", "overlap"
DISJOINT = "a write: elements of the target do not overlap"
Run = Callable[[Any, int, tuple[Any, ...], Mapping[str, Any]], Any]
Write = Callable[[tuple[Any, ...]], Any]
"""Writes to the last of its operands; without one a value is computed and then copied."""


class PlannedWrite(NamedTuple):
    """A launch on what the value is computed from, and then on the target if that is `apart` from these."""

    launch: Launch
    apart: bool


_plans: dict[Hashable, Write | None] = plan_table()
_launches: dict[Write, PlannedWrite] = plan_table()


def run_mutation(op: Mutation, operands: tuple[Any, ...], attrs: Mapping[str, object], run: Run) -> Any:
    """Computes and writes; counts the write; returns the target. `run` runs a functional operator on this device."""
    target = target_of(op, operands, attrs)
    _write(op, op.base_operands(operands), attrs, target, run)
    target.version.value += 1
    return target


def target_of(op: Mutation, operands: tuple[Any, ...], attrs: Mapping[str, object]) -> Handle:
    """What is written to, with memory for the value if it has none. Errors: D003."""
    target: Handle = op.target_of(operands)
    if op.out and op.base is not None and not target.form.numel:
        value = _value_type(op, op.base_operands(operands), attrs)
        op.check_dtype(target.form.type, value)
        fit_empty(target, value.shape)
    return target


def planned_write(op: Mutation, operands: tuple[Any, ...], attrs: Mapping[str, object]) -> PlannedWrite | None:
    """How an in-place form writes, if it has a plan that is one short launch; None for `out=` forms."""
    target = op.target_of(operands)
    write = None if op.out else _plans.get(_key_of(op, op.base_operands(operands), attrs, target))
    return None if write is None else _launches.get(write)


def _key_of(op: Mutation, base: tuple[Any, ...], attrs: Mapping[str, Any], target: Handle) -> Hashable:
    parts: list[Any] = [op, block_key(), target.form]
    if attrs:
        parts.append(attribute_key(attrs))
    for operand in base:
        if isinstance(operand, Handle):
            parts += (operand.form, _SAME if operand is target else relation(operand, target))
        elif operand.__class__ is tuple:
            relations = [relation(one, target) if isinstance(one, Handle) else APART for one in operand]
            parts += (form_key(operand), *relations)
        else:
            kind = operand.__class__
            parts.append(kind if kind in PLAIN else form_key(operand))
    return tuple(parts)


def _write(op: Mutation, base: tuple[Any, ...], attrs: Mapping[str, Any], target: Handle, run: Run) -> None:
    key = _key_of(op, base, attrs, target)
    try:
        write = _plans[key]
    except KeyError:
        write = _make_plan(op, base, attrs, target)
        if len(_plans) > _MOST_PLANS:
            _plans.clear()
            _launches.clear()
        _plans[key] = write
    if write is not None:
        write((*base, target))
    elif op.base is not None:
        _write(COPY, (run(op.base, 0, base, attrs),), {}, target, run)
    else:
        _write(COPY, (run(OPERATORS["to_dtype"], 0, base, {"dtype": base[0].dtype}),), {}, target, run)


def relation(operand: Handle, target: Handle) -> str:
    """How an operand lies to the target: the same elements, no common bytes, or neither."""
    storage = operand.backing
    if storage is not target.backing:
        foreign = storage is not None and storage.owner is not None
        return _OVERLAP if foreign and _share_memory(operand, target) else APART
    if operand.offset == target.offset and operand.form is target.form:
        return _SAME
    start, other = operand.address(), target.address()
    apart = start + operand.form.nbytes <= other or other + target.form.nbytes <= start
    return APART if apart else _OVERLAP


def _share_memory(operand: Handle, target: Handle) -> bool:
    """Two storages on the same foreign memory, such as two imports of one numpy array."""
    one, two = operand.backing, target.backing
    if one is None or two is None or one.owner is None or two.owner is None:
        return False
    return one.address < two.address + two.nbytes and two.address < one.address + one.nbytes


def shows_twice(type_: TensorType) -> bool:
    """Whether several indices may lead to one place; that none do is asserted where sizes are not known.

    In ascending order each stride has to be longer than all dims before it reach. An empty tensor has no places.
    """
    if dense_order(type_.shape, type_.strides) is not None:
        return False
    rows = [(stride, size) for stride, size in zip(type_.strides, type_.shape, strict=True) if not _is_one(size)]
    filled = minimum(product(type_.shape), 1)
    for position, (stride, size) in enumerate(rows):
        reach: Size = 0
        for other, (step, count) in enumerate(rows):
            if other != position:  # of equal strides the first one comes first
                before = minimum(maximum(stride - step + (other < position), 0), 1)
                reach = reach + before * step * maximum(count - 1, 0)
        several = minimum(maximum(size - 1, 0), 1)
        apart = several * (reach + 1 - stride)
        if not statically_known(le(apart, 0)) and not required(le(filled * apart, 0), DISJOINT):
            return True
    return False


def _is_one(size: Size) -> bool:
    return isinstance(size, int) and size == 1


def _value_type(op: Mutation, base: tuple[object, ...], attrs: Mapping[str, object]) -> TensorType:
    """The type of what a mutation computes."""
    types = unflatten(structure_of(base), [form_of_operand(operand).type for operand in flatten(base)])
    value = types[0] if op.base is None else op.base.infer(types, attrs)
    if isinstance(value, tuple):
        fail("A006", f"{op.name}: operators with several results have no in-place form")
    return value


def check_target(op: Mutation, base: tuple[object, ...], attrs: Mapping[str, object], target: Handle) -> None:
    """D003, S009 or S013 where the value of a mutation cannot be written to its target."""
    value, type_ = _value_type(op, base, attrs), target.form.type
    require(op.fills or not shows_twice(type_), "S013", f"{op.name}: the target's elements overlap", target=type_)
    op.check(type_, value)


def _make_plan(op: Mutation, base: tuple[object, ...], attrs: Mapping[str, object], target: Handle) -> Write | None:
    flat, form = flatten(base), target.form
    check_target(op, base, attrs, target)
    pointwise = op.base is None or (Fact.POINTWISE in op.base.facts and Fact.RANDOM not in op.base.facts)
    if pointwise and not form.numel:  # others may refuse values, as an index that is out of range
        return KernelPlan(None, (*base, target), [], (), structure_of((*base, target))).run
    relations = [relation(operand, target) if isinstance(operand, Handle) else APART for operand in flat]
    if _OVERLAP in relations:
        return None
    if pointwise:
        return _direct(op, base, attrs, target, relations)
    # Only the places are written then: no pass over the whole target. What is written, and where, is read meanwhile.
    writes = op.base is not None and Fact.WRITES in op.base.facts and form.numel
    alone = relations[0] == _SAME and all(relation == APART for relation in relations[1:])
    return _checked_writes(op, base, attrs, target, relations) if writes and alone else None


def _checked_writes(
    op: Mutation, base: tuple[object, ...], attrs: Mapping[str, object], target: Handle, relations: Sequence[str]
) -> Write:
    """Writes at places that tensors name, which are checked first: a call that fails has written nothing."""
    functional = op.base
    assert functional is not None
    checks, write = checks_of(functional, base, attrs), _direct(op, base, attrs, target, relations)

    def checked(operands: tuple[Any, ...]) -> Any:
        run_checks(functional, checks, operands[:-1])
        return write(operands)

    return checked


def _with_target_first(signature: Signature) -> Signature:
    """The signature of operands of which the first is the target: it is named last once more."""
    return Signature((*signature.specs, signature.specs[0]), signature.values, (*signature.words, signature.words[0]))


def _direct(
    op: Mutation, base: tuple[object, ...], attrs: Mapping[str, object], target: Handle, relations: Sequence[str]
) -> Write:
    structure = structure_of(base)
    forms = [form_of_operand(operand) for operand in flatten(base)]
    elementwise = op.base is None or Fact.POINTWISE in op.base.facts
    # Operators that are not keep their operands' dims, and are run so only where the target is the first of these.
    signature = collapsed_signature(forms, target.form) if elementwise else _with_target_first(signature_of(forms))
    # The target is written through the parameter that reads it, so that the compiler sees one buffer, not two.
    readers = [
        at for at, relation in enumerate(relations) if relation == _SAME and signature.specs[at] == signature.specs[-1]
    ]
    position = readers[0] if readers else len(forms)
    static, sizes = split_sizes(op.base, attrs) if op.base is not None else ((), [])

    def trace(builder: GraphBuilder, nodes: Sequence[Node], symbols: Sequence[object]) -> Graph:
        named = attrs if op.base is None else with_sizes(op.base, attrs, symbols)
        operands = unflatten(structure, nodes[: len(forms)])
        value = computed_value(builder, op, operands, named)
        return builder.graph((), [(position, written_value(op, value, nodes[position].type))])

    if readers:
        signature = Signature(signature.specs[:-1], signature.values, signature.words[:-1])
    signature = with_run_time_sizes(signature, sizes)
    program = (op, static, structure, position)
    executable = artifact_for(program, trace, signature, bool(sizes), target.form.device)
    used = (*base, None if readers else target)
    fitting = target.form.dtype if op.base is None or Fact.FITTING in op.base.facts else None
    plan = KernelPlan(executable, used, signature.words, (), structure_of(used), fitting=fitting)
    if plan.launch is not None:
        _launches[plan.run] = PlannedWrite(plan.launch, not readers)
    return plan.run
