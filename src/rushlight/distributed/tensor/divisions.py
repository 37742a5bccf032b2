"""The ways to divide a call among ranks that its loops allow: along axes of its results, and along what it reduces."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

from rushlight.distributed.tensor.linearity import is_linear, is_zero
from rushlight.distributed.tensor.loops import Bodies, Uses, expression_of
from rushlight.distributed.tensor.rule import Along, Division, SizeOf
from rushlight.ir.loops import Scatter
from rushlight.ir.scalar import OPS, SUMS, Scalar, bound_axes
from rushlight.sym import Size, SizeExpr, axis_size, axis_symbol, floordiv, free_symbols, is_axis, substitute
from rushlight.sym.expr import FLOORDIV, terms
from rushlight.sym.query import bottom_up

_PARTIAL_OF: Mapping[str, str] = MappingProxyType(
    {"prod": "product", "max": "max", "min": "min", "any": "max", "all": "min"}
)


# Axes of results.


def output_divisions(bodies: Bodies) -> Iterator[Division]:
    """The divisions along dims of the results."""
    shape = bodies.results[0].shape
    if any(type_.shape != shape for type_ in bodies.results):
        return
    for dim, axis in enumerate(bodies.axes):
        if shape[dim] == 1:
            continue
        moved = _moved_axes(bodies, dim, axis)
        if moved is None:
            continue
        axes, uses = moved
        for unit in _units(uses, axes):
            division = _divided(bodies, uses, axes, Along(dim, unit), None)
            if division is not None:
                yield division


def _moved_axes(bodies: Bodies, dim: int, axis: SizeExpr) -> tuple[list[SizeExpr], Uses] | None:
    """The axes that run along a dim of the result, a scatter's own one too; and all that is read."""
    axes, roots = [axis], list[Scalar]()
    for body in bodies.bodies:
        if not isinstance(body, Scatter):
            roots.append(body)
            continue
        place = body.index[dim]
        place = expression_of(place) if isinstance(place, Scalar) else place
        if (
            not is_axis(place)
            or place not in body.axes
            or bodies.resolved(axis_size(place)) != bodies.resolved(bodies.results[0].shape[dim])
        ):
            return None
        axes.append(place)
        roots.extend([body.initial, body.value])
        for other, index in enumerate(body.index):
            if other != dim:
                roots.append(index if isinstance(index, Scalar) else _as_scalar(index))
    return axes, Uses(bodies, roots)


def _as_scalar(size: Size) -> Scalar:
    from_size: Any = OPS["index"]
    return Scalar(from_size, (), (("expr", size),), None)


def _units(uses: Uses, axes: Sequence[SizeExpr]) -> list[Size]:
    """How many places may belong together: one, or a divisor in an index."""
    units: dict[Size, None] = {1: None}
    indices = [index for _, found in uses.loads for index in found if isinstance(index, SizeExpr)]
    for expr in (*indices, *[bare for bare in uses.bare if isinstance(bare, SizeExpr)]):
        for node in bottom_up(expr):
            if node.op is FLOORDIV and any(axis in free_symbols(node.operands[0]) for axis in axes):
                units[node.operands[1]] = None
    return list(units)


def _divided(
    bodies: Bodies, uses: Uses, axes: Sequence[SizeExpr], result: Along | None, reduction: str | None
) -> Division | None:
    """The division of these axes, which move together; None where parts do not suffice."""
    unit = 1 if result is None else result.unit
    shift = axis_symbol(1 << 40, "t")
    step = {axis: axis + unit * shift for axis in axes}

    def moves(index: Size) -> Size:
        moved = substitute(index, step)
        return bodies.resolved(moved - index)

    if any(moves(bare) != 0 for bare in uses.bare):
        return None
    places = _places(bodies, uses, moves, shift)
    if places is None:
        return None
    count = _count(bodies, axes[0], unit, places)
    if count is None:
        return None
    places = _with_unread(bodies, places, count)
    return _checked(bodies, uses, axes, Division(places, result, reduction, ()), set(free_symbols(count)))


def _places(bodies: Bodies, uses: Uses, moves: Any, shift: SizeExpr) -> tuple[Along | None, ...] | None:
    """For each operand the dim that moves, the same in all that is read of it."""
    found: dict[int, Along | None] = {}
    for operand, indices in uses.loads:
        along: Along | None = None
        for dim, index in enumerate(indices):
            if not isinstance(index, SizeExpr):
                continue
            distance = moves(index)
            if distance == 0:
                continue
            step = _multiple(distance, shift)
            if step is None or along is not None:
                return None
            along = Along(dim, step)
        if found.setdefault(operand, along) != along:
            return None
    return tuple([found.get(position) for position in range(len(bodies.buffers))])


def _multiple(distance: Size, shift: SizeExpr) -> Size | None:
    """`distance / shift`, where that depends on no axis."""
    if isinstance(distance, int):
        return None
    quotient: Size = 0
    for term, factor in terms(distance):
        if shift not in free_symbols(term):
            return None
        quotient = quotient + floordiv(term, shift) * factor
    if quotient * shift != distance:
        return None
    return None if any(is_axis(symbol) for symbol in free_symbols(quotient)) else quotient


def _count(bodies: Bodies, axis: SizeExpr, unit: Size, places: tuple[Along | None, ...]) -> Size | None:
    """How many units there are; None unless the sizes of all that moves agree on it."""
    whole = bodies.resolved(axis_size(axis))
    sizes = [(whole, unit)]
    for buffer, along in zip(bodies.buffers, places, strict=True):
        if along is not None:
            sizes.append((bodies.resolved(buffer.type.shape[along.dim]), along.unit))
    count = next((size for size, own in sizes if own == 1), None)
    if count is None or isinstance(count, int):
        return None
    agree = all(bodies.resolved(count * own) == size for size, own in sizes)
    return count if agree else None


def _with_unread(bodies: Bodies, places: tuple[Along | None, ...], count: Size) -> tuple[Along | None, ...]:
    """Operands of which only sizes matter are divided in the dim that has as many places."""
    found = list(places)
    for position in bodies.unread:
        shape = [bodies.resolved(size) for size in bodies.buffers[position].type.shape]
        if shape.count(count) == 1:
            found[position] = Along(shape.index(count), 1)
    return tuple(found)


def _checked(
    bodies: Bodies, uses: Uses, axes: Sequence[SizeExpr], division: Division, own: set[SizeExpr]
) -> Division | None:
    """The division, unless something else depends on the number of units."""

    def depends(size: Size) -> bool:
        return not own.isdisjoint(free_symbols(bodies.resolved(size)))

    result = division.result
    loads = [index for _, found in uses.loads for index in found if index is not None]
    if any(depends(index) for index in (*loads, *uses.bare)):
        return None
    if any(depends(axis_size(axis)) for axis in uses.bound if axis not in axes):
        return None
    for type_ in bodies.results:
        if any(depends(size) for dim, size in enumerate(type_.shape) if result is None or dim != result.dim):
            return None
    for buffer, along in zip(bodies.buffers, division.operands, strict=True):
        if any(depends(size) for dim, size in enumerate(buffer.type.shape) if along is None or dim != along.dim):
            return None
        if along is not None and depends(along.unit):
            return None
    if result is not None and depends(result.unit):
        return None
    return _with_sizes(bodies, division, depends)


def _with_sizes(bodies: Bodies, division: Division, depends: Any) -> Division | None:
    """The division with the attributes that are sizes of what is divided."""
    known: dict[Size, SizeOf] = {}
    for position, along in enumerate(division.operands):
        if along is not None:
            known[bodies.resolved(bodies.buffers[position].type.shape[along.dim])] = SizeOf(position, along.dim)
    if division.result is not None:
        known[bodies.resolved(bodies.results[0].shape[division.result.dim])] = SizeOf(None, division.result.dim)
    sizes: list[tuple[str, int, SizeOf]] = []
    for name, value in bodies.attrs.items():
        for place, size in enumerate(value if isinstance(value, tuple) else (value,)):
            if isinstance(size, SizeExpr) and depends(size):
                source = known.get(bodies.resolved(size))
                if source is None:
                    return None
                sizes.append((name, place, source))
    return division._replace(sizes=tuple(sizes))


# Axes of reductions.


def reductions(bodies: Bodies) -> Iterator[Division]:
    """The divisions along axes that are reduced, whose results are partial."""
    if len(bodies.bodies) != 1:
        return
    body = bodies.bodies[0]
    if isinstance(body, Scatter):
        yield from _combined(bodies, body)
        return
    found = _reduced(bodies, body)
    if found is None:
        return
    reduced, divisor, added = found
    kind = "sum" if reduced.op is OPS["contract"] else str(reduced.attr("kind"))
    name = "sum" if kind in SUMS else _PARTIAL_OF[kind]
    if name != "sum" and (divisor is not None or added):
        return
    uses = Uses(bodies, [reduced])
    if not added.isdisjoint({operand for operand, _ in uses.loads}):
        return
    for axis in bound_axes(reduced):
        partial = name
        if divisor is not None:
            count, size = bodies.resolved(divisor), bodies.resolved(axis_size(axis))
            if isinstance(size, int) or bodies.resolved(floordiv(count, size) * size) != count:
                continue
            partial = "avg"
        division = _divided(bodies, uses, [axis], None, partial)
        if division is not None:
            yield division._replace(added=added)


class _Reduced(NamedTuple):
    """A reduction, the size that it is divided by, and the operands that are added to it."""

    term: Scalar
    divisor: Size | None
    added: frozenset[int]


def _reduced(bodies: Bodies, body: Scalar) -> _Reduced | None:
    """The reduction that a scalar is, but for casts, a division and what is added."""
    divisor: Size | None = None
    added: set[int] = set()
    while not bound_axes(body):
        if body.op is OPS["cast"] and (body.type.kind is body.operands[0].type.kind):
            body = body.operands[0]
        elif body.op is OPS["div"] and divisor is None and not added and _size_in(body.operands[1]) is not None:
            body, divisor = body.operands[0], _size_in(body.operands[1])
        elif body.op is OPS["add"] and divisor is None:
            body, other = body.operands if _reduces(body.operands[0]) else body.operands[::-1]
            operands = {operand for operand, _ in Uses(bodies, [other]).loads}
            if not is_linear(bodies, other, operands):
                return None
            added |= operands
        else:
            return None
    return _Reduced(body, divisor, frozenset(added))


def _reduces(scalar: Scalar) -> bool:
    while scalar.op is OPS["cast"]:
        scalar = scalar.operands[0]
    return bool(bound_axes(scalar))


def _size_in(scalar: Scalar) -> Size | None:
    while scalar.op is OPS["cast"]:
        scalar = scalar.operands[0]
    return scalar.attr("expr") if scalar.op is OPS["index"] else None


def _combined(bodies: Bodies, body: Scatter) -> Iterator[Division]:
    """Axes of a scatter that adds up from 0."""
    if body.combine != "sum" or not is_zero(body.initial):
        return
    indices = [index if isinstance(index, Scalar) else _as_scalar(index) for index in body.index]
    uses = Uses(bodies, [body.value, *indices])
    for axis in body.axes:
        division = _divided(bodies, uses, [axis], None, "sum")
        if division is not None:
            yield division
