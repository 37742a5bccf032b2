"""Reductions of the elements that a mask selects, against values recorded from PyTorch 2.13."""

import math
from typing import Any

import pytest

import rushlight as rl
from rushlight.autograd import gradcheck
from rushlight.support.errors import RushlightError

X = [[-3.0, -2, -1], [0, 1, 2]]
MASK = [[True, False, True], [False, False, False]]
NAN, INF = math.nan, math.inf
FOUND: dict[str, list[Any]] = {
    "sum": [-4, 0],
    "prod": [3, 1],
    "amax": [-1, -INF],
    "amin": [-3, INF],
    "argmax": [2, 0],
    "argmin": [0, 0],
    "mean": [-2, NAN],
    "median": [-3, NAN],
    "logsumexp": [-0.873072, -INF],
    "var": [2, NAN],
    "std": [1.414214, NAN],
    "softmax": [0.119203, 0, 0.880797, NAN, NAN, NAN],
    "log_softmax": [-2.126928, -INF, -0.126928, NAN, NAN, NAN],
    "softmin": [0.880797, 0, 0.119203, NAN, NAN, NAN],
    "cumsum": [-3, -3, -4, 0, 0, 0],
    "cumprod": [-3, -3, 3, 1, 1, 1],
}


@pytest.mark.parametrize("name", FOUND)
def test_what_is_not_selected_has_no_part(name: str):
    function, x, mask = getattr(rl.masked, name), rl.tensor(X), rl.tensor(MASK)
    found = function(x, 1, mask=mask)
    assert found.dtype is rl.float32
    assert found.flatten().tolist() == pytest.approx(FOUND[name], abs=1e-6, nan_ok=True)
    compiled = rl.compile(lambda x, mask: function(x, 1, mask=mask), fullgraph=True)(x, mask)
    assert rl.equal(compiled.nan_to_num(7), found.nan_to_num(7))


@pytest.mark.parametrize(
    ("order", "lengths"), [(2.0, [3.162278, 0]), (INF, [3, 0]), (-INF, [1, INF]), (0.0, [2, 0]), (1.0, [4, 0])]
)
def test_norms(order: float, lengths: list[float]):
    x, mask = rl.tensor(X), rl.tensor(MASK)
    assert rl.masked.norm(x, order, 1, mask=mask).tolist() == pytest.approx(lengths)
    wanted = [-0.948683, 0, -0.316228, 0, 0, 0]
    assert rl.masked.normalize(x, 2.0, 1, mask=mask).flatten().tolist() == pytest.approx(wanted, abs=1e-6)


def test_integers_have_the_furthest_values():
    x, mask = rl.tensor(X).to(rl.int16), rl.tensor(MASK)
    assert rl.masked.amax(x, 1, mask=mask).tolist() == [-1, -(2**15)]
    assert rl.masked.amin(x, 1, keepdim=True, mask=mask).tolist() == [[-3], [2**15 - 1]]
    assert rl.masked.sum(x, (0, 1), mask=mask).dtype is rl.int64
    assert rl.masked.mean(x, mask=mask).item() == -2
    spread = rl.masked.var(x, 0, unbiased=False, mask=rl.tensor([True, True, False]))
    assert spread.nan_to_num(7).tolist() == [2.25, 2.25, 7]
    wide = rl.tensor([[True], [False]])
    assert rl.masked.amax(rl.tensor(X) > 0, 1, mask=wide).tolist() == [False, False]


def test_gradients_pass_selected_elements_alone():
    x, mask = rl.randn(3, 4, dtype=rl.float64).requires_grad_(), rl.tensor([True, False, True, True])
    for name in ("sum", "prod", "mean", "var", "std", "logsumexp", "softmax", "amax", "cumprod"):
        function = getattr(rl.masked, name)
        assert gradcheck(lambda x, function=function: function(x, 1, mask=mask), (x,))
    rl.masked.std(x, mask=mask).backward()
    assert x.grad is not None
    assert not x.grad[:, 1].any() and x.grad[:, 0].all()


def test_logaddexp_and_what_is_refused():
    a, b = rl.tensor([-100.0, -200, -300]), rl.tensor([-1.0, -2, -3])
    mask = rl.tensor([True, False, True])
    assert rl.masked.logaddexp(a, b, input_mask=mask, other_mask=mask).tolist() == [-1, -INF, -3]
    refused: list[tuple[str, Any]] = [
        ("D001", lambda: rl.masked.sum(a, mask=rl.ones(3))),
        ("I005", lambda: rl.masked.sum(a, mask=rl.ones(1, 3) > 0)),
        ("I006", lambda: rl.masked.sum(rl.ones(2, 2), (0, -2))),
        ("A004", lambda: rl.masked.var(a, unbiased=True, correction=1)),
        ("D001", lambda: rl.masked.median(a.long(), mask=mask)),
        ("I002", lambda: rl.masked.softmax(a, 1, mask=mask)),
    ]
    for code, call in refused:
        with pytest.raises(RushlightError) as caught:
            call()
        assert caught.value.code == code


def test_logsumexp_of_integers_is_one():
    x, mask = rl.tensor([[3, 0, 5], [1, 1, 1]]), rl.tensor([[True, True, False], [True, True, True]])
    found = rl.masked.logsumexp(x, 1, mask=mask)
    assert found.dtype is rl.int64 and found.tolist() == [3, 2]  # of 3.0486 and 2.0986
    assert rl.masked.logsumexp(x, 1, mask=mask, dtype=rl.float32).tolist() == pytest.approx([3.048587, 2.098612])
