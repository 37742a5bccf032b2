"""Canonical form: equal expressions are one object, and mean what Python's arithmetic says."""

import copy
import gc
import threading
import weakref

import numpy as np
import pytest
from hypothesis import given, settings
from tests.sym.strategies import SYMBOLS, expressions, values

from rushlight.support.errors import InternalError
from rushlight.sym import (
    Scope,
    SizeExpr,
    axis_size,
    axis_symbol,
    bounds,
    coefficient,
    depends_on,
    evaluate,
    free_symbols,
    is_axis,
    is_symbol,
    maximum,
    minimum,
    ne,
    optimization_hint,
    parts,
    product,
    substitute,
    total,
)
from rushlight.sym.memo import forget
from rushlight.sym.query import symbols_of


@pytest.fixture
def s() -> list[SizeExpr]:
    scope = Scope()
    return [scope.symbol() for _ in range(4)]


@settings(max_examples=150, deadline=None)
@given(expressions, values())
def test_value_is_that_of_plain_arithmetic(pair, point):
    e, meaning = pair
    assert evaluate(e, point) == meaning(point)


@settings(max_examples=150, deadline=None)
@given(expressions, values())
def test_value_lies_within_bounds(pair, point):
    lower, upper = bounds(pair[0])
    value = pair[1](point)
    assert lower is None or lower <= value
    assert upper is None or value <= upper


@settings(max_examples=80, deadline=None)
@given(expressions, expressions)
def test_sums_and_products_do_not_depend_on_order(left, right):
    a, b = left[0], right[0]
    assert (a + b) - (b + a) == 0
    assert a + b is b + a or a + b == b + a
    assert a * b is b * a or a * b == b * a
    assert (a + b) * 3 - 3 * a - 3 * b == 0
    assert (a - b) + b is a or (a - b) + b == a
    assert minimum(a, b) is minimum(b, a) or minimum(a, b) == minimum(b, a)


@settings(max_examples=80, deadline=None)
@given(expressions, values())
def test_substitution_commutes_with_evaluation(pair, point):
    e = pair[0]
    images = {SYMBOLS[0]: SYMBOLS[1] + 2, SYMBOLS[1]: SYMBOLS[0] * 2, SYMBOLS[4]: 0}
    moved = {symbol: evaluate(images.get(symbol, symbol), point) for symbol in SYMBOLS}
    # The new values need not lie in the ranges of the axes, so only expressions without the axes are compared.
    if not any(is_axis(symbol) for symbol in free_symbols(e)):
        assert evaluate(substitute(e, images), point) == evaluate(e, moved)
    assert evaluate(substitute(e, point), {}) == evaluate(e, point)


@settings(max_examples=150, deadline=None)
@given(expressions, values())
def test_parts_add_up_to_the_expression(pair, point):
    e = pair[0]
    assert total([scale * product(atoms) for scale, atoms in parts(e)]) in (e,)
    for _, atoms in parts(e):
        assert all(atom.op.name in ("symbol", "floordiv", "min", "max") for atom in atoms)


@settings(max_examples=50, deadline=None)
@given(expressions)
def test_coefficient_splits_off_a_linear_symbol(pair):
    e = pair[0]
    for symbol in SYMBOLS:
        factor = coefficient(e, symbol)
        if factor is None:
            assert depends_on(e, symbol)
            continue
        rest = substitute(e, {symbol: 0})
        assert not depends_on(factor, symbol)
        assert factor * symbol + rest is e or factor * symbol + rest == e


def test_equal_expressions_are_one_object(s):
    s0, s1, s2, _ = s
    assert (s0 + s1) * (s0 - s1) is s0 * s0 - s1 * s1
    assert s0 * (s1 + s2) is s2 * s0 + s0 * s1
    assert s0 + s1 + 1 is 1 + s1 + s0
    assert 2 * s0 - s0 is s0
    assert s0 * 1 is s0
    assert +s0 is s0
    assert -1 * -s0 is s0


def test_constants_are_plain_integers(s):
    s0 = s[0]
    for value, expected in ((s0 - s0, 0), (s0 * 0, 0), (s0 - s0 + 3, 3), (s0 // s0, 1), (s0 % 1, 0), (0 * s0 + 2, 2)):
        assert type(value) is int
        assert value == expected
    assert type(total([True, True])) is int
    assert total([]) == 0
    assert product([]) == 1


def test_integers_of_other_kinds_become_int(s):
    s0 = s[0]
    assert s0 + np.int64(2) is s0 + 2
    assert np.int64(2) * s0 is 2 * s0
    assert s0 + True is s0 + 1
    assert s0 // np.int32(2) is s0 // 2


def test_what_is_no_integer_is_refused(s):
    for other in (1.0, "1", None):
        with pytest.raises(TypeError):
            s[0] + other
        with pytest.raises(TypeError):
            minimum(s[0], other)
    with pytest.raises(TypeError):
        assert s[0] < 3


def test_a_size_is_neither_truth_nor_int(s):
    scope = Scope()
    size = scope.symbol("s0") + 1
    for ask in (bool, int, lambda e: [0][e], range):
        with pytest.raises(InternalError, match="the size s0 \\+ 1" if ask is not bool else "no truth value"):
            ask(size)


def test_equality_is_identity(s):
    s0, s1 = s[:2]
    assert s0 + s1 == s1 + s0
    assert s0 != s1
    assert s0 != 3
    assert len({s0 + 1, 1 + s0, s0 + 2}) == 2
    assert copy.deepcopy(s0 + 1) is s0 + 1
    with pytest.raises(AttributeError):
        s0.op = None


def test_minima_and_maxima_drop_what_never_wins(s):
    s0, s1, s2, _ = s
    assert minimum(s0, s0 + 1) is s0
    assert maximum(s0, s0 + 1) is s0 + 1
    assert minimum(s0, -1) == -1
    assert maximum(s0, 0) is s0
    assert minimum(minimum(s0, 8), minimum(s1, 4)) is minimum(s1, minimum(4, s0))
    assert minimum(s0, minimum(s1, s2)) is minimum(minimum(s2, s0), s1)
    assert maximum(3, 4) == 4
    axis = axis_symbol(s0)
    assert minimum(axis, s0) is axis
    assert minimum(axis, s0 - 1) is axis
    assert maximum(axis, s0) is s0


def test_parts_are_ordered_by_degree_and_age(s):
    s0, s1, s2, _ = s
    e = 1 + s0 // 4 + 2 * s1 * s0 + s2 + s1
    assert parts(e) == ((2, (s0, s1)), (1, (s1,)), (1, (s2,)), (1, (s0 // 4,)), (1, ()))
    assert parts(0) == ()
    assert parts(7) == ((7, ()),)
    assert parts(s0) == ((1, (s0,)),)
    assert (s0 // 4).operands == (s0, 4)
    assert minimum(s0, 8).operands == (s0, 8)


def test_order_of_parts_does_not_depend_on_history():
    def build(first_made: int) -> list[str]:
        scope = Scope()
        a, b, c = scope.symbol("a"), scope.symbol("b"), scope.symbol("c")
        made = [a // 3, b // 2, minimum(a, b), (a + c) // b]
        made = made[first_made:] + made[:first_made]
        return [str(atom) for _, atoms in parts(total(made) * c) for atom in atoms]

    assert build(0) == build(1) == build(2)


def test_coefficient_cases(s):
    s0, s1, s2, _ = s
    i = axis_symbol(s0, "i")
    e = i * s1 * 4 + i * 3 + s2 * s1 + 7
    assert coefficient(e, i) is 4 * s1 + 3
    assert coefficient(e, s2) is s1
    assert coefficient(e, s[3]) == 0
    assert coefficient(5, i) == 0
    assert coefficient(i * i, i) is None
    assert coefficient(i // 3 + i, i) is None
    assert coefficient(i * (i // 3), i) is None
    assert coefficient(i, i) == 1


def test_axes_know_their_size(s):
    s0 = s[0]
    i = axis_symbol(s0 * 2, "i")
    assert is_axis(i)
    assert is_symbol(i)
    assert not is_axis(s0)
    assert not is_axis(i + 1)
    assert axis_size(i) is s0 * 2
    assert axis_symbol(s0, "i") is not axis_symbol(s0, "i")
    assert free_symbols(i + s[1]) == (s[1], i)
    assert bounds(axis_symbol(5)) == (0, 4)
    with pytest.raises(TypeError):
        axis_size(s0)


def test_bounds_of_remainders_and_quotients():
    scope = Scope()
    n, m = scope.symbol("n", lower=4, upper=100), scope.symbol("m")
    assert bounds(n % 4) == (0, 3)
    assert bounds(n // 4) == (1, 25)
    assert bounds(m // 4) == (0, None)
    assert bounds(n * m) == (0, None)
    assert bounds(n - 2 * m) == (None, 100)
    assert bounds(minimum(n, m)) == (0, 100)
    assert bounds(maximum(n, m)) == (4, None)
    assert bounds(n % 8 + m % 3) == (0, 9)
    assert bounds(-n) == (-100, -4)
    assert bounds(scope.symbol("t", lower=None)) == (None, None)
    assert bounds(3) == (3, 3)


def test_unused_expressions_are_freed_at_once_but_for_the_memo():
    gc.disable()
    try:
        scope = Scope()
        size = scope.symbol()
        axis = axis_symbol(size)
        made = [weakref.ref(e) for e in (axis, axis * size, (axis + size) // 3, minimum(axis, 5), axis + 987654321)]
        assert all(ref() is not None for ref in made)
        forget()
        assert [ref() for ref in made[1:]] == [None] * 4
        del axis
        assert made[0]() is None
    finally:
        gc.enable()


def test_the_table_of_terms_keeps_no_scope():
    """The facts of a scope are expressions of its symbols, which refer to it: the collector frees all of them."""
    scope = Scope()
    n, m = scope.symbol(hint=3), scope.symbol(hint=4)
    scope.guard(ne(n * m + 1, 5))
    scope.guard(ne(minimum(n, 7) + n // 2, 6))
    ref = weakref.ref(scope)
    del scope, n, m
    forget()
    gc.collect()
    assert ref() is None


def test_threads_that_race_get_the_same_objects():
    scope = Scope()
    symbols = [scope.symbol() for _ in range(6)]
    found: list[list[SizeExpr]] = []
    start = threading.Barrier(4)

    def build() -> None:
        start.wait()
        found.append([(a * b + c) // 7 for a in symbols for b in symbols for c in symbols])

    threads = [threading.Thread(target=build) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 4
    for other in found[1:]:
        assert all(x is y for x, y in zip(found[0], other, strict=True))


def test_symbols_of_deep_expressions_are_found_without_recursion():
    scope = Scope()
    e = scope.symbol("x")
    for number in range(600):
        e = 3 * (e // 2) + (scope.symbol(f"y{number}") if number % 150 == 0 else 1)
    assert len(symbols_of(e)) == 5
    assert evaluate(e, dict.fromkeys(free_symbols(e), 5)) > 0
    assert bounds(e) == (1, None)
    assert scope.parse(str(e)) is e
    assert substitute(e, {free_symbols(e)[0]: 4 * scope.symbol("z")}) is not e
    assert optimization_hint(e) > 0
    assert parts(e)
