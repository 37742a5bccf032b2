"""Nodes: the definitions that are worth a place of their own; views and cheap values are folded into their users."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from rushlight.ir.loops import Definition, Scatter, ScatterDefinition
from rushlight.ir.scalar import OPS, Buffer, Scalar, bound_axes
from rushlight.schedule.terms import Substitution, as_size, loads
from rushlight.sym import Size, SizeExpr, axis_size, free_symbols, is_axis
from rushlight.term import postorder

# A value with several users is recomputed in each when it costs no more than this many terms and one load; where none
# of them repeats it, loads of few elements, as of a row's maximum, count for nothing.
CHEAP_TERMS = 6
# Beyond this a body is stored rather than folded into its user: code size, registers and compile time grow with it.
LARGE_TERMS = 400


ReadCounts = list[tuple[Buffer, bool]]
"""Buffers that are read, and whether each of their elements is read more than once."""


@dataclass(slots=True)
class Node:
    """One value to compute: `body` over `axes` (dims of literal size 1 have none), at position `order` in the graph.

    `contraction` is the one contraction in a body without other reductions: a candidate for the GEMM template.

    `scatter` is set for results written in data-dependent places. `stored` says that the value is needed in memory.
    `place` is the index in the buffer that a value of the axes stands for; None where axes are its dims in order.
    """

    buffer: Buffer
    order: int
    axes: tuple[SizeExpr, ...]
    body: Scalar
    scatter: Scatter | None
    stored: bool
    reduces: bool
    contraction: Scalar | None
    place: tuple[Size, ...] | None = None
    _reads: list[tuple[Buffer, tuple[Scalar, ...]]] | None = None

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

    def roots(self) -> tuple[Scalar, ...]:
        """All bodies of the node."""
        if self.scatter is None:
            return (self.body,)
        scatter = self.scatter
        scalars = tuple([item for item in scatter.index if isinstance(item, Scalar)])
        return (self.body, scatter.value, *scalars)

    def reads(self) -> list[tuple[Buffer, tuple[Scalar, ...]]]:
        """The distinct loads: buffers and indices."""
        if self._reads is None:
            found: dict[Scalar, None] = {}
            for root in self.roots():
                found.update(dict.fromkeys(loads(root)))
            self._reads = [(load.attr("buffer"), load.operands) for load in found]
        return self._reads


def make_nodes(definitions: list[Definition | ScatterDefinition], results: set[Buffer]) -> list[Node]:
    """Decides what is folded into its users, and folds it."""
    folded = _choose_folded(definitions, results, {item.buffer: _read_counts(item) for item in definitions})
    bodies: dict[Buffer, tuple[tuple[SizeExpr, ...], Scalar]] = {}
    nodes: list[Node] = []

    def on_load(buffer: Buffer, indices: tuple[Scalar, ...]) -> Scalar | None:
        if buffer not in bodies:
            return None
        axes, body = bodies[buffer]
        sizes = [as_size(item) for item in indices]
        images = {axis: item if size is None else size for axis, item, size in zip(axes, indices, sizes, strict=True)}
        return Substitution(images)(body)

    for order, definition in enumerate(definitions):
        inline = Substitution({}, on_load)
        if isinstance(definition, ScatterDefinition):
            scatter = definition.scatter
            index = tuple([inline(item) if isinstance(item, Scalar) else item for item in scatter.index])
            scatter = Scatter(scatter.initial, scatter.axes, index, inline(scatter.value), scatter.combine)
            nodes.append(_node(definition.buffer, order, definition.axes, inline(scatter.initial), scatter))
            continue
        body = inline(definition.body)
        if definition.buffer in folded:
            bodies[definition.buffer] = (definition.axes, body)
        if definition.buffer not in folded or definition.buffer in results:
            nodes.append(_node(definition.buffer, order, definition.axes, body, None))
    for node in nodes:
        node.stored = node.buffer in results
    return nodes


def _node(buffer: Buffer, order: int, axes: tuple[SizeExpr, ...], body: Scalar, scatter: Scatter | None) -> Node:
    kept = tuple([axis for axis in axes if axis_size(axis) != 1])
    reduces = any(bound_axes(term) for term in postorder([body]))
    return Node(buffer, order, kept, body, scatter, False, reduces, only_contraction(body))


def only_contraction(body: Scalar) -> Scalar | None:
    """The contraction in a body that has no other reduction."""
    found = [term for term in postorder([body]) if bound_axes(term)]
    return found[0] if len(found) == 1 and found[0].op is OPS["contract"] else None


def _choose_folded(
    definitions: list[Definition | ScatterDefinition], results: set[Buffer], reads: Mapping[Buffer, ReadCounts]
) -> set[Buffer]:
    numbers = _made_of_indices(definitions)
    # Users come after producers, so walking backwards knows how often each value ends up being read.
    uses: dict[Buffer, int] = {}
    recomputed: set[Buffer] = set()
    turned = _read_turned(definitions, results, reads)
    folded: set[Buffer] = set(turned.values())
    for definition in reversed(definitions):
        mine = 1
        if definition.buffer in turned or definition.buffer in folded:
            pass
        elif definition.buffer in numbers or (
            isinstance(definition, Definition) and _foldable(definition, uses, recomputed, results)
        ):
            folded.add(definition.buffer)
            mine = uses.get(definition.buffer, 1) + (definition.buffer in results)
        for buffer, repeated in reads[definition.buffer]:
            uses[buffer] = uses.get(buffer, 0) + mine
            if repeated or (definition.buffer in folded and definition.buffer in recomputed):
                recomputed.add(buffer)
    return folded


def _made_of_indices(definitions: list[Definition | ScatterDefinition]) -> set[Buffer]:
    """Cheap values that are made of indices alone, such as a causal mask: to read one back costs more."""
    found: set[Buffer] = set()
    for definition in definitions:
        if isinstance(definition, Definition):
            terms = list(postorder([definition.body]))
            cheap = sum(1 for term in terms if term.operands) <= CHEAP_TERMS
            if cheap and not any(bound_axes(term) or _reads_outside(term, found) for term in terms):
                found.add(definition.buffer)
    return found


def _reads_outside(term: Scalar, inside: set[Buffer]) -> bool:
    return term.op is OPS["load"] and term.attr("buffer") not in inside


def _read_turned(
    definitions: list[Definition | ScatterDefinition], results: set[Buffer], reads: Mapping[Buffer, ReadCounts]
) -> dict[Buffer, Buffer]:
    """Reductions of which only a transposed view is read, by the views: computed in its place, they lie as it does.

    That is so where the view is a result, or where other values are computed at its own index.
    """
    readers: dict[Buffer, list[Definition | ScatterDefinition]] = {}
    for definition in definitions:
        for buffer in dict.fromkeys([buffer for buffer, _ in reads[definition.buffer]]):
            readers.setdefault(buffer, []).append(definition)
    turned: dict[Buffer, Buffer] = {}
    for definition in definitions:
        users = readers.get(definition.buffer, [])
        if len(users) != 1 or definition.buffer in results or not _reduces(definition):
            continue
        (view,) = users
        wanted = view.buffer in results or any(_aligned(user, view.buffer) for user in readers.get(view.buffer, ()))
        if wanted and _is_transposition(view):
            turned[view.buffer] = definition.buffer
    return turned


def _reduces(definition: Definition | ScatterDefinition) -> bool:
    return isinstance(definition, Definition) and any(bound_axes(term) for term in postorder([definition.body]))


def _is_transposition(view: Definition | ScatterDefinition) -> bool:
    """Whether a definition is a load at its own axes in another order."""
    if not isinstance(view, Definition) or view.body.op is not OPS["load"]:
        return False
    at = [as_size(item) for item in view.body.operands]
    return at != list(view.axes) and set(at) == set(view.axes) and len(at) == len(view.axes)


def _aligned(user: Definition | ScatterDefinition, buffer: Buffer) -> bool:
    """Whether a definition reads a buffer at its own index."""
    return isinstance(user, Definition) and any(
        load.attr("buffer") is buffer and [as_size(item) for item in load.operands] == list(user.axes)
        for load in loads(user.body)
    )


def _foldable(definition: Definition, uses: dict[Buffer, int], recomputed: set[Buffer], results: set[Buffer]) -> bool:
    terms = list(postorder([definition.body]))
    if any(bound_axes(term) for term in terms):
        return False
    count = sum(1 for term in terms if term.op not in (OPS["constant"], OPS["index"], OPS["load"]))
    reads = [term for term in terms if term.op is OPS["load"]]
    if count <= 1 and len(reads) <= 1:
        return True  # a view, a constant, a cast
    if definition.buffer in results:
        return False
    if definition.buffer not in recomputed:
        axes = {axis for axis in definition.axes if axis_size(axis) != 1}
        reads = [read for read in reads if _mentioned_axes(read) >= axes]
    if count <= CHEAP_TERMS and len(reads) <= 1:
        return True
    return uses.get(definition.buffer, 0) == 1 and definition.buffer not in recomputed and len(terms) <= LARGE_TERMS


def _read_counts(definition: Definition | ScatterDefinition) -> ReadCounts:
    """The buffers a definition reads, and whether it reads each element more than once."""
    if isinstance(definition, ScatterDefinition):
        scatter = definition.scatter
        roots = [scatter.initial, scatter.value, *[item for item in scatter.index if isinstance(item, Scalar)]]
        return [(load.attr("buffer"), True) for load in dict.fromkeys(part for root in roots for part in loads(root))]
    axes = [axis for axis in definition.axes if axis_size(axis) != 1]
    terms = list(postorder([definition.body]))
    contracts = any(term.op is OPS["contract"] for term in terms)
    bound = {axis for term in terms for axis in bound_axes(term)}
    counts: list[tuple[Buffer, bool]] = []
    for load in [term for term in terms if term.op is OPS["load"]]:
        mentioned = _mentioned_axes(load)
        repeated = contracts or not mentioned.issuperset(axes) or (bool(bound) and not mentioned & bound)
        counts.append((load.attr("buffer"), repeated))
    return counts


def _mentioned_axes(load: Scalar) -> set[SizeExpr]:
    found: set[SizeExpr] = set()
    for operand in load.operands:
        expr = as_size(operand)
        if isinstance(expr, SizeExpr):
            found.update([symbol for symbol in free_symbols(expr) if is_axis(symbol)])
    return found
