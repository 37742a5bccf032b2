"""The default dtype: integers are raised to it, Python floats beside integers are of it, in eager code and compiled."""

from collections.abc import Callable, Iterator

import numpy as np
import pytest

import rushlight as rl
from rushlight.ir.dtype import DType

WAYS: dict[str, Callable[[rl.Tensor], rl.Tensor]] = {
    "division": lambda x: x / 3,
    "sin": lambda x: x.sin(),
    "number": lambda x: x * 0.1,
    "chain": lambda x: (x.sin() * 0.1 + x / 7).sum(),
    "sigmoid": lambda x: x.sigmoid(),
    "bool": lambda x: (x > 1) / 3,
    "power": lambda x: x**0.5,
}


@pytest.fixture(autouse=True)
def _restored() -> Iterator[None]:
    before = rl.get_default_dtype()
    yield
    rl.set_default_dtype(before)


@pytest.mark.parametrize("way", ["eager", "compiled"])
@pytest.mark.parametrize("name", WAYS)
def test_integers_are_raised_to_it(name: str, way: str):
    function = WAYS[name] if way == "eager" else rl.compile(WAYS[name])
    x = rl.tensor([1, 2, 7])
    for dtype in (rl.float32, rl.float64, rl.float32, rl.bfloat16, rl.float64):
        rl.set_default_dtype(dtype)
        wanted = WAYS[name](x.to(dtype)) if name != "bool" else (x > 1).to(dtype) / 3
        for _ in range(3):  # the first call makes plans, later ones find them
            assert function(x).dtype is dtype and function(x).tolist() == wanted.tolist()


@pytest.mark.parametrize("dtype", [rl.float32, rl.float64])
def test_results_are_numpys(dtype: DType):
    rl.set_default_dtype(dtype)
    x = rl.arange(1, 6)
    wanted = np.arange(1, 6).astype(dtype.numpy)
    np.testing.assert_allclose(rl.exp(x).numpy(), np.exp(wanted), rtol=1e-6 if dtype is rl.float32 else 1e-14)
    assert rl.result_type(x, 1.5) is dtype and rl.result_type(x.to(rl.float16), 1.5) is rl.float16
    assert (x * 1j).dtype is (rl.complex128 if dtype is rl.float64 else rl.complex64)
    assert (x.to(rl.float16) * 1.5).dtype is rl.float16


def test_gradients_have_the_dtype_of_their_tensors():
    weight = rl.ones(3, requires_grad=True)
    rl.set_default_dtype(rl.float64)
    (weight * (rl.tensor([1, 2, 7]) / 3)).sum().backward()
    assert weight.grad is not None and weight.grad.dtype is rl.float32


def test_exported_programs_follow_it():
    x = rl.tensor([1, 2, 7])
    module = rl.export.export(lambda x: x.sin() * 0.1, (x,)).module()
    for dtype in (rl.float32, rl.float64, rl.float32):
        rl.set_default_dtype(dtype)
        assert module(x).tolist() == (x.to(dtype).sin() * 0.1).tolist()
