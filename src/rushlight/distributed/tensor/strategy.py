"""Which division of a call each axis of the mesh gets: that whose operands are cheapest to bring there.

A choice depends on placements and sizes alone, never on the rank or on what was called before, so that all ranks make
the same collectives.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from rushlight.distributed.tensor.layout import shape_of
from rushlight.distributed.tensor.planning import cost
from rushlight.distributed.tensor.rule import Along, Derived, Division, Linear, Rule, Signature
from rushlight.distributed.tensor.spec import DTensorSpec, reduced_placements
from rushlight.ir.placement import Partial, Placement, Replicate, Shard
from rushlight.sym import Size, eq, floordiv, guard, mod, ne

_LINEAR_REDUCTIONS = ("sum", "avg")
_WHOLE = Replicate()
_ADDED = Partial()
_CHANGE = 1e-3  # what is free is still better left as it is


class Operand(NamedTuple):
    """One tensor operand of a call."""

    spec: DTensorSpec
    shape: tuple[Any, ...]
    itemsize: int


class Option(NamedTuple):
    """What one axis may do: the placements of operands and of the result, and the division that they come from."""

    operands: tuple[Placement, ...]
    result: Placement
    division: Division | None


class Choice(NamedTuple):
    """What is chosen for a call: the specs of operands and of results. `falls_back`: no rule fits, all are whole."""

    operands: tuple[DTensorSpec, ...]
    result: DTensorSpec
    divisions: tuple[Division | None, ...]
    falls_back: bool
    unread: frozenset[int] = frozenset()


def choose(rule: Rule, signature: Signature, operands: Sequence[Operand], shape: tuple[Any, ...]) -> Choice:
    """The cheapest divisions for operands that lie like this; `shape` is the result's."""
    divisions = rule.divisions(signature.values)
    operands = [_sized(operand) if at in rule.unread else operand for at, operand in enumerate(operands)]
    refused: set[tuple[int, Division]] = set()
    while True:
        choice = _chosen(tuple(divisions), rule.linear, operands, refused)
        wrong = _unfit(choice, operands, shape) or unmet(choice, divisions, signature, operands, shape)
        if wrong is None:
            return choice._replace(unread=rule.unread)
        refused.add(wrong)


def _sized(operand: Operand) -> Operand:
    """An operand of which sizes matter alone: partial values are as good as whole ones, and moving it costs nothing."""
    return Operand(operand.spec.with_placements(reduced_placements(operand.spec.placements)), operand.shape, 0)


def _chosen(
    divisions: Sequence[Division],
    linear: Sequence[Linear],
    operands: Sequence[Operand],
    refused: set[tuple[int, Division]],
) -> Choice:
    specs = [operand.spec for operand in operands]
    mesh = specs[0].mesh
    result = [_WHOLE] * mesh.ndim
    chosen: list[Division | None] = [None] * mesh.ndim
    results: list[Placement] = list(result)
    falls_back = False
    for axis in range(mesh.ndim):
        current = tuple([spec.placements[axis] for spec in specs])
        if all(placement is _WHOLE for placement in current):
            continue
        allowed = [division for division in divisions if (axis, division) not in refused]
        options = [*_options(allowed, linear, current), Option((_WHOLE,) * len(specs), _WHOLE, None)]
        priced = [(_price(option, axis, specs, operands), at) for at, option in enumerate(options)]
        best = options[min(priced)[1]]
        falls_back |= len(options) == 1
        chosen[axis], results[axis] = best.division, best.result
        specs = [
            spec.with_placements(_at(spec.placements, axis, placement))
            for spec, placement in zip(specs, best.operands, strict=True)
        ]
    order = _common_order(operands)
    ordered = tuple([DTensorSpec(mesh, spec.placements, order) for spec in specs])
    return Choice(ordered, DTensorSpec(mesh, results, order), tuple(chosen), falls_back)


def _common_order(operands: Sequence[Operand]) -> tuple[int, ...] | None:
    """The order in which axes cut: that of the first operand which says one."""
    plain = tuple(range(operands[0].spec.mesh.ndim))
    return next((operand.spec.order for operand in operands if operand.spec.order != plain), None)


def _at(placements: Sequence[Placement], axis: int, placement: Placement) -> list[Placement]:
    changed = list(placements)
    changed[axis] = placement
    return changed


def _options(
    divisions: Sequence[Division], linear: Sequence[Linear], current: tuple[Placement, ...]
) -> Iterator[Option]:
    for division in divisions:
        whole = [_ADDED if at in division.added else _WHOLE for at in range(len(current))]
        pairs = zip(division.operands, whole, strict=True)
        operands = tuple([other if along is None else Shard(along.dim) for along, other in pairs])
        if division.result is not None:
            yield Option(operands, Shard(division.result.dim), division)
        elif division.reduction is not None:
            yield Option(operands, Partial(division.reduction), division)
    for reduction in {one.reduce_op: None for one in current if isinstance(one, Partial)}:
        for one in linear:
            if reduction in _LINEAR_REDUCTIONS or one.moves:
                partial = Partial(reduction)
                placements = [partial if at in one.operands else _WHOLE for at in range(len(current))]
                yield Option(tuple(placements), partial, None)


def _price(option: Option, axis: int, specs: Sequence[DTensorSpec], operands: Sequence[Operand]) -> float:
    price = 0.0
    for spec, placement, operand in zip(specs, option.operands, operands, strict=True):
        if spec.placements[axis] is not placement:
            target = spec.with_placements(_at(spec.placements, axis, placement))
            price += _CHANGE + cost(spec, target, operand.shape, operand.itemsize)
    return price


def _unfit(choice: Choice, operands: Sequence[Operand], shape: tuple[Any, ...]) -> tuple[int, Division] | None:
    """An axis whose division does not fit these sizes: parts that belong together are cut at other places."""
    coordinates: list[tuple[int, ...]] | None = None
    for axis, division in enumerate(choice.divisions):
        if division is None:
            continue
        if coordinates is None:
            coordinates = list(itertools.product(*map(range, choice.result.mesh.shape)))
        if not all(_fits(division, choice, operands, shape, at) for at in coordinates):
            return axis, division
        if division.reduction == "avg" and not _is_even(division, choice, operands, coordinates):
            return axis, division
    return None


def unmet(
    choice: Choice,
    divisions: Mapping[Division, Derived],
    signature: Signature,
    operands: Sequence[Operand],
    shape: tuple[Any, ...],
) -> tuple[int, Division] | None:
    """An axis whose division was derived with conditions that the sizes of some rank's parts do not meet."""
    for axis, division in enumerate(choice.divisions):
        if division is None or not divisions[division].conditions:
            continue
        for at in itertools.product(*map(range, choice.result.mesh.shape)):
            shapes = [
                shape_of(spec.box(operand.shape, at)) for spec, operand in zip(choice.operands, operands, strict=True)
            ]
            result = shape_of(choice.result.box(shape, at))
            if not divisions[division].holds(signature.local(shapes, own_sizes(choice, shapes, result))):
                return axis, division
    return None


def own_sizes(choice: Choice, shapes: Sequence[tuple[Any, ...]], result: tuple[Any, ...]) -> dict[tuple[str, int], Any]:
    """The attributes, by name and place, that are sizes of what is divided: as a rank has it whose parts these are."""
    sizes: dict[tuple[str, int], Any] = {}
    for division in choice.divisions:
        for name, place, source in division.sizes if division is not None else ():
            held = result if source.operand is None else shapes[source.operand]
            sizes[name, place] = held[source.dim]
    return sizes


def _fits(
    division: Division,
    choice: Choice,
    operands: Sequence[Operand],
    shape: tuple[Any, ...],
    coordinate: tuple[int, ...],
) -> bool:
    """Whether the operands' and the result's parts at a coordinate are the same units."""
    units: list[tuple[Size, Size]] = []
    for along, spec, operand in zip(division.operands, choice.operands, operands, strict=True):
        if along is not None and not _add_units(units, spec, operand.shape, along, coordinate):
            return False
    if division.result is not None and not _add_units(units, choice.result, shape, division.result, coordinate):
        return False
    needs_elements = division.reduction in ("max", "min")
    if needs_elements and any(guard(eq(begin, end)) for begin, end in units):
        return False
    return all(_agree(units[0], other) for other in units[1:])


def _add_units(
    units: list[tuple[Size, Size]], spec: DTensorSpec, shape: tuple[Any, ...], along: Along, at: tuple[int, ...]
) -> bool:
    begin, end = spec.box(shape, at)[along.dim]
    unit = along.unit
    if unit != 1:
        whole = guard(ne(unit, 0)) and all(guard(eq(mod(place, unit), 0)) for place in (begin, end))
        if not whole:
            return guard(eq(begin, end))
        begin, end = floordiv(begin, unit), floordiv(end, unit)
    units.append((begin, end))
    return True


def _agree(one: tuple[Size, Size], other: tuple[Size, Size]) -> bool:
    """Whether two runs of units are the same, or both empty."""
    if all(guard(eq(a, b)) for a, b in zip(one, other, strict=True)):
        return True
    return all(guard(eq(begin, end)) for begin, end in (one, other))


def _is_even(
    division: Division, choice: Choice, operands: Sequence[Operand], coordinates: Sequence[tuple[int, ...]]
) -> bool:
    """Whether all ranks have as much to average over."""
    for along, spec, operand in zip(division.operands, choice.operands, operands, strict=True):
        if along is not None:
            boxes = [spec.box(operand.shape, at)[along.dim] for at in coordinates]
            sizes = [end - begin for begin, end in boxes]
            if guard(eq(sizes[0], 0)) or not all(guard(eq(sizes[0], size)) for size in sizes[1:]):
                return False
    return True
