"""Scopes: what is asked, what is guarded, and what is known afterwards."""

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.sym.strategies import expressions, values

from rushlight.support.errors import CompileError, DataDependentError, ExecutionError, InternalError, ShapeError
from rushlight.support.provenance import Frame
from rushlight.sym import (
    Condition,
    Origin,
    Scope,
    axis_symbol,
    bounds,
    broadcast_sizes,
    check,
    divides,
    eq,
    ge,
    gt,
    guard,
    guard_or_false,
    guard_or_true,
    guarding_hint_or_throw,
    is_nonnegative,
    le,
    lt,
    minimum,
    ne,
    scope_of,
    statically_known,
)


def guards_of(scope: Scope) -> list[str]:
    return [str(guard.condition) for guard in scope.guards]


def asserts_of(scope: Scope) -> list[str]:
    return [str(one.condition) for one in scope.asserts]


# ------------------------------------------------------------- conditions


@settings(max_examples=120, deadline=None)
@given(
    expressions,
    expressions,
    values(),
    st.sampled_from([(eq, "=="), (ne, "!="), (lt, "<"), (le, "<="), (gt, ">"), (ge, ">=")]),
)
def test_conditions_mean_what_they_say(left, right, point, made):
    build, text = made
    (a, x), (b, y) = left, right
    asked = build(a, b)
    truth = {
        "==": x(point) == y(point),
        "!=": x(point) != y(point),
        "<": x(point) < y(point),
        "<=": x(point) <= y(point),
        ">": x(point) > y(point),
        ">=": x(point) >= y(point),
    }[text]
    if isinstance(asked, bool):
        assert asked == truth
    else:
        assert asked.holds(point) == truth
        assert asked.negate().holds(point) != truth
        assert asked.negate().negate() == asked


def test_conditions_have_one_form_and_print():
    scope = Scope()
    s0, s1 = scope.symbol("s0"), scope.symbol("s1")
    for asked, text in (
        (eq(s0, s1), "s0 == s1"),
        (eq(s1, s0), "s0 == s1"),
        (ne(2 * s0, 2 * s1), "s0 != s1"),
        (lt(s0, 1024), "s0 < 1024"),
        (le(s0, 1023), "s0 < 1024"),
        (ge(s0, 1024), "s0 >= 1024"),
        (gt(1024, s0), "s0 < 1024"),
        (lt(s0, s1), "s0 < s1"),
        (gt(s0, s1), "s0 > s1"),
        (le(s0, s1), "s0 <= s1"),
        (ge(s0, s1 + 2), "s0 >= s1 + 2"),
        (lt(2 * s0, 7), "s0 < 4"),
        (eq(s0 * s1, 12), "s0*s1 == 12"),
        (eq(s0 + 3, s1), "s0 + 3 == s1"),
        (ne(s0 % 4, 0), "s0%4 != 0"),
    ):
        assert str(asked) == text
    assert lt(s0, 5) == le(s0, 4)
    assert lt(s0, 5) == ge(s0, 5).negate()
    assert hash(eq(s0, s1)) == hash(eq(s1, s0))
    assert isinstance(eq(s0, s1), Condition)


def test_conditions_without_doubt_are_bools():
    scope = Scope()
    s0, s1 = scope.symbol(), scope.symbol(lower=3, upper=9, multiple_of=3)
    i = axis_symbol(s0)
    for asked, truth in (
        (eq(s0, s0), True),
        (eq(s0, s0 + 1), False),
        (ge(s0, 0), True),
        (lt(s0, 0), False),
        (eq(2 * s0, 5), False),
        (lt(i, s0), True),
        (ge(i, s0), False),
        (le(i + 1, s0), True),
        (ne(i, s0), True),
        (lt(s1, 10), True),
        (eq(s1, 5), False),
        (lt(s1 % 3, 1), True),
        (ge(s0 * s1, 0), True),
        (eq(4, 4), True),
        (lt(s0 % 8, 8), True),
        (lt(minimum(s0, 8), 9), True),
    ):
        assert asked is truth
    multiple = scope.symbol(multiple_of=8)
    assert eq(4 * (multiple // 4), multiple) is True


def test_a_condition_has_no_truth_value():
    scope = Scope()
    with pytest.raises(InternalError, match="no truth value"):
        bool(eq(scope.symbol(), 3))


# ---------------------------------------------------------- four questions


def test_guard_decides_by_hint_and_records_what_was_taken_once():
    scope = Scope()
    s0 = scope.symbol(hint=8)
    assert guard(lt(s0, 1024), "a loop's bound") is True
    assert guard(lt(s0, 1024)) is True
    assert guard(ge(s0, 1024)) is False
    assert guard(lt(s0, 2000)) is True
    assert guards_of(scope) == ["s0 < 1024"]
    assert scope.guards[0].reason == "a loop's bound"
    assert "test_scope.py" in str(scope.guards[0].frame)
    other = Scope()
    big = other.symbol("s0", hint=4096)
    assert guard(lt(big, 1024)) is False
    assert guards_of(other) == ["s0 >= 1024"]


def test_guards_are_learned_as_equalities_and_intervals():
    scope = Scope()
    s0, s1, s2, s3 = (scope.symbol(hint=hint) for hint in (4, 4, 9, 5))
    assert guard(eq(s0, s1))
    assert guard(eq(s2, s1 + s3))
    assert statically_known(eq(s2 * 2, 2 * s0 + 2 * s3))
    assert not statically_known(eq(s0, s3))
    assert guard(ge(s0, 2))
    assert bounds(s1) == (2, None)
    assert statically_known(gt(s1, 1))
    assert guard(lt(s0, s3))
    assert statically_known(ge(s3, 3))
    assert guards_of(scope) == ["s0 == s1", "s1 + s3 == s2", "s0 >= 2", "s0 < s3"]
    before = len(scope.guards)
    assert not guard(eq(s1, s3))
    assert guard(ne(s3, s0))
    assert len(scope.guards) == before


def test_guards_of_products_and_remainders_are_remembered():
    scope = Scope()
    s0, s1 = scope.symbol(hint=8), scope.symbol(hint=6)
    assert guard(eq(s0 % 4, 0))
    assert guard(eq(s0 % 4, 0))
    assert not guard(eq(s0 * s1, 12))
    assert guard(ne(s0 * s1, 12))
    assert guard(gt(s0 * s1, 40))
    assert bounds(s0 * s1) == (41, None)
    assert len(scope.guards) == 3


def test_unbacked_sizes_take_the_general_path():
    scope = Scope()
    u0 = scope.symbol(source=Origin("x.nonzero()"))
    assert guard_or_false(eq(u0, 0)) is False
    assert guard_or_true(ne(u0, 0)) is True
    assert guard_or_false(ge(u0, 0)) is True
    assert guard_or_true(lt(u0, 0)) is False
    assert statically_known(eq(u0, 0)) is False
    assert not scope.guards
    with pytest.raises(DataDependentError, match="whether u0 == 0") as caught:
        guard(eq(u0, 0))
    assert caught.value.code == "C002"
    assert "x.nonzero()" in str(caught.value)


@pytest.mark.parametrize(
    ("asked", "answer", "guards"),
    [
        (lambda s, u: eq(s + u, 0), False, ["s0 >= 1"]),
        (lambda s, u: ne(3 * s + 2 * u, 5), True, ["s0 >= 2"]),
        (lambda s, u: ge(s + u, 8), True, ["s0 >= 8"]),
        (lambda s, u: lt(s + u, 8), False, ["s0 >= 8"]),
        (lambda s, u: eq(s - u, 9), False, ["s0 < 9"]),
        (lambda s, u: le(s - u, 8), True, ["s0 < 9"]),
        (lambda s, u: gt(s - u, 8), False, ["s0 < 9"]),
        (lambda s, u: ge(s + u, 9), None, []),
        (lambda s, u: eq(s + u, 8), None, []),
        (lambda s, u: eq(s - u, 0), None, []),
        (lambda s, u: eq(s * u, 1), None, []),
        (lambda s, u: eq(u, 0), None, []),
    ],
)
def test_a_sum_with_an_unbacked_size_is_decided_by_the_other_sizes_where_they_can(asked, answer, guards):
    scope = Scope()
    s0, u0 = scope.symbol(hint=8), scope.symbol(source=Origin("x.nonzero()"))
    condition = asked(s0, u0)
    if answer is None:
        with pytest.raises(DataDependentError):
            guard(condition)
    else:
        assert guard(condition) is answer and scope.known(condition) is answer
    assert guards_of(scope) == guards


def test_backed_sizes_are_guarded_by_the_or_questions():
    scope = Scope()
    s0 = scope.symbol(hint=0)
    assert guard_or_false(eq(s0, 0)) is True
    assert guards_of(scope) == ["s0 == 0"]
    assert scope.resolve(s0 + 3) == 3
    assert statically_known(eq(s0, 0))


def test_plain_bools_pass_through():
    for answer in (True, False):
        assert guard(answer) is answer
        assert guard_or_false(answer) is answer
        assert guard_or_true(answer) is answer
        assert statically_known(answer) is answer
    check(True)
    with pytest.raises(ExecutionError):
        check(False, "never")


def test_checks_become_asserts_and_facts():
    scope = Scope()
    u0, u1, s0 = scope.symbol(), scope.symbol(), scope.symbol(hint=3)
    check(le(u0, u1), "u0 fits")
    check(le(u0, u1))
    check(ge(u0, 4))
    assert statically_known(ge(u1, 4))
    assert statically_known(ge(u1 * s0, 4 * s0))
    check(eq(u0 + u1, 3 * s0))
    assert asserts_of(scope) == ["u0 <= u1", "u0 >= 4", "3*s0 == u0 + u1"]
    assert scope.asserts[0].message == "u0 fits"
    with pytest.raises(ExecutionError, match="for any value"):
        check(lt(u0, 4))
    with pytest.raises(ExecutionError, match="for the example"):
        check(gt(s0, 3))
    with pytest.raises(InternalError, match="loop axes"):
        i, j = axis_symbol(4), axis_symbol(5)
        check(lt(i, j))


def test_inequalities_follow_from_others():
    scope = Scope()
    a, b, c = (scope.symbol(name) for name in "abc")
    check(le(a, b))
    check(le(b, c))
    assert statically_known(le(a, c))
    assert not statically_known(lt(a, c))
    check(ge(b, a + 2))
    assert statically_known(lt(a, c))
    assert is_nonnegative(c - a - 2)
    assert not is_nonnegative(c - a - 3)


def test_twelve_times_a_size_exceeds_it_once_it_is_positive():
    scope = Scope()
    u0 = scope.symbol()
    assert not statically_known(gt(12 * u0, u0))
    check(ge(u0, 1))
    assert statically_known(gt(12 * u0, u0))


def test_two_scopes_share_nothing():
    one, other = Scope(), Scope()
    a, b = one.symbol("s0", hint=3), other.symbol("s0", hint=3)
    assert a is not b
    guard(eq(a, 3))
    assert not statically_known(eq(b, 3))
    assert one.parse("s0 + 1") is a + 1
    assert other.parse("s0 + 1") is b + 1
    assert scope_of(a + 1) is one
    assert scope_of(3) is None
    assert scope_of(axis_symbol(b)) is other
    with pytest.raises(CompileError, match="another traced program"):
        guard(eq(a, b + 4).negate())
    with pytest.raises(InternalError, match="loop axis"):
        check(lt(axis_symbol(b), b - 1))


def test_symbols_must_fit_their_facts():
    scope = Scope()
    for facts in ({"hint": 3, "upper": 2}, {"hint": 3, "multiple_of": 2}, {"hint": -1}):
        with pytest.raises(InternalError, match="outside"):
            scope.symbol(**facts)
    scope.symbol("x")
    with pytest.raises(InternalError, match="already"):
        scope.symbol("x")
    assert scope.symbol("s0").attr("name") == "s0"
    assert scope.symbol(hint=2).attr("name") == "s1"
    assert scope.symbol().attr("name") == "u0"
    assert list(scope.hints.values()) == [2]


def test_the_version_moves_when_something_is_learned():
    scope = Scope()
    s0, s1 = scope.symbol(hint=4), scope.symbol(hint=4)
    start = scope.version
    assert bounds(s0 * s1) == (0, None)
    assert guard(ge(s1, 0))
    assert scope.version == start
    assert guard(lt(s1, 7))
    assert scope.version > start
    assert bounds(s1) == (0, 6)
    assert guard(lt(s1, 5))
    assert guard(lt(s0, 5))
    assert bounds(s0 * s1) == (0, 16)


# ------------------------------------------------------------ broadcasting


def test_broadcasting_guards_the_relation_and_never_the_value():
    scope = Scope()
    s0, s1, s2, s3 = (scope.symbol(hint=hint) for hint in (8, 8, 1, 5))
    assert broadcast_sizes(s0, 1) is s0
    assert broadcast_sizes(1, s0) is s0
    assert broadcast_sizes(s0, s0) is s0
    assert broadcast_sizes(4, 4) == 4
    assert not scope.guards
    assert broadcast_sizes(s0, s1) is s0
    assert broadcast_sizes(s1, s0) is s0
    assert guards_of(scope) == ["s0 == s1"]
    assert broadcast_sizes(s2, s3) is s3
    assert broadcast_sizes(s3, s2) is s3
    assert guards_of(scope) == ["s0 == s1", "s2 == 1"]
    assert broadcast_sizes(s0, 8) == 8
    assert guards_of(scope)[2:] == ["s0 == 8"]
    with pytest.raises(ShapeError) as caught:
        broadcast_sizes(s0, s3)
    assert caught.value.code == "S001"
    with pytest.raises(ShapeError):
        broadcast_sizes(3, 4)


def test_both_ones_are_taken_as_equal():
    scope = Scope()
    s0, s1 = scope.symbol(hint=1), scope.symbol(hint=1)
    assert broadcast_sizes(s0, s1) is s0
    assert guards_of(scope) == ["s0 == s1"]


def test_broadcasting_unbacked_sizes_asserts_that_they_are_equal():
    scope = Scope()
    u0, u1, s0, s1 = scope.symbol(), scope.symbol(), scope.symbol(hint=7), scope.symbol(hint=1)
    assert broadcast_sizes(u0, u1) is u0
    assert broadcast_sizes(u1, s0) is s0
    assert asserts_of(scope) == ["u0 == u1", "s0 == u1"]
    assert scope.resolve(u1) is s0
    assert broadcast_sizes(s1, u0) is s0
    assert guards_of(scope) == ["s1 == 1"]
    u2 = scope.symbol()
    assert broadcast_sizes(u2, 6) == 6
    assert asserts_of(scope)[2:] == ["u2 == 6"]
    assert guarding_hint_or_throw(u2 + u0) == 13
    with pytest.raises(ShapeError):
        broadcast_sizes(u2, s0)


# -------------------------------------------------------------- equalities


def test_equalities_chain_through_expressions():
    scope = Scope()
    a, b, c, d = (scope.symbol(name) for name in "abcd")
    check(eq(d, b + c))
    check(eq(b, 2 * a))
    check(eq(c, 3))
    assert scope.resolve(d) is 2 * a + 3
    check(eq(a, 5))
    assert scope.resolve(d * a) == 65
    assert statically_known(eq(d, 13))
    with pytest.raises(ExecutionError):
        check(eq(d, 12))


def test_a_long_chain_of_equalities_resolves():
    scope = Scope()
    symbols = [scope.symbol() for _ in range(500)]
    for left, right in itertools.pairwise(symbols):
        check(eq(left, right))
    assert scope.resolve(symbols[-1]) is symbols[0]
    check(eq(symbols[250], 7))
    assert scope.resolve(symbols[5] + symbols[499]) == 14


def test_equations_learned_in_reverse_resolve_to_the_last():
    scope = Scope()
    symbols = [scope.symbol() for _ in range(300)]
    for left, right in itertools.pairwise(reversed(symbols)):
        check(eq(left, right + 1))
    assert scope.resolve(symbols[-1]) is symbols[0] + 299
    check(eq(symbols[0], 5))
    assert [scope.resolve(symbol) for symbol in symbols] == list(range(5, 305))


def test_what_a_replaced_symbol_knew_its_image_knows():
    scope = Scope()
    a, b = scope.symbol("a"), scope.symbol("b", lower=2, upper=50, multiple_of=4)
    check(eq(a, b))
    assert bounds(a) == (2, 50)
    assert statically_known(le(a + b, 100))
    assert scope.known(eq(a, 6)) is False
    c, d, e = scope.symbol("c"), scope.symbol("d"), scope.symbol("e", upper=10)
    check(eq(e, c + d))
    assert bounds(c + d) == (0, 10)


def test_facts_are_read_anew_when_a_symbol_is_replaced():
    scope = Scope()
    a, b, c = (scope.symbol(name) for name in "abc")
    check(le(b + c, 10))
    check(eq(b, a))
    assert bounds(a + c) == (0, 10)
    check(ne(a * c, 9))
    check(eq(c, a))
    assert scope.known(eq(a * a, 9)) is False
    assert bounds(a) == (0, 5)


def test_divisors_are_learned():
    scope = Scope()
    s0, s1 = scope.symbol(hint=24), scope.symbol(hint=8)
    assert not divides(4, s0)
    assert guard(eq(s0 % 4, 0))
    assert guard(eq(s0 % 6, 0))
    assert divides(12, s0)
    assert divides(24, s0 * 2 + 48)
    assert not divides(24, s0)
    assert guard(eq(s1 * 3, s0))
    assert divides(4, s1 * 3)


def test_a_size_that_is_zero_may_still_stand_below_the_line():
    scope = Scope()
    s0, s1 = scope.symbol(hint=0), scope.symbol(hint=3)
    e = s1 // s0 + s0
    assert guard(eq(s0, 0))
    assert scope.resolve(e) is s1 // s0
    assert guard(eq(s1, 3))
    assert bounds(e)[0] == 0
    assert statically_known(ge(e, 0))
    u = scope.symbol()
    check(eq(u, s1 // s0 + 2))
    assert scope.resolve(u + 1) is s1 // s0 + 3


def test_facts_about_a_size_bound_its_axes():
    scope = Scope()
    s0, s1 = scope.symbol(), scope.symbol()
    i = axis_symbol(s0)
    assert not statically_known(lt(i, 64))
    check(le(s0, 64))
    assert statically_known(lt(i, 64))
    check(le(s0, s1))
    assert statically_known(lt(i, s1))


def test_questions_that_stay_open_are_noted_once_while_a_program_is_traced():
    places: list[Frame] = []

    def locate() -> Frame:
        places.append(Frame("model.py", len(places) + 1, "step"))
        return places[-1]

    scope = Scope(locate)
    u0, s0 = scope.symbol(), scope.symbol(hint=3)
    guard_or_false(eq(u0, 9))
    assert not scope.undecided
    with scope.noting():
        for _ in range(3):
            assert guard_or_false(eq(u0, 4), "an operator: in fours; else one by one") is False
        assert guard_or_true(ne(u0, 1)) is True
        assert guard_or_false(eq(s0, 3)) and guard_or_false(ge(u0, 0))
    guard_or_false(eq(u0, 4))  # as passes do
    four, one = scope.undecided.values()
    assert (str(four.unlocking), four.count, four.frame) == ("u0 == 4", 3, places[0])
    assert four.reason == "an operator: in fours; else one by one"
    assert (str(one.unlocking), one.count, one.frame) == ("u0 == 1", 1, places[1])
    assert len(places) == 3  # and one for the guard
