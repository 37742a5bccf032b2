"""Loop nests: the stores of a group over common axes, bodies evaluated in place, linear addresses, collapsed axes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from rushlight.ir.dtype import int64
from rushlight.ir.kernel import Store
from rushlight.ir.scalar import Buffer, Scalar, apply, bound_axes, constant, index, load
from rushlight.schedule.fuse.fusion import Group
from rushlight.schedule.lower.rewrite import Index, Substitution, as_size, index_exprs, linear_offset
from rushlight.sym import (
    Size,
    SizeExpr,
    axis_size,
    axis_symbol,
    coefficient,
    depends_on,
    free_symbols,
    is_axis,
    substitute,
)
from rushlight.term import postorder


@dataclass(slots=True)
class NestStore:
    """A store before loops are written around it: its inner axes, its offset, its value, and a condition."""

    inner: tuple[SizeExpr, ...]
    buffer: Buffer
    offset: Scalar
    value: Scalar
    where: Scalar | None = None

    def roots(self) -> list[Scalar]:
        """Its scalars."""
        return [self.value, self.offset, *([] if self.where is None else [self.where])]

    def image(self, at: Substitution) -> NestStore:
        """The store with all scalars rewritten."""
        where = None if self.where is None else at(self.where)
        return NestStore(self.inner, self.buffer, at(self.offset), at(self.value), where)

    def statement(self, at: Substitution) -> Store:
        """The store of a kernel, its scalars rewritten."""
        one = self.image(at)
        return Store(one.buffer, one.offset, one.value, None, one.where)


@dataclass(slots=True)
class LoopNest:
    """A kernel under construction: outer axes, then stores with inner axes of their own."""

    outer: tuple[SizeExpr, ...]
    stores: list[NestStore]

    @property
    def is_conditional(self) -> bool:
        """Whether some stores have conditions."""
        return any(store.where is not None for store in self.stores)

    def roots(self) -> list[Scalar]:
        """All scalars of the nest."""
        return [scalar for store in self.stores for scalar in store.roots()]

    def map(self, image: Substitution) -> None:
        """Rewrites all scalars."""
        self.stores = [store.image(image) for store in self.stores]


def open_group(group: Group, aliases: Mapping[Buffer, Buffer], linear: frozenset[Buffer] = frozenset()) -> LoopNest:
    """The stores of a group over common axes, with every value of the group evaluated in place.

    Addresses become linear. `aliases` maps values to the buffers whose memory holds them, at the strides of their own
    type. Loads from buffers in `linear` have linear addresses already.
    """
    rank = group.outer_rank
    first = group.nodes[0]
    outer = tuple([axis_symbol(axis_size(axis), f"i{position}") for position, axis in enumerate(first.axes[:rank])])
    inner_axes: dict[tuple[Size, ...], tuple[SizeExpr, ...]] = {}
    bodies: dict[Buffer, tuple[tuple[Index, ...], Scalar]] = {}

    def on_load(buffer: Buffer, indices: tuple[Scalar, ...]) -> Scalar | None:
        if buffer not in bodies:
            return None
        axes, body = bodies[buffer]
        images: dict[SizeExpr, Index] = {}
        for axis, position in zip(axes, indices, strict=True):
            size = as_size(position)
            if isinstance(axis, SizeExpr) and size is not axis:
                images[axis] = position if size is None else size
        return Substitution(images)(body) if images else body

    items: list[NestStore] = []
    for node in group.nodes:
        sizes = node.sizes[rank:]
        if sizes not in inner_axes:
            inner_axes[sizes] = tuple([axis_symbol(size, f"j{position}") for position, size in enumerate(sizes)])
        images = dict(zip(node.axes, outer + inner_axes[sizes], strict=True))
        image = Substitution(images, on_load)
        body = image(node.body)
        memory, strides = aliases.get(node.buffer, node.buffer), node.buffer.type.strides
        if node.overwrite is not None:
            place = tuple([image(expr) for expr in node.overwrite.index])
            where = inside(place, node.buffer.type.shape)
            items.append(NestStore(inner_axes[sizes], memory, linear_offset(place, strides), body, where))
            continue
        at = tuple([substitute(expr, images) for expr in node.index()])
        bodies[node.buffer] = (at, body)
        if node.stored:
            offset = linear_offset(tuple([index(expr) for expr in at]), strides)
            items.append(NestStore(inner_axes[sizes], memory, offset, body))
    nest = LoopNest(outer, items)
    linearise(nest, aliases, linear)
    return nest


def inside(place: tuple[Scalar, ...], shape: tuple[Size, ...]) -> Scalar | None:
    """The condition that every data-dependent index of a place lies inside a shape."""
    total: Scalar | None = None
    for position, size in zip(place, shape, strict=True):
        if as_size(position) is None:
            low = apply("le", constant(0, int64), position)
            within = low & apply("lt", position, index(size))
            total = within if total is None else total & within
    return total


def linearise(nest: LoopNest, aliases: Mapping[Buffer, Buffer], linear: frozenset[Buffer] = frozenset()) -> None:
    """Gives every load one linear element offset."""

    def linear_load(buffer: Buffer, indices: tuple[Scalar, ...]) -> Scalar | None:
        if buffer in linear:
            return None
        return load(aliases.get(buffer, buffer), linear_offset(indices, buffer.type.strides))

    nest.map(Substitution({}, linear_load))


def collapse(nest: LoopNest) -> None:
    """Merges neighbouring axes that every address walks as one axis: outer, inner and reduced axes."""
    nest.outer = _collapse_axes(nest, nest.outer)
    done: dict[tuple[SizeExpr, ...], tuple[SizeExpr, ...]] = {}
    for store in list(nest.stores):
        if store.inner not in done:
            done[store.inner] = _collapse_axes(nest, store.inner)
    for store in nest.stores:
        store.inner = done[store.inner]
    for axes in {bound_axes(term): None for term in postorder(nest.roots()) if len(bound_axes(term)) > 1}:
        _collapse_axes(nest, axes, bound=True)


def _collapse_axes(nest: LoopNest, axes: tuple[SizeExpr, ...], bound: bool = False) -> tuple[SizeExpr, ...]:
    kept = list(axes)
    position = len(kept) - 2
    while position >= 0:
        a, b = kept[position], kept[position + 1]
        if _walk_as_one(nest, a, b):
            merged = axis_symbol(axis_size(a) * axis_size(b), "k" if bound else "i")
            nest.map(Substitution({a: 0, b: merged}))
            kept[position : position + 2] = [merged]
        position -= 1
    return tuple(kept)


def _walk_as_one(nest: LoopNest, a: SizeExpr, b: SizeExpr) -> bool:
    size, exprs = axis_size(b), index_exprs(nest.roots())
    for expr in exprs:
        step_a, step_b = coefficient(expr, a), coefficient(expr, b)
        if step_a is None or step_b is None or step_b * size != step_a:
            return False
    # An axis that no address mentions, as where strides are 0, may still be of another length at each place.
    bound = [axis for term in postorder(nest.roots()) for axis in bound_axes(term)]
    mentioned = [symbol for expr in exprs for symbol in free_symbols(expr) if is_axis(symbol)]
    lengths = [axis_size(axis) for axis in dict.fromkeys(bound + mentioned)]
    return not any(depends_on(length, a) or depends_on(length, b) for length in lengths)
