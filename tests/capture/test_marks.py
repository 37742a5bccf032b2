"""What users say about sizes before compiling, and integers as sizes: one graph where nothing fixes a value."""

from __future__ import annotations

from typing import Any

import pytest

import rushlight as rl
from rushlight.compiler import graph_count, mark_dynamic, mark_static, mark_unbacked
from rushlight.support.errors import RushlightError
from tensors import data, same


def code_of(call: Any) -> str:
    with pytest.raises(RushlightError) as caught:
        call()
    return caught.value.code


def test_integers_are_sizes_and_indices_at_run_time():
    def function(x: Any, n: int) -> Any:
        return x[:n] * n + x[n - 1] + rl.ones(n, 3).sum()

    compiled = rl.compile(function)
    x = data(10, 3)
    for n in range(1, 11):
        assert same(compiled(x, n), function(x, n))
    assert graph_count() == 1


def test_an_integer_that_is_the_size_of_another_argument_is_that_size():
    def function(x: Any, size: tuple[int, int], gradient: Any) -> Any:
        found = rl.nn.functional.adaptive_avg_pool2d(x, size)
        return found, rl.autograd.grad(found, (x,), gradient)[0]

    compiled = rl.compile(function)
    for size in ((7, 5), (3, 4), (1, 1)):
        x, gradient = data(2, 3, 16, 16).requires_grad_(), data(2, 3, *size)
        assert same(compiled(x, size, gradient), function(x, size, gradient))
    assert graph_count() == 1


def test_integers_and_sizes_are_added_up():
    def function(x: Any, n: int) -> Any:
        rest = x.shape[0] - n
        return x[:rest] + x[n:].sum() * (n + x.shape[0]), rest if rest > n else n

    compiled = rl.compile(function)
    for rows, n in ((5, 1), (7, 2), (9, 0), (4, 1)):
        found, wanted = compiled(data(rows), n), function(data(rows), n)
        assert same(found[0], wanted[0]) and found[1] == wanted[1]
    assert graph_count() == 1


def test_a_comparison_of_an_integer_guards_that_and_no_more():
    def function(x: Any, n: int) -> Any:
        return x + n if n > 5 else x.reshape(n, -1) - n

    compiled = rl.compile(function)
    x = data(30)
    for n in (1, 2, 5, 7, 10, 3):
        assert same(compiled(x, n), function(x, n))
    assert graph_count() == 2


def test_a_float_varies_without_a_new_graph():
    def function(x: Any, a: float, b: float) -> Any:
        return x * (a * 2 + b) - a / 3

    compiled = rl.compile(function)
    x = data(4)
    for n in range(1000):
        assert same(compiled(x, n * 0.1, 1.0 / (n + 1)), function(x, n * 0.1, 1.0 / (n + 1)))
    assert graph_count() == 1


def test_an_unused_argument_constrains_nothing():
    compiled = rl.compile(lambda x, unused: x + 1)
    for rows in (3, 1, 0, 7):
        compiled(data(3), data(rows, 2))
    assert graph_count() == 1


def test_unbacked_sizes_are_never_guarded():
    x = data(3, 4)
    mark_unbacked(x, 0)

    def function(x: Any) -> Any:
        return (x.reshape(-1, 2, 2).transpose(1, 2) * 2).flatten(1) + x.shape[0]

    compiled = rl.compile(function)
    assert same(compiled(x), function(data(3, 4)))
    for rows in (0, 1, 2, 7, 64):
        assert same(compiled(data(rows, 4)), function(data(rows, 4)))
    assert graph_count() == 1


def test_a_given_gradient_may_have_sizes_that_nobody_knows_to_be_its_tensors():
    def function(x: Any, g: Any) -> Any:
        return rl.autograd.grad(x.exp(), x, g)[0]

    compiled = rl.compile(function, fullgraph=True)
    for rows in (3, 1, 0, 7):
        x, g = data(rows, 4).requires_grad_(), data(rows, 4)
        mark_unbacked(x, 0)
        mark_unbacked(g, 0)
        assert same(compiled(x, g), function(x, g))
    assert graph_count() == 1
    g = data(2, 4)
    mark_unbacked(g, 0)
    assert code_of(lambda: compiled(x, g)) == "R002"


def branching(x: Any) -> Any:
    return x + 1 if x.shape[0] == 3 else x


def test_a_branch_on_an_unbacked_size_is_refused():
    x = data(3, 4)
    mark_unbacked(x, 0)
    assert code_of(lambda: rl.compile(branching, fullgraph=True)(x)) == "C002"


def test_bounds_decide_a_branch_on_an_unbacked_size():
    x = data(5, 4)
    mark_unbacked(x, 0, min=4)
    compiled = rl.compile(branching, fullgraph=True)
    assert same(compiled(x), x)
    assert same(compiled(data(3, 4)), data(3, 4) + 1)  # outside of the bounds: a graph of its own
    assert graph_count() == 2


def test_a_dynamic_size_that_the_program_fixes_is_an_error_with_the_line():
    x = data(3, 4)
    mark_dynamic(x, 0)
    with pytest.raises(RushlightError, match="needs it to be 3") as caught:
        rl.compile(branching)(x)
    assert caught.value.code == "C011" and "in branching" in str(caught.value)


def checked(x: Any) -> Any:
    rl.check(x.shape[1] != 7)
    rl.check(x.shape[0] == 3)
    return x + 1


def asked_before(x: Any) -> Any:
    return x * 2 if x.shape[0] < 9 and x.shape[1] == 4 and x.shape[0] == 3 else x


def met_before(x: Any) -> Any:
    total = x.sum(1) + x.sum(1) * x.shape[0] if x.shape[0] == x.shape[1] - 1 else x[:, 0]
    return total.reshape(3)


@pytest.mark.parametrize("fixing", [checked, asked_before, met_before])
def test_the_line_that_fixes_a_size_is_the_one_that_is_told(fixing: Any):
    x = data(3, 4)
    mark_dynamic(x, 0)
    with pytest.raises(RushlightError, match="needs it to be 3") as caught:
        rl.compile(fixing)(x)
    text = str(caught.value)
    assert caught.value.code == "C011" and f"in {fixing.__name__}" in text and "guard: 'a0_0 == 3'" in text
    assert fixing is not met_before or "total.reshape(3)" in text


def test_a_static_size_makes_a_graph_for_each_value():
    x = data(3, 4)
    mark_static(x)
    compiled = rl.compile(lambda x: x * 2)
    for rows in (3, 5, 5):
        compiled(data(rows, 4) if rows != 3 else x)
    assert graph_count() == 2


def test_a_tensor_outside_its_own_bounds_is_refused():
    assert code_of(lambda: mark_dynamic(data(3), 0, max=2)) == "A002"
    assert code_of(lambda: mark_unbacked(data(3), 0, min=4)) == "A002"
    assert code_of(lambda: mark_static(3)) == "A001"
