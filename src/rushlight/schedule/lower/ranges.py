"""Ranges of an axis in which a chain of guards chooses one value, as in joined tensors."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise

from rushlight.ir.scalar import OPS, Scalar
from rushlight.schedule.lower.rewrite import as_size, rebuild
from rushlight.support.frozen import frozen
from rushlight.sym import Size, SizeExpr, axis_size, coefficient, free_symbols, is_axis, le, statically_known
from rushlight.term import postorder

GUARD, AND, LT, LE = (OPS[name] for name in ("guard", "and", "lt", "le"))
# Beyond so many ranges code grows more than a copy gains.
MOST_RANGES = 512
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

    @property
    def is_narrow(self) -> bool:
        """Whether vector loops over the ranges would be of few lanes."""
        return any(isinstance(part.length, int) and part.length < LEAST_LANES for part in self.parts)

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
