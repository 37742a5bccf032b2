"""Calls of operators on divided tensors: rule, choice, redistribution of operands, call on local parts, result.

Rules are kept by signature, without sizes; choices by sizes as well, since all ranks have to choose alike whatever
they have called before. While a function is traced nothing is read from these tables and nothing is put there.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rushlight.distributed.tensor.layout import shape_of
from rushlight.distributed.tensor.planning import keeps_value
from rushlight.distributed.tensor.prepared import Divided, count, forget, prepare
from rushlight.distributed.tensor.redistribute import redistributed
from rushlight.distributed.tensor.report import MODES
from rushlight.distributed.tensor.rule import Along, Division, Rule, Signature
from rushlight.distributed.tensor.rules import derive, opened, signature_of
from rushlight.distributed.tensor.spec import DTensorSpec, reduced_placements, sizes_of
from rushlight.distributed.tensor.strategy import Choice, Operand, choose, own_sizes, unmet
from rushlight.eager.dispatch import STATE, Key, call_function
from rushlight.eager.execution.decompose import decomposition, run_decomposition
from rushlight.eager.execution.operands import flatten, form_of_operand, structure_of, unflatten
from rushlight.eager.handle import Handle
from rushlight.eager.mutation import Mutation, bound
from rushlight.eager.symbols import wrap_size
from rushlight.ir.graph import NUMBER
from rushlight.ir.placement import Partial, Placement, Replicate, Shard
from rushlight.ir.type import TensorType
from rushlight.ir.value import map_operands
from rushlight.ops.dims import same_shape
from rushlight.ops.record import OPERATORS, Operator
from rushlight.support import events
from rushlight.support.errors import RushlightError, fail, require
from rushlight.sym import SizeExpr, eq, guard, guarding_hint_or_throw, product

_MOST_RULES = 1 << 14
_rules: dict[object, tuple[Rule, ...]] = {}
_choices: dict[object, Choice] = {}
_publishing = threading.Lock()  # ranks may be threads; tables are read without it, what is in them never changes


def cache_sizes() -> tuple[int, int, int]:
    """How many rules, choices and prepared calls are kept."""
    return sum(map(len, list(_rules.values()))), len(_choices), count()


def contents() -> str:
    """All rules and choices as text."""
    return repr((_rules, _choices))


def clear_caches() -> None:
    """Forgets all rules, choices and prepared calls."""
    with _publishing:
        _rules.clear()
        _choices.clear()
        forget()


def run(op: Any, args: tuple[object, ...], kwargs: Mapping[str, object]) -> Any:
    """Answers a call with divided tensors among its operands."""
    if isinstance(op, Mutation):
        return _write(op, args, dict(kwargs))
    operands, attrs = bound(op, args, kwargs)
    return _call(op, operands, attrs)


def _call(op: Operator, operands: tuple[Any, ...], attrs: Mapping[str, Any]) -> Any:
    if op.lower_rule is None and op.decompose_rule is not None:
        return _composite(op, operands, attrs)
    flat = flatten(operands)
    mesh_spec = _whole_spec(op.name, flat)
    types = [form_of_operand(operand).type for operand in flat]
    inferred = op.infer(unflatten(structure_of(operands), types), attrs)
    several = isinstance(inferred, tuple)
    results: tuple[TensorType, ...] = inferred if several else (inferred,)
    attrs = _completed(op, attrs, results[0])
    taken = [Operand(_spec_of(one, mesh_spec), sizes_of(t), t.dtype.itemsize) for one, t in zip(flat, types)]
    choice = _choice(op, operands, types, attrs, taken, sizes_of(results[0]))
    if choice.falls_back and not all(operand.spec.is_replicated for operand in taken):
        events.fallback("W023", f"{op.name}: each rank computes all of it")
    copied = False
    parts: list[object] = []
    for at, (one, operand, spec) in enumerate(zip(flat, taken, choice.operands, strict=True)):
        if at in choice.unread and isinstance(one, Divided.kind):
            parts.append(_of_sizes(one, shape_of(spec.box(operand.shape))))
            continue
        if not isinstance(one, Divided.kind):
            parts.append(_divided_plain(one, operand, spec, op.name))
            continue
        parts.append(redistributed(one._local_tensor, operand.spec, spec, operand.shape, op.name, True))
        copied |= operand.spec is not spec
    local_attrs = _own_sizes(choice, attrs, taken, results[0])
    found = call_function(op, unflatten(structure_of(operands), parts), local_attrs)
    made = [
        _wrapped(op, local, choice.result, type_)
        for local, type_ in zip(found if several else (found,), results, strict=True)
    ]
    if copied and op.view_rule is not None:
        for result in made:
            result._is_copy = True
    as_they_lie = all(operand.spec is spec for operand, spec in zip(taken, choice.operands, strict=True))
    if as_they_lie and op.view_rule is None and local_attrs is attrs and STATE.tracer is None:
        prepare(op, operands, attrs, choice.result, results, several)
    return tuple(made) if several else made[0]


def _of_sizes(one: Any, shape: tuple[Any, ...]) -> Any:
    """A part of some sizes, of which nothing is read."""
    local = one._local_tensor
    return local if tuple(local.form.shape) == shape else local.new_empty(tuple(map(wrap_size, shape)))


def _divided_plain(one: object, operand: Operand, spec: DTensorSpec, name: str) -> object:
    if operand.spec is spec:
        return one
    if not isinstance(one, Handle):
        kind: Any = type(one)
        return one if _keeps_number(spec) else kind(0)
    local: Any = one
    return redistributed(local, operand.spec, spec, operand.shape, name, True)


def _keeps_number(spec: DTensorSpec) -> bool:
    """Whether this rank has a number's value where it is taken as a partial one, or 0."""
    coordinate = spec.mesh.own_coordinate()
    pairs = zip(spec.placements, coordinate, strict=True)
    return all(keeps_value(one, index == 0) for one, index in pairs if isinstance(one, Partial))


def _whole_spec(name: str, flat: Sequence[object]) -> DTensorSpec:
    """Whole on each rank of the operands' mesh. Errors: W020, W021."""
    known: list[Any] = [one for one in flat if isinstance(one, Divided.kind)]
    specs: list[DTensorSpec] = list({id(one._spec.mesh): one._spec for one in known}.values())
    if len(specs) > 1:
        fail("W021", f"{name}: operands lie on different meshes", first=specs[0].mesh, other=specs[1].mesh)
    # What a backward pass or a decomposition makes besides, all ranks make alike.
    lenient = MODES.replicating or STATE.engaged is not None or any(one.name != name for one, _ in STATE.running)
    for one in flat:
        if isinstance(one, Handle) and not isinstance(one, Divided.kind):
            plain = lenient or one.form.numel == 1
            require(plain, "W020", f"{name}: a plain tensor beside divided ones", tensor=one, divided=specs[0])
    mesh = specs[0].mesh
    return DTensorSpec(mesh, [Replicate()] * mesh.ndim)


def _spec_of(one: Any, whole: DTensorSpec) -> DTensorSpec:
    return one._spec if isinstance(one, Divided.kind) else whole


def _choice(
    op: Operator,
    operands: tuple[Any, ...],
    types: Sequence[TensorType],
    attrs: Mapping[str, Any],
    taken: Sequence[Operand],
    shape: tuple[Any, ...],
) -> Choice:
    specs = tuple([operand.spec for operand in taken])
    traced = STATE.tracer is not None
    examples, example_attrs = _example(op, types, attrs) if traced else (types, attrs)
    shown = opened(examples, specs)
    was_opened = any(one is not other for one, other in zip(shown, examples, strict=True))
    if was_opened and not _has_rank(op, operands, shown, example_attrs, len(shape)):
        shown = tuple(examples)  # a dim of one place matters, as to `squeeze`
    signature = signature_of(op, operands, examples, example_attrs, shown)
    if traced:
        signature = signature.of_trace(types, attrs)
    key = (signature.key, signature.values, specs)
    known = None if traced else _choices.get(key)
    if known is not None:
        return known
    rule = _rule(signature, op, operands, shown, example_attrs, traced)
    choice = choose(rule, signature, taken, shape)
    if not traced:
        with _publishing:
            if len(_choices) >= _MOST_RULES:
                _choices.clear()
            _choices[key] = choice
    return choice


def _has_rank(
    op: Operator, operands: tuple[Any, ...], types: Sequence[TensorType], attrs: Mapping[str, Any], rank: int
) -> bool:
    """Whether the first result for operands of these types has so many dims."""
    try:
        inferred = op.infer(unflatten(structure_of(operands), types), attrs)
    except RushlightError:
        return False
    first = inferred[0] if isinstance(inferred, tuple) else inferred
    return len(first.shape) == rank


def _example(
    op: Operator, types: Sequence[TensorType], attrs: Mapping[str, Any]
) -> tuple[list[TensorType], Mapping[str, Any]]:
    """Types and attributes with the sizes of the example that is traced: what the rule of a call is derived with."""
    examples = [TensorType(tuple(map(_example_size, one.shape)), one.dtype, one.device, weak=one.weak) for one in types]
    return examples, {name: _example_attr(value) for name, value in attrs.items()}


def _example_attr(value: Any) -> Any:
    if isinstance(value, tuple):
        return tuple([_example_attr(part) for part in value])
    return _example_size(value) if isinstance(value, SizeExpr) else value


def _example_size(size: Any) -> int:
    """A size of the example; a trace is fixed to 1, which broadcasts."""
    example = guarding_hint_or_throw(size)
    if example == 1:
        guard(eq(size, 1))
    return example


def _rule(
    signature: Signature,
    op: Operator,
    operands: tuple[Any, ...],
    types: Sequence[TensorType],
    attrs: Mapping[str, Any],
    traced: bool,
) -> Rule:
    known = () if traced else _rules.get(signature.key, ())
    for rule in known:
        if rule.holds(signature.values):
            return rule
    rule = derive(op, operands, types, attrs)
    if not traced:
        with _publishing:
            if len(_rules) >= _MOST_RULES:
                _rules.clear()
            _rules[signature.key] = (*_rules.get(signature.key, ()), rule)
    return rule


def _completed(op: Operator, attrs: Mapping[str, Any], result: TensorType) -> Mapping[str, Any]:
    """The attributes with the sizes that -1 stands for in the new shape of a view."""
    if op.view_rule is None:
        return attrs
    rank = len(result.shape)
    shapes = [
        parameter.name
        for parameter in op.schema.attributes
        if parameter.type == "Size[]" and isinstance(attrs[parameter.name], tuple) and -1 in attrs[parameter.name]
    ]
    return {**attrs, **{name: sizes_of(result) for name in shapes if len(attrs[name]) == rank}}


def _own_sizes(
    choice: Choice, attrs: Mapping[str, Any], taken: Sequence[Operand], result: TensorType
) -> Mapping[str, Any]:
    """The attributes with this rank's sizes of what is divided."""
    if not any(division is not None and division.sizes for division in choice.divisions):
        return attrs
    shapes = [shape_of(spec.box(one.shape)) for spec, one in zip(choice.operands, taken, strict=True)]
    changed = dict(attrs)
    for (name, place), size in own_sizes(choice, shapes, shape_of(choice.result.box(sizes_of(result)))).items():
        value = changed[name]
        changed[name] = (*value[:place], size, *value[place + 1 :]) if isinstance(value, tuple) else size
    return changed


def _wrapped(op: Operator, local: Any, spec: DTensorSpec, type_: TensorType) -> Any:
    """A result of local parts; its shape is checked, since everything that follows relies on it."""
    expected = shape_of(spec.box(sizes_of(type_)))
    fits = same_shape(local.form.shape, expected)
    if not fits and op.view_rule is not None and guard(eq(local.form.numel, product(expected))):
        # Dims of which the rank has one place were taken for dims of size 1.
        local = local.reshape(tuple(map(wrap_size, expected)))
        fits = same_shape(local.form.shape, expected)
    if not fits:
        fail("X002", f"{op.name}: the part of a result has another shape", part=local, expected=expected, spec=spec)
    return Divided.make(local, spec, type_)


def _composite(op: Operator, operands: tuple[Any, ...], attrs: Mapping[str, Any]) -> Any:
    """The calls that an operator consists of. What depends on sizes alone is divided as the first operand is."""
    flat = flatten(operands)
    _whole_spec(op.name, flat)
    first = next(one for one in flat if isinstance(one, Divided.kind))
    graph = decomposition(op, operands, attrs)
    used = {id(operand) for call in graph.calls for operand in flatten(call.operands)}
    if not any(id(parameter) in used for parameter in graph.parameters) and len(graph.outputs) == 1:
        spec = first._spec.with_placements(reduced_placements(first._spec.placements))
        calls = [call for call in graph.calls if call.op is not NUMBER]
        same = tuple(graph.outputs[0].type.shape) == tuple(first.form.shape)
        if len(calls) == 1 and same and calls[0] is graph.outputs[0]:
            values = {id(call): call.attr("value") for call in graph.calls if call.op is NUMBER}
            numbers = map_operands(calls[0].operands, lambda operand: values[id(operand)])
            made: Any = calls[0].op
            return create(made, numbers, dict(calls[0].attrs), spec)
    result = run_decomposition(op, Key.PYTHON, operands, attrs)
    if isinstance(result, Handle):
        return _as_divided(result, first)
    return tuple([_as_divided(one, first) for one in result]) if isinstance(result, tuple) else result


def create(op: Operator, operands: tuple[Any, ...], attrs: Mapping[str, Any], spec: DTensorSpec) -> Any:
    """A new divided tensor, of a call without divided operands: of each rank's part alone where all elements are alike.

    Else each rank makes all of it and keeps its part: so random numbers do not depend on placements.
    """
    flat = flatten(operands)
    types = [form_of_operand(operand).type for operand in flat]
    inferred: TensorType = op.infer(unflatten(structure_of(operands), types), attrs)
    whole = DTensorSpec(spec.mesh, [Replicate()] * spec.mesh.ndim)
    traced = STATE.tracer is not None
    examples, example_attrs = _example(op, types, attrs) if traced else (types, attrs)
    signature = signature_of(op, operands, examples, example_attrs, examples)
    if traced:
        signature = signature.of_trace(types, attrs)
    divisions = _rule(signature, op, operands, examples, example_attrs, traced).divisions(signature.values)
    own = tuple([_creating(divisions, placement) for placement in spec.placements])
    choice = Choice(tuple([whole] * len(flat)), spec, own, False)
    taken = [Operand(whole, sizes_of(type_), 0) for type_ in types]
    fits = all(placement.is_replicate() or one is not None for placement, one in zip(spec.placements, own, strict=True))
    if fits and unmet(choice, divisions, signature, taken, sizes_of(inferred)) is None:
        local = call_function(op, operands, _own_sizes(choice, attrs, taken, inferred))
    else:
        made = call_function(op, operands, attrs)
        local = redistributed(made, whole, spec, sizes_of(inferred), op.name, False)
    return Divided.make(local, spec, inferred)


def _creating(divisions: Iterable[Division], placement: Placement) -> Division | None:
    """The division of a dim of a result that is made of whole operands."""
    if not isinstance(placement, Shard):
        return None
    wanted = Along(placement.dim, 1)
    plain = [one for one in divisions if one.result == wanted and not any(one.operands)]
    return plain[0] if plain else None


def _as_divided(result: Any, like: Any) -> Any:
    """A plain result of a composite: what it makes besides, whole on each rank, or divided as the operand."""
    if isinstance(result, Divided.kind) or not isinstance(result, Handle):
        return result
    spec: DTensorSpec = like._spec
    whole = target = DTensorSpec(spec.mesh, [Replicate()] * spec.mesh.ndim)
    if sizes_of(result.form.type) == tuple(like.form.shape):
        target = spec.with_placements(reduced_placements(spec.placements))
    local: Any = result
    local = redistributed(local, whole, target, sizes_of(result.form.type), "like", False)
    return Divided.make(local, target, result.form.type)


# Writes.


def _write(op: Mutation, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    target = kwargs.pop("out") if op.out else args[0]
    require(isinstance(target, Divided.kind), "W020", f"{op.name}: the target is a plain tensor", target=target)
    if getattr(target, "_is_copy", False):
        fail("W026", f"{op.name}: the view does not share its base's memory", target=target)
    if op.base is None:
        value = args[1]
    else:
        operands, attrs = bound(op.base, args, kwargs)
        value = _call(op.base, operands, attrs)
    if isinstance(value, Handle):
        op.check(target.form.type, value.form.type)
    local = _value_for(op, target, value)
    if isinstance(local, Handle):
        target._local_tensor.copy_(local)
    else:
        target._local_tensor.fill_(local)
    return target


def _value_for(op: Mutation, target: Any, value: Any) -> Any:
    """The part of a value that the target's part is to be."""
    spec: DTensorSpec = target._spec
    shape = tuple(target.form.shape)
    if not isinstance(value, Divided.kind):
        single = not isinstance(value, Handle) or value.form.numel == 1
        if single and not any(one.is_partial() for one in spec.placements):
            return value
        whole = _whole_spec(op.name, [target, value])
        if single:
            value = OPERATORS["full"](shape, value, dtype=target.form.dtype)
        value = Divided.make(value, whole, value.form.type)
    if tuple(value.form.shape) != shape:
        value = _call(OPERATORS["expand"], (value,), {"size": shape})
    return redistributed(value._local_tensor, value._spec, spec, shape, op.name, True)
