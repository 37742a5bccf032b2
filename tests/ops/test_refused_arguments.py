"""Arguments of operators that PyTorch refuses are refused here too, each by a registered error."""

from collections.abc import Callable
from typing import Any

import pytest

import rushlight as rl
import rushlight.nn.functional as F
from rushlight.support.errors import RushlightError

X = rl.ones(3)
REFUSED: dict[str, tuple[str, Callable[[], Any]]] = {
    "softshrink": ("A002", lambda: F.softshrink(X, -0.5)),
    "gelu": ("A002", lambda: F.gelu(X, approximate="erf")),
    "isclose rtol": ("A002", lambda: rl.isclose(X, X, rtol=-0.4)),
    "isclose atol": ("A002", lambda: rl.isclose(X, X, atol=-0.4)),
    "avg_pool2d": ("A002", lambda: F.avg_pool2d(rl.ones(1, 4, 4), 2, divisor_override=0)),
    "avg_pool3d": ("A002", lambda: F.avg_pool3d(rl.ones(1, 4, 4, 4), 2, divisor_override=0)),
    "roll": ("I002", lambda: rl.roll(rl.tensor(1.0), 0, 0)),
    "masked_fill": ("D007", lambda: rl.tensor([1, 2]).masked_fill(rl.tensor(True), rl.tensor(1j))),
    "uniform_": ("A002", lambda: rl.zeros(3).uniform_(3, -1)),
    "normal_": ("A002", lambda: rl.zeros(3).normal_(0, -1)),
    "multinomial of three dims": ("S002", lambda: rl.multinomial(rl.ones(1, 2, 3), 2)),
    "multinomial of fewer samples": ("A002", lambda: rl.multinomial(X, -1)),
    "multinomial of negative chances": ("A002", lambda: rl.multinomial(rl.tensor([1.0, -1, 1]), 1)),
    "multinomial of NaN": ("A002", lambda: rl.multinomial(rl.tensor([1.0, float("nan")]), 2, replacement=True)),
    "multinomial of a row without chances": ("A002", lambda: rl.multinomial(rl.tensor([[1.0, 1], [0, 0]]), 1)),
    "hardtanh": ("A002", lambda: F.hardtanh(X, 0.5, -0.5)),
    "polynomials": ("A001", lambda: rl.special.legendre_polynomial_p(2, 3)),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_pytorch_refuses_is_refused(name: str):
    code, call = REFUSED[name]
    with pytest.raises(RushlightError) as caught:
        call()
    assert caught.value.code == code


@pytest.mark.parametrize("name", ["eq", "maximum", "logical_and", "atan2", "gcd", "heaviside", "copysign", "sin"])
def test_the_input_of_a_function_is_a_tensor(name: str):
    rest = (rl.tensor(3),) if name != "sin" else ()
    with pytest.raises(RushlightError, match="a tensor is expected") as caught:
        getattr(rl, name)(2, *rest)
    assert caught.value.code == "A001" and isinstance(caught.value, TypeError)


@pytest.mark.parametrize("name", ["pow", "float_power", "remainder", "bitwise_xor", "xlogy"])
def test_numbers_may_lead_but_not_be_alone(name: str):
    assert getattr(rl, name)(2, rl.tensor(3)).ndim == 0
    with pytest.raises(RushlightError, match="a tensor is expected") as caught:
        getattr(rl, name)(2, 3)
    assert caught.value.code == "A001"


def test_arithmetic_takes_numbers_alone():
    assert [rl.add(6, 4).item(), rl.sub(6, 4).item(), rl.mul(6, 4).item()] == [10, 2, 24]
    assert [rl.div(6, 4).item(), rl.floor_divide(6, 4).item()] == [1.5, 1]


def test_numbers_that_stay_open_are_not_compared():
    drawn = rl.compile(lambda x, std: x.clone().normal_(0, std), fullgraph=True)
    assert drawn(X, 0.0).tolist() == [0, 0, 0]
    assert drawn(X, 2.0).shape == (3,)
