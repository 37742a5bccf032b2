"""What a forward pass keeps where less memory is allowed: values that are dear to make are made again by cost.

A budget is a share of the bytes between the fewest that can be kept and those that are kept without one. Each price of
time, in bytes, gives a minimum cut, and all of these are the convex hull of bytes and time: the one of least time that
fits is taken, with some values of the next. Small graphs are searched whole, for what lies between the corners.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from fractions import Fraction
from functools import cached_property
from itertools import combinations

from rushlight.autodiff.cut import kept_bytes, minimum_cut
from rushlight.ir.graph import NUMBER, PARAMETER, RESULT, Call
from rushlight.ops.record import Fact
from rushlight.support.frozen import frozen
from rushlight.sym import optimization_hint, product

SMALL = 12
"""So many values, inputs included, are searched whole."""
_WORK_PER_BYTE = 6
"""Multiply-adds that a processor makes while it reads a byte: 230 GFLOP/s beside 37 GB/s on a Zen 4."""


def can_repeat(call: Call) -> bool:
    """Whether a value can be made again at all: not what the host makes, nor one of several results."""
    if call.op in (PARAMETER, RESULT) or isinstance(call.type, tuple):
        return False
    return not getattr(call.op, "facts", Fact.NONE) & (Fact.HOST | Fact.DATA_DEPENDENT | Fact.CONTROL)


def time_of(call: Call) -> int:
    """What making a value takes, as bytes that could be read meanwhile, by hints.

    A call of several tensors that is not pointwise is taken for a product: of m x k and k x n it is the root of the
    sizes' product multiply-adds, m k n.
    """
    if isinstance(call.type, tuple):
        return 0
    operands = [operand for operand in call.inputs() if operand.op is not NUMBER]
    counts = [optimization_hint(product(one.type.shape)) for one in (*operands, call)]
    moved = sum([count * one.type.dtype.itemsize for count, one in zip(counts, (*operands, call), strict=True)])
    facts: Fact = getattr(call.op, "facts", Fact.NONE)
    if len(operands) < 2 or facts & (Fact.POINTWISE | Fact.REDUCTION | Fact.VIEW):
        return moved
    work = int((counts[0] * counts[1] * counts[-1]) ** 0.5)
    return moved + work // _WORK_PER_BYTE


@frozen
class Choice:
    """Some values that are kept, what that takes, and the time of making the others again."""

    values: tuple[Call, ...]
    nbytes: int
    time: int


class Choices:
    """Which values may be kept so that all `required` ones can be had.

    `values` are inputs and calls in order; `free` ones cost nothing. What `is_cheap` says may be made again in no time.
    """

    def __init__(
        self,
        values: Iterable[Call],
        required: Collection[Call],
        free: Collection[Call],
        is_cheap: Callable[[Call], bool],
        derived: Collection[int] = (),
    ) -> None:
        self.values = list(values)
        self.required = [call for call in required if call.op is not NUMBER]
        self.free = free
        self.derived = derived
        self._is_cheap = is_cheap
        self._unpriced = {id(call) for call in free}

    @cached_property
    def _times(self) -> dict[int, int | None]:
        """What making each value takes, by identity; None of those that can only be kept."""
        return {
            id(call): 0 if self._is_cheap(call) else max(1, time_of(call)) if can_repeat(call) else None
            for call in self.values
        }

    def within(self, budget: float) -> list[Call]:
        """What is kept within a budget, from 1 (no value that is dear is made again) to 0 (the fewest bytes)."""
        whole = self._cut(lambda call: Fraction(0) if self._is_cheap(call) else None)
        if budget >= 1 or not self.required:
            return whole
        most, fewest = self._measured(whole), self._at(Fraction(0))
        allowed = fewest.nbytes + Fraction(budget).limit_denominator(1 << 20) * (most.nbytes - fewest.nbytes)
        if len(self.values) <= SMALL:
            return list(self._searched(allowed).values)
        while True:  # corners of the hull, from both sides of what is allowed
            slope = Fraction(most.nbytes - fewest.nbytes, max(1, fewest.time - most.time))
            middle = self._at(slope)
            if most.nbytes <= allowed:
                return list(most.values)
            if _weight(middle, slope) >= _weight(fewest, slope):
                return self._between(fewest, most, allowed)
            most, fewest = (most, middle) if middle.nbytes <= allowed else (middle, fewest)

    def _between(self, fewest: Choice, most: Choice, allowed: Fraction) -> list[Call]:
        """What one corner keeps, and some of what the next one keeps, as far as that is allowed.

        Layers that are alike are in one corner or in the other, all of them. Those of the next corner are taken from
        all over the program, so that no long part of it is made again at once; a larger budget keeps what a smaller one
        keeps.
        """
        kept = {id(call): call for call in fewest.values}
        nbytes = fewest.nbytes
        more = [call for call in most.values if id(call) not in kept]
        bits = max(1, len(more) - 1).bit_length()
        for place in sorted(range(len(more)), key=lambda place: f"{place:0{bits}b}"[::-1]):
            nbytes += self._bytes([more[place]])
            if nbytes > allowed:
                break
            kept[id(more[place])] = more[place]
        return [call for call in self.values if id(call) in kept]

    def _at(self, price: Fraction) -> Choice:
        """The cut where making again costs a price, in bytes."""

        def cost(call: Call) -> Fraction | None:
            time = self._times[id(call)]
            return None if time is None else time * price

        return self._measured(self._cut(cost))

    def _cut(self, cost: Callable[[Call], Fraction | None]) -> list[Call]:
        return minimum_cut(self.values, self.required, self.free, cost, self.derived)

    def _measured(self, kept: Sequence[Call]) -> Choice:
        return Choice(tuple(kept), self._bytes(kept), self.time({id(call) for call in kept}) or 0)

    def _bytes(self, kept: Iterable[Call]) -> int:
        costs = [kept_bytes(call, id(call) in self.derived) for call in kept if id(call) not in self._unpriced]
        return sum(costs)

    def time(self, kept: Collection[int]) -> int | None:
        """The time of making what is not kept, by identity, again; None where that cannot be."""
        stack, seen, total = list(self.required), set[int](), 0
        while stack:
            call = stack.pop()
            if id(call) in kept or id(call) in seen or call.op is NUMBER:
                continue
            seen.add(id(call))
            time = self._times.get(id(call))
            if time is None:
                return None
            total += time
            stack.extend(call.inputs())
        return total

    def _searched(self, allowed: Fraction) -> Choice:
        """Of all sets that fit the one of least time, and of these of fewest bytes."""
        best: tuple[tuple[int, int, int], Choice] | None = None
        values = [call for call in self.values if not isinstance(call.type, tuple) and call.op is not NUMBER]
        for count in range(len(values) + 1):
            for kept in combinations(values, count):
                nbytes = self._bytes(kept)
                time = self.time({id(call) for call in kept}) if nbytes <= allowed else None
                if time is not None and (best is None or (time, nbytes, count) < best[0]):
                    best = (time, nbytes, count), Choice(kept, nbytes, time)
        assert best is not None, "a budget allows the fewest bytes"
        return best[1]


def _weight(kept: Choice, price: Fraction) -> Fraction:
    return kept.nbytes + price * kept.time
