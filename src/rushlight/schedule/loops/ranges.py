"""Splits axes into ranges where a chain of guards chooses a value for each, as in joined tensors.

Each range gets loops of its own, in which the outcome of the guards is known: a part is copied or computed once, and
without masks. Ranges of the same length share a loop where they are inner axes of one kernel, and what they compute.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TypeGuard

from rushlight.ir.plan import Address
from rushlight.ir.scalar import OPS, Buffer, chain_axis, index
from rushlight.schedule.loops.kernels import Step
from rushlight.schedule.loops.nest import LoopNest, NestStore
from rushlight.schedule.lower.ranges import GUARD, Range, Ranges
from rushlight.schedule.lower.rewrite import Substitution, as_size, step_along
from rushlight.support.frozen import frozen
from rushlight.sym import Size, SizeExpr, axis_size, axis_symbol, substitute
from rushlight.term import postorder

LOAD = OPS["load"]
# Beyond so many terms in all ranges, code grows more than a copy gains.
MOST_TERMS = 4096


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
    return ranges.is_narrow and any(step_along(store.offset, ranges.axis) == 1 for store in stores)


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
