"""Which values are folded into their users: views, and what is cheaper to compute again than to store and read."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass

from rushlight.ir.loops import Definition, ScatterDefinition
from rushlight.ir.scalar import OPS, Buffer, Scalar, bound_axes
from rushlight.schedule.lower.rewrite import as_size, step_along
from rushlight.sym import SizeExpr, axis_size, free_symbols, is_axis
from rushlight.term import postorder

# A value with several users is recomputed in each when it costs no more than this many terms and one load; where none
# of them repeats it, loads of few elements, as of a row's maximum, count for nothing.
CHEAP_TERMS = 6
# Beyond this a body is stored rather than folded into its user: code size, registers and compile time grow with it.
LARGE_TERMS = 400
_FREE = (OPS["constant"], OPS["index"], OPS["load"])


@dataclass(slots=True)
class Dissected:
    """A definition with the terms of its bodies, each once: all of them, the loads, and the axes that are reduced."""

    definition: Definition | ScatterDefinition
    terms: list[Scalar]
    loads: list[Scalar]
    bound: set[SizeExpr]

    @staticmethod
    def of(definition: Definition | ScatterDefinition) -> Dissected:
        """Walks a definition's terms."""
        terms = list(postorder(_roots(definition)))
        loads = [term for term in terms if term.op is OPS["load"]]
        return Dissected(definition, terms, loads, {axis for term in terms for axis in bound_axes(term)})

    @property
    def buffer(self) -> Buffer:
        """What it defines."""
        return self.definition.buffer

    @property
    def reduces(self) -> bool:
        """Whether it is a value for each index, made with reductions."""
        return isinstance(self.definition, Definition) and bool(self.bound)

    def reads(self) -> list[tuple[Buffer, bool]]:
        """The buffers it reads, once per load, and whether it reads each of their elements more than once."""
        if isinstance(self.definition, ScatterDefinition):
            return [(load.attr("buffer"), True) for load in self.loads]
        axes = [axis for axis in self.definition.axes if axis_size(axis) != 1]
        contracts = any(term.op is OPS["contract"] for term in self.terms)
        found: list[tuple[Buffer, bool]] = []
        for load in self.loads:
            mentioned = _mentioned_axes(load)
            repeated = contracts or not mentioned.issuperset(axes) or (bool(self.bound) and not mentioned & self.bound)
            found.append((load.attr("buffer"), repeated or _overlaps(load, axes, self.bound)))
        return found

    def is_made_of(self, buffers: set[Buffer]) -> bool:
        """Whether it is a cheap function of its indices, and of some buffers."""
        if isinstance(self.definition, ScatterDefinition) or self.bound:
            return False
        cheap = sum(1 for term in self.terms if term.operands) <= CHEAP_TERMS
        return cheap and all(load.attr("buffer") in buffers for load in self.loads)

    def is_transposition(self) -> bool:
        """Whether it is a load at its own axes in another order."""
        if isinstance(self.definition, ScatterDefinition) or self.definition.body.op is not OPS["load"]:
            return False
        at, axes = [as_size(item) for item in self.definition.body.operands], list(self.definition.axes)
        return at != axes and set(at) == set(axes) and len(at) == len(axes)

    def reads_aligned(self, buffer: Buffer) -> bool:
        """Whether it reads a buffer at its own index."""
        return isinstance(self.definition, Definition) and any(
            load.attr("buffer") is buffer and [as_size(item) for item in load.operands] == list(self.definition.axes)
            for load in self.loads
        )

    def is_view(self) -> bool:
        """Whether it is a view, a constant or a cast."""
        return self.count() <= 1 and len(self.loads) <= 1

    def is_cheap(self, uses: int, recomputed: bool, numbers: Container[Buffer]) -> bool:
        """Whether it costs less to compute in each user, `uses` of them, than to store and read.

        A single one of the `numbers`, which are made of sizes alone, is no more of a load than a constant is.
        """
        reads = [read for read in self.loads if read.operands or read.attr("buffer") not in numbers]
        if not recomputed:
            axes = {axis for axis in self.definition.axes if axis_size(axis) != 1}
            reads = [read for read in reads if _mentioned_axes(read) >= axes]
        if self.count() <= CHEAP_TERMS and len(reads) <= 1:
            return True
        return uses == 1 and not recomputed and len(self.terms) <= LARGE_TERMS

    def count(self) -> int:
        """The terms that compute something."""
        return sum(1 for term in self.terms if term.op not in _FREE)


def choose_folded(
    items: list[Dissected], results: set[Buffer], kept: Container[Buffer], chosen: Container[Buffer] = ()
) -> set[Buffer]:
    """The values that are folded into their users, which come after them: `chosen` ones are, `kept` ones are not."""
    reads = {item.buffer: item.reads() for item in items}
    numbers = _made_of_indices(items)
    turned = _read_turned(items, results, reads)
    finished = _finished_products(items, results, reads)
    # Walking backwards knows how often each value ends up being read.
    uses: dict[Buffer, int] = {}
    recomputed: set[Buffer] = set()
    folded: set[Buffer] = set(turned.values())
    for item in reversed(items):
        buffer, mine = item.buffer, 1
        if buffer in turned or buffer in folded or buffer in kept or (buffer in finished and buffer in recomputed):
            pass
        elif buffer in chosen or buffer in numbers or _is_folded(item, uses, recomputed, results, numbers):
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
    return [scatter.initial, scatter.value, *[item for item in scatter.index if isinstance(item, Scalar)]]


def _is_folded(
    item: Dissected,
    uses: Mapping[Buffer, int],
    recomputed: set[Buffer],
    results: set[Buffer],
    numbers: Container[Buffer],
) -> bool:
    if isinstance(item.definition, ScatterDefinition) or item.bound:
        return False
    if item.is_view():
        return True
    if item.buffer in results:
        return False
    return item.is_cheap(uses.get(item.buffer, 0), item.buffer in recomputed, numbers)


def _made_of_indices(items: Iterable[Dissected]) -> set[Buffer]:
    """Cheap values that are made of indices alone, such as a causal mask: to read one back costs more."""
    found: set[Buffer] = set()
    for item in items:
        if item.is_made_of(found):
            found.add(item.buffer)
    return found


def _finished_products(
    items: list[Dissected], results: set[Buffer], reads: Mapping[Buffer, list[tuple[Buffer, bool]]]
) -> set[Buffer]:
    """What is made of a contraction that nothing else reads, at its own index: it is stored instead, for nothing.

    So a window, or another product, that reads it many times need not compute it as often.
    """
    readers: dict[Buffer, int] = {}
    for item in items:
        for buffer in {buffer for buffer, _ in reads[item.buffer]}:
            readers[buffer] = readers.get(buffer, 0) + 1
    products: set[Buffer] = set()
    finished: set[Buffer] = set()
    for item in items:
        if item.reduces and any(term.op is OPS["contract"] for term in item.terms):
            products.add(item.buffer)
        elif not item.bound and any(
            buffer in products | finished
            and readers[buffer] == 1
            and buffer not in results
            and item.reads_aligned(buffer)
            for buffer, _ in reads[item.buffer]
        ):
            finished.add(item.buffer)
    return finished


def _read_turned(
    items: list[Dissected], results: set[Buffer], reads: Mapping[Buffer, list[tuple[Buffer, bool]]]
) -> dict[Buffer, Buffer]:
    """Reductions of which only a transposed view is read, by the views: computed in its place, they lie as it does.

    That is so where the view is a result, or where other values are computed at its own index.
    """
    readers: dict[Buffer, list[Dissected]] = {}
    for item in items:
        for buffer in dict.fromkeys([buffer for buffer, _ in reads[item.buffer]]):
            readers.setdefault(buffer, []).append(item)
    turned: dict[Buffer, Buffer] = {}
    for item in items:
        users = readers.get(item.buffer, [])
        if (
            len(users) != 1
            or item.buffer in results
            or not item.bound
            or isinstance(item.definition, ScatterDefinition)
        ):
            continue
        (view,) = users
        wanted = view.buffer in results or any(user.reads_aligned(view.buffer) for user in readers.get(view.buffer, ()))
        if wanted and view.is_transposition():
            turned[view.buffer] = item.buffer
    return turned


def _overlaps(load: Scalar, axes: Iterable[SizeExpr], bound: Iterable[SizeExpr]) -> bool:
    """Whether windows of bound axes overlap: an index moves further in one of them than from it to the next."""
    for operand in load.operands:
        lengths = [(axis_size(axis), step_along(operand, axis)) for axis in bound]
        steps = [step for step in (step_along(operand, axis) for axis in axes) if isinstance(step, int) and step]
        for size, near in lengths:
            if isinstance(size, int) and isinstance(near, int) and any(near * (size - 1) >= step for step in steps):
                return True
    return False


def _mentioned_axes(load: Scalar) -> set[SizeExpr]:
    found: set[SizeExpr] = set()
    for operand in load.operands:
        expr = as_size(operand)
        if isinstance(expr, SizeExpr):
            found.update([symbol for symbol in free_symbols(expr) if is_axis(symbol)])
    return found
