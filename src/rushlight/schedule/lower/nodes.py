"""Nodes: the values that get a place in memory. Other definitions are folded into their users."""

from __future__ import annotations

from collections.abc import Container
from dataclasses import replace

from rushlight.ir.dtype import int64
from rushlight.ir.loops import Scatter, ScatterDefinition
from rushlight.ir.scalar import OPS, Buffer, Scalar, bound_axes, lift
from rushlight.schedule.lower.folding import Dissected, choose_folded
from rushlight.schedule.lower.packed_operands import unpacked_in_products
from rushlight.schedule.lower.rewrite import Substitution, as_size, loads
from rushlight.schedule.lower.words import in_words
from rushlight.support.frozen import frozen
from rushlight.sym import Size, SizeExpr, axis_size
from rushlight.term import postorder

_LOAD, _CONTRACT = OPS["load"], OPS["contract"]


@frozen
class Overwrite:
    """Where the elements of a node lie that is written over another value: no two have the same place.

    `index` is the place at the node's axes. An element whose place does not exist is left out. What no element lies at
    keeps `initial`, a scalar over `axes`.
    """

    index: tuple[Scalar, ...]
    axes: tuple[SizeExpr, ...]
    initial: Scalar

    def image(self, at: Substitution) -> Overwrite:
        """The record with its scalars rewritten."""
        return Overwrite(tuple([at(position) for position in self.index]), self.axes, at(self.initial))

    def base(self) -> Buffer | None:
        """The buffer that it begins as a copy of, if it does."""
        return self.initial.attr("buffer") if self.initial.op is _LOAD else None


@frozen(eq=False)
class Node:
    """One value to compute: `body` over `axes`, at position `order` in the graph.

    Dims of literal size 1 have no axis. `contraction` is the only reduction of the body, if it is a contraction: a
    candidate for the GEMM template. `scatter` is set for results with data-dependent stores in order, `overwrite` for
    those at distinct places, whose axes and body are those of what is written. `stored` says that the value needs
    memory. `place` is the index in the buffer for given values of the axes; None if the axes are its dims
    in order. `reads` are the distinct loads, as buffers and indices. `make_node` finds what follows from the bodies.
    """

    buffer: Buffer
    order: int
    axes: tuple[SizeExpr, ...]
    body: Scalar
    scatter: Scatter | None
    stored: bool
    reduces: bool
    contraction: Scalar | None
    place: tuple[Size, ...] | None
    reads: tuple[tuple[Buffer, tuple[Scalar, ...]], ...]
    overwrite: Overwrite | None = None

    @property
    def writes_at_data(self) -> bool:
        """Whether data says where its elements lie."""
        return self.scatter is not None or self.overwrite is not None

    @property
    def sizes(self) -> tuple[Size, ...]:
        """The extents of its axes."""
        return tuple([axis_size(axis) for axis in self.axes])

    def index(self) -> tuple[Size, ...]:
        """The index in the buffer, one entry per dim: 0 in dims of literal size 1."""
        if self.place is not None:
            return self.place
        axes = iter(self.axes)
        return tuple([0 if size == 1 else next(axes) for size in self.buffer.type.shape])

    def offset(self) -> Size:
        """The element offset in the buffer."""
        return sum(
            [position * stride for position, stride in zip(self.index(), self.buffer.type.strides, strict=True)], 0
        )

    def with_body(self, axes: tuple[SizeExpr, ...], body: Scalar, index: tuple[Size, ...] | None) -> Node:
        """The node with another body over other axes."""
        return make_node(self.buffer, self.order, axes, body, self.scatter, self.stored, index)


def make_node(
    buffer: Buffer,
    order: int,
    axes: tuple[SizeExpr, ...],
    body: Scalar,
    scatter: Scatter | None = None,
    stored: bool = True,
    place: tuple[Size, ...] | None = None,
    overwrite: Overwrite | None = None,
) -> Node:
    """A node; one walk over its body finds the reductions and the loads."""
    read: dict[Scalar, None] = {}
    reductions: list[Scalar] = []
    for term in postorder([body]):
        if term.op is _LOAD:
            read[term] = None
        elif bound_axes(term):
            reductions.append(term)
    if scatter is not None:
        read.update(dict.fromkeys(loads_of_writes(scatter)))
    if overwrite is not None:
        read.update(dict.fromkeys([load for root in (overwrite.initial, *overwrite.index) for load in loads(root)]))
    is_contraction = len(reductions) == 1 and reductions[0].op is _CONTRACT
    contraction = reductions[0] if is_contraction else None
    reads = tuple([(load.attr("buffer"), load.operands) for load in read])
    return Node(buffer, order, axes, body, scatter, stored, bool(reductions), contraction, place, reads, overwrite)


def loads_of_writes(scatter: Scatter) -> list[Scalar]:
    """What the writes of a scatter read: values and places."""
    roots = (scatter.value, *[at for at in scatter.index if isinstance(at, Scalar)])
    return [load for root in roots for load in loads(root)]


def make_nodes(items: list[Dissected], results: set[Buffer], kept: Container[Buffer] = ()) -> list[Node]:
    """Folds definitions into their users, and makes nodes of the others. Values in `kept` are not folded."""
    folded = choose_folded(items, results, kept, unpacked_in_products(items, results, kept))
    bodies: dict[Buffer, tuple[tuple[SizeExpr, ...], Scalar]] = {}
    nodes: list[Node] = []

    def on_load(buffer: Buffer, indices: tuple[Scalar, ...]) -> Scalar | None:
        if buffer not in bodies:
            return None
        axes, body = bodies[buffer]
        at = [(axis, index, as_size(index)) for axis, index in zip(axes, indices, strict=True)]
        images = {axis: position if size is None else size for axis, position, size in at if size is not axis}
        return Substitution(images)(body) if images else body

    for order, element in enumerate(items):
        definition = element.definition
        inline = (
            Substitution({}, on_load) if any(load.attr("buffer") in bodies for load in element.loads) else _as_it_is
        )
        if isinstance(definition, ScatterDefinition):
            scatter = definition.scatter
            index = tuple(
                [inline(position) if isinstance(position, Scalar) else position for position in scatter.index]
            )
            initial, axes, value = inline(scatter.initial), _long(definition.axes), inline(scatter.value)
            stored = definition.buffer in results
            if scatter.distinct:
                at = Substitution({axis: 0 for axis in scatter.axes if axis_size(axis) == 1})
                over = Overwrite(tuple([at(lift(position, int64)) for position in index]), axes, initial)
                own = _long(scatter.axes)
                nodes.append(make_node(definition.buffer, order, own, at(value), None, True, None, over))
                continue
            scatter = replace(scatter, index=index, value=value)
            nodes.append(make_node(definition.buffer, order, axes, initial, scatter, stored))
            continue
        body = inline(definition.body)
        if definition.buffer in folded:
            bodies[definition.buffer] = (definition.axes, body)
        if definition.buffer not in folded or definition.buffer in results:
            stored = definition.buffer in results
            nodes.append(make_node(definition.buffer, order, _long(definition.axes), in_words(body), None, stored))
    return nodes


def _as_it_is(body: Scalar) -> Scalar:
    return body


def _long(axes: tuple[SizeExpr, ...]) -> tuple[SizeExpr, ...]:
    """The axes but those of literal size 1."""
    return tuple([axis for axis in axes if axis_size(axis) != 1])
