"""Chooses the values that are folded into their users: views, and values cheap to recompute."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass

from rushlight.ir.loops import Definition, Scatter, ScatterDefinition
from rushlight.ir.ragged import ragged_end
from rushlight.ir.scalar import OPS, Buffer, Scalar, bound_axes
from rushlight.schedule.lower.ranges import GUARD, Ranges
from rushlight.schedule.lower.rewrite import as_size, step_along
from rushlight.sym import SizeExpr, axis_size, free_symbols, is_axis
from rushlight.term import postorder

# The most terms of a value, besides one load, that each of several users recomputes. Where no user repeats it, loads of
# few elements, such as a row's maximum, are not counted.
CHEAP_TERMS = 6
# A larger body is stored rather than folded: code size, registers and compile time grow with it.
LARGE_TERMS = 400
_LOAD, _CONTRACT = OPS["load"], OPS["contract"]
_FREE = (OPS["constant"], OPS["index"], _LOAD)


@dataclass(slots=True)
class Dissected:
    """A definition with the distinct terms of its bodies, its loads, and its reduced axes.

    `computing` is the number of terms that compute something, and `contracts` whether one of them is a contraction.
    """

    definition: Definition | ScatterDefinition
    terms: list[Scalar]
    loads: list[Scalar]
    bound: set[SizeExpr]
    computing: int
    contracts: bool

    @staticmethod
    def of(definition: Definition | ScatterDefinition) -> Dissected:
        """Walks a definition's terms once."""
        terms = list(postorder(_roots(definition)))
        loads = [term for term in terms if term.op is _LOAD]
        computing = [term for term in terms if term.op not in _FREE]
        bound = {axis for term in computing for axis in bound_axes(term)}
        contracts = any(term.op is _CONTRACT for term in computing)
        return Dissected(definition, terms, loads, bound, len(computing), contracts)

    @property
    def buffer(self) -> Buffer:
        """The buffer that it defines."""
        return self.definition.buffer

    @property
    def reduces(self) -> bool:
        """Whether it has a value for each index that needs reductions."""
        return isinstance(self.definition, Definition) and bool(self.bound)

    @property
    def is_ragged(self) -> bool:
        """Whether it has a value for each index, by reductions that all end where memory says."""
        reductions = [term for term in self.terms if bound_axes(term)]
        return self.reduces and all(ragged_end(term) is not None for term in reductions)

    @property
    def is_join(self) -> bool:
        """Whether a chain of guards chooses its parts by an axis, each for a range with loops of its own."""
        if self.bound or isinstance(self.definition, ScatterDefinition):
            return False
        if not any(term.op is GUARD for term in self.terms):
            return False
        each_axis = (Ranges.of(axis, [self.definition.body]) for axis in self.definition.axes)
        ranges = next((ranges for ranges in each_axis if ranges is not None), None)
        return ranges is not None and not ranges.is_narrow

    def reads(self) -> list[tuple[Buffer, bool]]:
        """The buffers that it reads, once per load, each with whether it reads elements more than once."""
        if isinstance(self.definition, ScatterDefinition):
            return self._reads_of_writes(self.definition.scatter)
        axes = [axis for axis in self.definition.axes if axis_size(axis) != 1]
        loads: list[tuple[Buffer, bool]] = []
        for load in self.loads:
            mentioned = _mentioned_axes(load)
            repeated = (
                self.contracts or not mentioned.issuperset(axes) or (bool(self.bound) and not mentioned & self.bound)
            )
            loads.append((load.attr("buffer"), repeated or _overlaps(load, axes, self.bound)))
        return loads

    def _reads_of_writes(self, scatter: Scatter) -> list[tuple[Buffer, bool]]:
        """What a scatter reads; a value for a distinct place is read once, at the axes that it has."""
        if not scatter.distinct or self.bound:
            return [(load.attr("buffer"), True) for load in self.loads]
        axes = {axis for axis in scatter.axes if axis_size(axis) != 1}
        places = set(postorder([scatter.initial, *[at for at in scatter.index if isinstance(at, Scalar)]]))
        return [(load.attr("buffer"), load in places or not _mentioned_axes(load) >= axes) for load in self.loads]

    def is_made_of(self, buffers: set[Buffer]) -> bool:
        """Whether it is a cheap function of its indices and of some buffers."""
        if isinstance(self.definition, ScatterDefinition) or self.bound:
            return False
        cheap = sum(1 for term in self.terms if term.operands) <= CHEAP_TERMS
        return cheap and all(load.attr("buffer") in buffers for load in self.loads)

    def is_transposition(self) -> bool:
        """Whether it is a load at its own axes in another order."""
        if isinstance(self.definition, ScatterDefinition) or self.definition.body.op is not _LOAD:
            return False
        at, axes = [as_size(operand) for operand in self.definition.body.operands], list(self.definition.axes)
        return at != axes and set(at) == set(axes) and len(at) == len(axes)

    def reads_aligned(self, buffer: Buffer) -> bool:
        """Whether it reads a buffer at its own index."""
        return isinstance(self.definition, Definition) and any(
            load.attr("buffer") is buffer
            and [as_size(operand) for operand in load.operands] == list(self.definition.axes)
            for load in self.loads
        )

    def is_view(self) -> bool:
        """Whether it is a view, a constant or a cast."""
        return self.computing <= 1 and len(self.loads) <= 1

    def is_cheap(self, uses: int, recomputed: bool, numbers: Container[Buffer]) -> bool:
        """Whether recomputing it in each of its `uses` users costs less than storing and reading it.

        `numbers` are 0-d values that depend on sizes alone; a load of one costs no more than a constant.
        """
        reads = [read for read in self.loads if read.operands or read.attr("buffer") not in numbers]
        if not recomputed:
            axes = {axis for axis in self.definition.axes if axis_size(axis) != 1}
            reads = [read for read in reads if _mentioned_axes(read) >= axes]
        if self.computing <= CHEAP_TERMS and len(reads) <= 1:
            return True
        return uses == 1 and not recomputed and len(self.terms) <= LARGE_TERMS


def choose_folded(
    items: list[Dissected], results: set[Buffer], kept: Container[Buffer], chosen: Container[Buffer] = ()
) -> set[Buffer]:
    """The values to fold into their users. Values in `chosen` are folded, values in `kept` are not."""
    reads = {definition.buffer: definition.reads() for definition in items}
    numbers = _made_of_indices(items)
    transposed = _read_transposed(items, results, reads)
    joins = _joined_sums(items, results, reads)
    finished = _finished_products(items, results, reads)
    # In reverse order, all users of a value have been counted when the value is reached.
    uses: dict[Buffer, int] = {}
    recomputed: set[Buffer] = set()
    sums = [part for parts in joins.values() for part in parts if part not in kept]
    folded: set[Buffer] = {*transposed.values(), *sums}
    stored = {*transposed, *joins}
    for element in reversed(items):
        buffer, mine = element.buffer, 1
        if buffer in stored or buffer in folded or buffer in kept or (buffer in finished and buffer in recomputed):
            pass
        elif buffer in chosen or buffer in numbers or _is_folded(element, uses, recomputed, results, numbers):
            folded.add(buffer)
            mine = uses.get(buffer, 1) + (buffer in results)
        for read, repeated in reads[buffer]:
            uses[read] = uses.get(read, 0) + mine
            if repeated or (buffer in folded and buffer in recomputed):
                recomputed.add(read)
    return folded


def _roots(definition: Definition | ScatterDefinition) -> list[Scalar]:
    if isinstance(definition, Definition):
        return [definition.body]
    scatter = definition.scatter
    return [scatter.initial, scatter.value, *[expr for expr in scatter.index if isinstance(expr, Scalar)]]


def _is_folded(
    definition: Dissected,
    uses: Mapping[Buffer, int],
    recomputed: set[Buffer],
    results: set[Buffer],
    numbers: Container[Buffer],
) -> bool:
    if isinstance(definition.definition, ScatterDefinition) or definition.bound:
        return False
    if definition.is_view():
        return True
    if definition.buffer in results:
        return False
    return definition.is_cheap(uses.get(definition.buffer, 0), definition.buffer in recomputed, numbers)


def _made_of_indices(items: Iterable[Dissected]) -> set[Buffer]:
    """Cheap values of indices alone, such as a causal mask: reading one from memory costs more."""
    buffers: set[Buffer] = set()
    for definition in items:
        if definition.is_made_of(buffers):
            buffers.add(definition.buffer)
    return buffers


def _finished_products(
    items: list[Dissected], results: set[Buffer], reads: Mapping[Buffer, list[tuple[Buffer, bool]]]
) -> set[Buffer]:
    """Pointwise values of a contraction that nothing else reads: the epilogue stores them at no cost.

    A window or another product that reads such a value many times then need not recompute it.
    """
    readers: dict[Buffer, int] = {}
    for definition in items:
        for buffer in {buffer for buffer, _ in reads[definition.buffer]}:
            readers[buffer] = readers.get(buffer, 0) + 1
    products: set[Buffer] = set()
    finished: set[Buffer] = set()
    for definition in items:
        if definition.reduces and definition.contracts:
            products.add(definition.buffer)
        elif not definition.bound and any(
            buffer in products | finished
            and readers[buffer] == 1
            and buffer not in results
            and definition.reads_aligned(buffer)
            for buffer, _ in reads[definition.buffer]
        ):
            finished.add(definition.buffer)
    return finished


def _read_transposed(
    items: list[Dissected], results: set[Buffer], reads: Mapping[Buffer, list[tuple[Buffer, bool]]]
) -> dict[Buffer, Buffer]:
    """Reductions that only transposed views read, by their views: computed in the view's layout.

    This holds if the view is a result, or if other values read it at their own index.
    """
    readers: dict[Buffer, list[Dissected]] = {}
    for definition in items:
        for buffer in dict.fromkeys([buffer for buffer, _ in reads[definition.buffer]]):
            readers.setdefault(buffer, []).append(definition)
    transposed: dict[Buffer, Buffer] = {}
    for definition in items:
        users = readers.get(definition.buffer, [])
        if (
            len(users) != 1
            or definition.buffer in results
            or not definition.bound
            or isinstance(definition.definition, ScatterDefinition)
        ):
            continue
        (view,) = users
        wanted = view.buffer in results or any(user.reads_aligned(view.buffer) for user in readers.get(view.buffer, ()))
        if wanted and view.is_transposition():
            transposed[view.buffer] = definition.buffer
    return transposed


def _joined_sums(
    items: list[Dissected], results: set[Buffer], reads: Mapping[Buffer, list[tuple[Buffer, bool]]]
) -> dict[Buffer, list[Buffer]]:
    """Ragged reductions that only joins read, by the joins: each is stored where its part lies, and never copied.

    Pointwise values in between, such as means of sums, are part of what is joined.
    """
    readers: dict[Buffer, list[tuple[Dissected, bool]]] = {}
    for definition in items:
        for buffer, repeated in reads[definition.buffer]:
            readers.setdefault(buffer, []).append((definition, repeated))
    joins: dict[Buffer, list[Buffer]] = {}
    known: dict[Buffer, bool] = {}
    for definition in items:
        if not definition.is_ragged:
            continue
        parts = [definition.buffer]
        while parts[-1] not in results and len(users := readers.get(parts[-1], [])) == 1 and not users[0][1]:
            user = users[0][0]
            if user.buffer not in known:
                known[user.buffer] = user.is_join
            if known[user.buffer]:
                joins.setdefault(user.buffer, []).extend(parts)
                break
            if user.bound or not user.reads_aligned(parts[-1]):
                break
            parts.append(user.buffer)
    return joins


def _overlaps(load: Scalar, axes: Iterable[SizeExpr], bound: Iterable[SizeExpr]) -> bool:
    """Whether windows over bound axes overlap, so that elements are read by several windows."""
    for operand in load.operands:
        lengths = [(axis_size(axis), step_along(operand, axis)) for axis in bound]
        steps = [step for step in (step_along(operand, axis) for axis in axes) if isinstance(step, int) and step]
        for size, near in lengths:
            if isinstance(size, int) and isinstance(near, int) and any(near * (size - 1) >= step for step in steps):
                return True
    return False


def _mentioned_axes(load: Scalar) -> set[SizeExpr]:
    axes: set[SizeExpr] = set()
    for operand in load.operands:
        expr = as_size(operand)
        if isinstance(expr, SizeExpr):
            axes.update([symbol for symbol in free_symbols(expr) if is_axis(symbol)])
    return axes
