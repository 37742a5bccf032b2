"""Splits axes into ranges where a chain of guards chooses a value for each, as in joined tensors.

Each range gets loops of its own, in which the outcome of the guards is known: a part is copied or computed once, and
without masks. Ranges of the same length share a loop where they are inner axes of one kernel, and what they compute.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import TypeGuard

from rushlight.ir.plan import Address
from rushlight.ir.scalar import OPS, Buffer, Scalar, chain_axis, index
from rushlight.schedule.loops.kernels import Step
from rushlight.schedule.loops.nest import LoopNest, NestStore
from rushlight.schedule.lower.rewrite import Substitution, as_size, rebuild, step_along
from rushlight.support.frozen import frozen
from rushlight.sym import (
    Size,
    SizeExpr,
    axis_size,
    axis_symbol,
    coefficient,
    free_symbols,
    is_axis,
    le,
    statically_known,
    substitute,
)
from rushlight.term import postorder

GUARD, AND, LT, LE, LOAD = (OPS[name] for name in ("guard", "and", "lt", "le", "load"))
# Beyond so many ranges, or terms in all of them, code grows more than a copy gains.
MOST_RANGES = 512
MOST_TERMS = 4096
# Elements of a range that is a vector loop.
LEAST_LANES = 16


@frozen
class Cut:
    """A condition on an axis: it is at least `bound`, or with `below` less than that."""

    bound: Size
    below: bool


@frozen
class Range:
    """Values of an axis from `start` on, `length` of them; `number` counts the ranges of the axis."""

    number: int
    start: Size
    length: Size


class Ranges:
    """The ranges of an axis between the bounds that the guards of scalars compare it with, in order.

    `cuts` are the conditions of each guard that are of the axis, None for others.
    """

    def __init__(self, axis: SizeExpr, bounds: Sequence[Size], cuts: Mapping[Scalar, Sequence[Cut | None]]) -> None:
        self.axis = axis
        self._cuts = cuts
        self._numbers = {bound: number for number, bound in enumerate(bounds)}
        starts = [0, *bounds]
        ends = [*bounds, axis_size(axis)]
        pairs = enumerate(zip(starts, ends, strict=True))
        self.parts = [Range(number, start, end - start) for number, (start, end) in pairs]

    @staticmethod
    def of(axis: SizeExpr, roots: Iterable[Scalar]) -> Ranges | None:
        """The ranges of an axis; None if no chain of guards chooses by it, or if bounds have no known order."""
        guards = [term for term in postorder(roots) if term.op is GUARD]
        cuts = {guard: [_cut(axis, factor) for factor in _factors(guard.operands[0])] for guard in guards}
        chosen = {guard for guard in guards if any(cuts[guard])}
        if not any(guard.operands[2] in chosen for guard in chosen):
            return None
        bounds = list(dict.fromkeys([cut.bound for guard in guards for cut in cuts[guard] if cut is not None]))
        limits = [0, *bounds, axis_size(axis)]
        ordered = all(statically_known(le(one, other)) for one, other in pairwise(limits))
        return Ranges(axis, bounds, cuts) if ordered and len(bounds) < MOST_RANGES else None

    def within(self, part: Range, root: Scalar) -> Scalar:
        """A scalar as it is in one of the ranges: without the guards, and the arms, that are decided there."""

        def chosen(term: Scalar) -> Scalar:
            while term.op is GUARD:
                outcomes = [self._holds(part, cut) for cut in self._cuts[term]]
                if False not in outcomes and None in outcomes:
                    break
                term = term.operands[2 if False in outcomes else 1]
            return term

        images: dict[Scalar, Scalar] = {}
        for term in postorder([chosen(root)], lambda term: [chosen(operand) for operand in term.operands]):
            operands = tuple([images[chosen(operand)] for operand in term.operands])
            images[term] = term if operands == term.operands else rebuild(term, operands)
        return images[chosen(root)]

    def _holds(self, part: Range, cut: Cut | None) -> bool | None:
        return None if cut is None else (part.number > self._numbers[cut.bound]) != cut.below


def _cut(axis: SizeExpr, condition: Scalar) -> Cut | None:
    """Which cut of an axis a condition is, if it is one."""
    if condition.op not in (LT, LE):
        return None
    low, high = (as_size(operand) for operand in condition.operands)
    if low is None or high is None:
        return None
    room = high - low - (condition.op is LT)  # the condition holds where this is not negative
    step = 0 if isinstance(room, int) else coefficient(room, axis)
    if step not in (1, -1):
        return None
    bound = axis - room if step == 1 else room + axis + 1
    moves = isinstance(bound, SizeExpr) and any(is_axis(symbol) for symbol in free_symbols(bound))
    return None if moves else Cut(bound, step == -1)


def _factors(condition: Scalar) -> Iterator[Scalar]:
    stack = [condition]
    while stack:
        term = stack.pop()
        if term.op is AND:
            stack.extend(term.operands)
        else:
            yield term


@frozen
class Part:
    """One of the nests that a nest is split into: offsets in some buffers count from `starts`."""

    nest: LoopNest
    starts: Mapping[Buffer, Size]

    def moved(self, step: Step) -> Step:
        """Its launch, with the addresses of the buffers' first elements."""
        words = [Address(word, self.starts[word]) if self._is_moved(word) else word for word in step.arguments]
        return replace(step, arguments=tuple(words))

    def _is_moved(self, word: Buffer | Address | Size) -> TypeGuard[Buffer]:
        return isinstance(word, Buffer) and self.starts.get(word, 0) != 0


def split_ranges(nest: LoopNest) -> list[Part]:
    """The nest, with inner axes split; where an outer axis is split, a nest for each of its ranges."""
    whole = [Part(nest, {})]
    terms = list(postorder(nest.roots()))
    guarded = any(term.op is GUARD for term in terms)  # most nests have none: then this is the only walk
    if not guarded or nest.is_conditional or any(chain_axis(term) is not None for term in terms):
        return whole
    _split_inner(nest)
    for depth, axis in enumerate(nest.outer):
        ranges = Ranges.of(axis, [store.value for store in nest.stores])
        if ranges is not None and not _is_narrow(ranges, nest.stores):
            return [_part_within(nest, depth, ranges, part) for part in ranges.parts]
    return whole


def _is_narrow(ranges: Ranges, stores: Iterable[NestStore]) -> bool:
    """Whether the ranges would be vector loops of few lanes."""
    few = any(isinstance(part.length, int) and part.length < LEAST_LANES for part in ranges.parts)
    return few and any(step_along(store.offset, ranges.axis) == 1 for store in stores)


def _part_within(nest: LoopNest, depth: int, ranges: Ranges, part: Range) -> Part:
    """The nest where the outer axis at a depth is within one range."""
    inner = [] if part.length == 1 else [axis_symbol(part.length, f"i{depth}")]
    at = Substitution({ranges.axis: part.start + sum(inner)})
    outer = (*nest.outer[:depth], *inner, *nest.outer[depth + 1 :])
    values = [at(ranges.within(part, store.value)) for store in nest.stores]
    read = {term.attr("buffer") for term in postorder(values) if term.op is LOAD}
    starts: dict[Buffer, Size] = {}
    stores: list[NestStore] = []
    for store, value in zip(nest.stores, values, strict=True):
        offset, start = at(store.offset), as_size(at(store.offset))
        if start is not None and store.buffer not in read and store.buffer not in starts:
            first = substitute(start, dict.fromkeys((*outer, *store.inner), 0))
            starts[store.buffer], offset = first, index(start - first)
        stores.append(NestStore(store.inner, store.buffer, offset, value))
    return Part(LoopNest(outer, stores), starts)


def _inner_ranges(store: NestStore) -> Ranges | None:
    """The ranges of the outermost inner axis that has some of enough lanes."""
    each_axis = (Ranges.of(axis, [store.value]) for axis in store.inner)
    return next((ranges for ranges in each_axis if ranges is not None and not _is_narrow(ranges, [store])), None)


def _split_inner(nest: LoopNest) -> None:
    axes = {tuple([axis_size(axis) for axis in store.inner]): store.inner for store in nest.stores}
    stores: list[NestStore] = []
    for store in nest.stores:
        ranges = _inner_ranges(store)
        if ranges is None or len(ranges.parts) * len(list(postorder([store.value]))) > MOST_TERMS:
            stores.append(store)
            continue
        for part in ranges.parts:
            sizes = tuple([part.length if axis is ranges.axis else axis_size(axis) for axis in store.inner])
            if sizes not in axes:
                axes[sizes] = tuple([axis_symbol(size, f"j{depth}") for depth, size in enumerate(sizes)])
            images: dict[SizeExpr, Size] = dict(zip(store.inner, axes[sizes], strict=True))
            images[ranges.axis] = images[ranges.axis] + part.start
            at = Substitution(images)
            value = at(ranges.within(part, store.value))
            stores.append(NestStore(axes[sizes], store.buffer, at(store.offset), value))
    nest.stores = stores
