"""Compiling for shape specifications: artifacts without guards, dispatch among them, and what fits none."""

from __future__ import annotations

from typing import Any

import pytest

import rushlight as rl
from rushlight.capture import explain_entries
from rushlight.compiler import graph_count, mark_unbacked
from rushlight.support.errors import RushlightError
from tensors import data, same


def products(x: Any, y: Any) -> Any:
    return (x @ y.T).relu().sum(1)


SPECS = ["f32[1, D], f32[N, D]", "f32[3, D], f32[N, D]", "f32[B, D], f32[N, D] where B > 100", "f32[B, D], f32[N, D]"]


def test_calls_run_the_first_artifact_that_they_fit():
    compiled = rl.compile(products, specs=SPECS, domain="f32[B, D], f32[N, D] where B <= 256")
    for rows in [*range(20), 100, 101, 256]:
        for others in (0, 1, 4):
            x, y = data(rows, 5), data(others, 5)
            assert same(compiled(x, y), products(x, y))
    assert graph_count() == 4
    assert not any(guard.kind == "size" for entry in explain_entries(compiled) for guard in entry.guards)


def test_a_hole_in_the_domain_is_refused_with_sizes_that_fall_into_it():
    with pytest.raises(RushlightError, match="B = 4") as caught:
        rl.compile(lambda x: x, specs=["f32[B] where B <= 3", "f32[B] where B >= 5"], domain="f32[B]")
    assert caught.value.code == "C021"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((data(2, 3), data(2, 4)), "D is 3"),
        ((data(2), data(2, 4)), "f32.2., not"),
        ((data(2, 3).double(), data(2, 3)), "f64"),
        ((data(2, 3),), "positional"),
    ],
)
def test_a_call_that_fits_none_is_an_error_that_says_why(arguments: Any, said: str):
    compiled = rl.compile(products, specs="f32[B, D], f32[N, D]")
    with pytest.raises(RushlightError, match=said) as caught:
        compiled(*arguments)
    assert caught.value.code == "C022"


def test_sizes_in_expressions_and_integers():
    def function(x: Any, n: int) -> Any:
        return x.reshape(2, -1)[:, :n] * n if n < 4 else x

    compiled = rl.compile(function, specs="f32[2*B], int n where 0 <= n <= 3")
    for half in (0, 1, 2, 9):
        for n in range(4):
            assert same(compiled(data(2 * half), n), function(data(2 * half), n))
    assert graph_count() == 1
    for bad in ((data(3), 1), (data(4), 4)):
        with pytest.raises(RushlightError, match="no specification"):
            compiled(*bad)


def test_nested_arguments_in_any_order_of_keys():
    def function(batch: Any, *, scale: float) -> Any:
        return batch["x"] * scale + batch["more"][0]

    compiled = rl.compile(function, specs='{"x": f32[B], "more": (f32[B],)}, scale=float')
    x = data(5)
    assert same(compiled({"x": x, "more": (x,)}, scale=0.5), x * 0.5 + x)
    assert same(compiled({"more": (x,), "x": x * 2}, scale=0.25), x * 2 * 0.25 + x)
    assert graph_count() == 1


def test_what_the_specification_does_not_say_may_not_be_asked():
    with pytest.raises(rl.DataDependentError, match="B >= 4"):
        rl.compile(lambda x: x if x.shape[0] > 3 else x + 1, specs="f32[B]")(data(4))
    assert same(rl.compile(lambda x: x * 2 if x.shape[0] > 3 else x, specs="f32[B] where B > 3")(data(4)), data(4) * 2)
    with pytest.raises(RushlightError) as caught:
        rl.compile(lambda x, s: x if s > 0.5 else -x, specs="f32[B], float")(data(4), 1.0)
    assert caught.value.code == "C011"


def positioned(x: Any) -> Any:
    y = x * 2
    return y + rl.ones(6)


def folded(x: Any) -> Any:
    y = x * 2
    return y.reshape(6)


def promised(x: Any) -> Any:
    rl.check(x.shape[0] == 6)
    return x * 2


@pytest.mark.parametrize("function", [positioned, folded, promised])
def test_a_variable_that_the_program_fixes_is_an_error_with_the_line(function: Any):
    with pytest.raises(RushlightError, match="leaves S open, and the program needs it to be 6") as caught:
        rl.compile(function, specs="f32[S] where S <= 128")(data(6))
    assert caught.value.code == "C011" and f"in {function.__name__}:  " in str(caught.value)
    assert "y = x * 2" not in str(caught.value)
    assert same(rl.compile(function, specs="f32[S] where S == 6")(data(6)), function(data(6)))


def bounded(x: Any, unused: Any) -> Any:
    rl.check(x.shape[0] <= unused.shape[0])
    return x + 1


@pytest.mark.parametrize(
    ("function", "fitting", "bad"),
    [
        (lambda x, y: x + y, [(4, 4), (1, 1), (0, 0)], [(4, 3), (3, 4), (4, 1), (0, 4)]),
        (lambda x, y: (x * 2) @ y, [(4, 4), (1, 1), (0, 0)], [(4, 3), (3, 4), (4, 1), (0, 4)]),
        (bounded, [(2, 3), (0, 0), (1, 1)], [(3, 2), (1, 0)]),
    ],
    ids=["broadcast", "matmul", "check"],
)
@pytest.mark.parametrize("specs", ["f32[N], f32[M]", None])
def test_what_an_artifact_needs_of_sizes_is_checked_at_each_call(function: Any, fitting: Any, bad: Any, specs: Any):
    compiled = rl.compile(function, specs=specs, fullgraph=specs is None)
    for number, (one, other) in enumerate([*fitting, *bad, fitting[0]]):
        x, y = data(one), data(other)
        if specs is None:
            mark_unbacked(x, 0)
            mark_unbacked(y, 0)
        if len(fitting) <= number < len(fitting) + len(bad):
            with pytest.raises(RushlightError) as caught:
                compiled(x, y)
            assert caught.value.code == "R002" and "test_specified.py" in str(caught.value)
        else:
            assert same(compiled(x, y), function(x, y))
    assert graph_count() == 1


def test_gradients_flow_in_an_artifact():
    def loss(x: Any, w: Any) -> Any:
        return ((x @ w) ** 2).sum()

    compiled = rl.compile(loss, specs="f32[B, 2*H], f32[2*H, 3]")
    for rows in (4, 1, 0):
        gradients: list[Any] = []
        for function in (compiled, loss):
            w = rl.ones(6, 3, requires_grad=True)
            function(data(rows, 6), w).backward()
            gradients.append(w.grad)
        assert same(*gradients)
    assert graph_count() == 1


def test_modules_are_compiled_for_specifications_too():
    model = rl.nn.Linear(4, 2)
    compiled = rl.compile(model, specs="f32[B, 4]")
    for rows in (3, 0, 1):
        assert same(compiled(data(rows, 4)).detach(), model(data(rows, 4)).detach())
    assert graph_count() == 1
