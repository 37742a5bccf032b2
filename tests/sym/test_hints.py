"""Hints: always an answer, the same in every process, and in agreement with all that is known."""

import subprocess
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rushlight.support.errors import DataDependentError
from rushlight.sym import (
    Condition,
    Scope,
    axis_symbol,
    check,
    eq,
    evaluate,
    ge,
    guarding_hint_or_throw,
    le,
    lt,
    maximum,
    ne,
    optimization_hint,
    statically_known,
)


def test_backed_sizes_give_the_value_of_the_example():
    scope = Scope()
    s0, s1 = scope.symbol(hint=12), scope.symbol(hint=5)
    for e in (s0 * s1 + 3, s0 // s1, s0 % s1, maximum(s0, s1), s0 - s1, 4):
        assert guarding_hint_or_throw(e) == evaluate(e, {s0: 12, s1: 5})
        assert optimization_hint(e) == guarding_hint_or_throw(e)
    assert not scope.guards


def test_unbacked_sizes_have_no_value_of_the_example():
    scope = Scope()
    u0, s0 = scope.symbol(), scope.symbol(hint=3)
    with pytest.raises(DataDependentError, match="the value of s0 \\+ u0"):
        guarding_hint_or_throw(u0 + s0)
    with pytest.raises(DataDependentError):
        guarding_hint_or_throw(axis_symbol(s0))
    check(eq(u0, s0))
    assert guarding_hint_or_throw(u0 + s0) == 6


def test_plausible_values_follow_facts():
    scope = Scope()
    u0, u1 = scope.symbol(), scope.symbol()
    assert optimization_hint(u0) == 8192
    assert optimization_hint(u0 + u1) == 16384
    assert optimization_hint(scope.symbol(upper=100)) == 100
    assert optimization_hint(scope.symbol(upper=100, multiple_of=7)) == 98
    assert optimization_hint(scope.symbol(optimization_hint=33)) == 33
    assert optimization_hint(scope.symbol(optimization_hint=33, multiple_of=8)) == 32
    assert optimization_hint(scope.symbol(optimization_hint=33, lower=40, upper=60, multiple_of=7)) == 42
    check(le(u0, 10))
    assert optimization_hint(u0 + u1) == 8202
    check(eq(u0 + u1, 25))
    assert optimization_hint(u0 + u1) == 25
    assert 0 <= optimization_hint(u0) <= 10
    check(lt(u1, u0 + 6))
    assert optimization_hint(u1) < optimization_hint(u0) + 6
    assert optimization_hint(u0 + u1) == 25


def test_a_bound_of_a_replaced_symbol_moves_what_replaced_it():
    scope = Scope()
    u0, u1, u2 = (scope.symbol() for _ in range(3))
    check(eq(u0 + u2, 1))
    check(eq(2 * u0, u1))
    assert optimization_hint(u0) + optimization_hint(u2) == 1
    check(ge(u2, 1))
    assert [optimization_hint(u) for u in (u0, u1, u2)] == [0, 0, 1]


def test_every_expression_has_a_plausible_value():
    scope = Scope()
    s0, u0 = scope.symbol(hint=0), scope.symbol(upper=0)
    assert optimization_hint(u0 // s0 + (s0 + 3) // u0) == 3
    assert optimization_hint(axis_symbol(s0)) == 0
    assert optimization_hint(7) == 7
    assert optimization_hint(axis_symbol(4) + 2) == 2


Weighted = tuple[int, int]


@st.composite
def constraint_sets(draw: st.DrawFn) -> tuple[Scope, list[Condition]]:
    """Facts about five unbacked sizes and a backed one, all of which one hidden assignment satisfies."""
    scope = Scope()
    hidden = {}
    for number in range(5):
        step = draw(st.sampled_from([1, 1, 1, 2, 8]))
        value = draw(st.integers(0, 40)) * step
        upper = draw(st.one_of(st.none(), st.integers(value, value + 50)))
        lower = draw(st.integers(0, value))
        hidden[scope.symbol(f"u{number}", lower=lower, upper=upper, multiple_of=step)] = value
    hidden[scope.symbol("s0", hint=6)] = 6
    facts = []
    for _ in range(draw(st.integers(1, 6))):
        chosen = draw(st.lists(st.sampled_from(list(hidden)), min_size=1, max_size=3, unique=True))
        form = sum([draw(st.sampled_from([-2, -1, 1, 1, 2])) * symbol for symbol in chosen])
        kind = draw(st.sampled_from(["==", "<=", ">=", ">=", "!="]))
        if kind != "==" and draw(st.integers(0, 3)) == 0:
            form = form + chosen[0] * chosen[-1] - chosen[0] // 3
        value = evaluate(form, hidden)
        slack = draw(st.integers(0, 9))
        if kind == "==":
            facts.append(eq(form, value))
        elif kind == "!=":
            facts.append(ne(form, value + 1 + slack))
        else:
            facts.append(le(form, value + slack) if kind == "<=" else ge(form, value - slack))
    return scope, [fact for fact in facts if isinstance(fact, Condition)]


# Derandomised: the search for values is a heuristic, though of 3,000 sets it left none unsatisfied.
@settings(max_examples=60, deadline=None, derandomize=True)
@given(constraint_sets())
def test_plausible_values_satisfy_every_fact(made):
    scope, facts = made
    for number, fact in enumerate(facts):
        check(fact)
        if number % 2:
            optimization_hint(fact.expr)
    for symbol in scope.symbols.values():
        value = optimization_hint(symbol)
        assert value >= symbol.facts.lower
        assert symbol.facts.upper is None or value <= symbol.facts.upper
        assert value % symbol.facts.multiple_of == 0
    values = {symbol: optimization_hint(symbol) for symbol in scope.symbols.values()}
    for fact in facts:
        assert fact.holds(values), (fact, values)
        assert optimization_hint(fact.expr) == evaluate(fact.expr, values)
        assert statically_known(fact)


PROGRAM = """
from rushlight.sym import Scope, check, le, eq, lt, optimization_hint
scope = Scope()
u = [scope.symbol(multiple_of=1 + n % 3) for n in range(8)]
for a, b in zip(u, u[1:]):
    check(lt(a + 3, b))
check(eq(u[0] + u[3], u[5] - 7))
check(le(u[7], 90))
print([optimization_hint(x) for x in u], scope.asserts[-2].condition)
"""


@pytest.mark.slow
def test_plausible_values_are_the_same_in_every_process():
    seen = set()
    for seed in ("0", "77"):
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM],
            env={"PYTHONPATH": ":".join(sys.path), "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        )
        seen.add(done.stdout)
    assert len(seen) == 1
