"""Work grows in proportion to the number of symbols, counted in steps of the interpreter rather than in time."""

import itertools
import sys
from collections.abc import Callable

from rushlight.support.garbage import uncollected
from rushlight.sym import (
    Scope,
    axis_symbol,
    bounds,
    check,
    eq,
    free_symbols,
    ge,
    guard_or_false,
    le,
    ne,
    optimization_hint,
    statically_known,
    substitute,
    total,
)


def steps(work: Callable[[], object]) -> int:
    """The number of calls that `work` makes, into Python and into C; none of them to let go of other tests' garbage."""
    count = 0

    def profile(frame, event, arg) -> None:
        nonlocal count
        if event in ("call", "c_call"):
            count += 1

    before = sys.getprofile()
    with uncollected():
        sys.setprofile(profile)
        try:
            work()
        finally:
            sys.setprofile(before)
    return count


def assert_near_linear(run: Callable[[int], Callable[[], object]], small: int = 80, large: int = 320) -> None:
    """Exponent of at most 1.2 between two sizes."""
    few, many = steps(run(small)), steps(run(large))
    assert few > small / 2
    assert many / few <= (large / small) ** 1.2, (few, many)


def test_a_sum_built_one_by_one_with_queries_at_each_step():
    def run(number: int) -> Callable[[], object]:
        scope = Scope(locate=lambda: None)
        limit = scope.symbol("limit")

        def work() -> None:
            size = 0
            for _ in range(number):
                u = scope.symbol()
                check(ge(u, 2))
                size = size + u
                assert bounds(size)[0] >= 2
                assert optimization_hint(size) >= 2
                assert statically_known(ne(size, 1))
                assert not guard_or_false(eq(size, limit))
                assert not statically_known(le(size, limit))
            assert size.count == number
            assert scope.parse(str(size)) is size

        return work

    assert_near_linear(run, 320, 1280)


def test_a_sum_taken_apart_again():
    def run(number: int) -> Callable[[], object]:
        scope = Scope(locate=lambda: None)
        symbols = [scope.symbol() for _ in range(number)]

        def work() -> None:
            size = total(symbols)
            for symbol in symbols:
                size = size - symbol
            assert size == 0

        return work

    assert_near_linear(run, 320, 1280)


def test_a_chain_of_equalities():
    def run(number: int) -> Callable[[], object]:
        scope = Scope(locate=lambda: None)
        symbols = [scope.symbol() for _ in range(number)]

        def work() -> None:
            for left, right in itertools.pairwise(symbols):
                check(eq(left, right))
            assert scope.resolve(symbols[-1] + 1) is symbols[0] + 1

        return work

    assert_near_linear(run)


def test_substituting_and_listing_symbols():
    def run(number: int) -> Callable[[], object]:
        scope = Scope(locate=lambda: None)
        symbols = [scope.symbol() for _ in range(number)]
        images = {symbol: 2 * symbol + 1 for symbol in symbols}
        size = total(symbols)

        def work() -> None:
            assert substitute(size, images) is 2 * size + number
            assert len(free_symbols(size)) == number

        return work

    assert_near_linear(run)


def test_long_sums_are_the_same_object_however_they_are_built():
    scope = Scope()
    symbols = [scope.symbol() for _ in range(100)]
    forwards = backwards = odd_first = 0
    for symbol in symbols:
        forwards = forwards + symbol
    for symbol in reversed(symbols):
        backwards = symbol + backwards
    for symbol in symbols[1::2] + symbols[::2]:
        odd_first = odd_first + symbol
    assert forwards is backwards is odd_first is total(symbols)
    half = total(symbols[:50])
    assert forwards - half is total(symbols[50:])
    assert forwards - forwards == 0
    assert 3 * forwards - forwards is forwards * 2
    assert forwards + 1 - 1 is forwards
    assert (forwards - total(symbols[3:])) is symbols[0] + symbols[1] + symbols[2]
    axis = axis_symbol(forwards)
    assert (axis + forwards) // forwards == 1
    assert (forwards * 4 + 2) // 4 is forwards
