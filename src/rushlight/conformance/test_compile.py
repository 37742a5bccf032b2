"""Tier 3, compile: functions that are compiled give on the device what they give there call by call."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import rushlight as rl

_F = rl.nn.functional


def _pointwise(x: rl.Tensor) -> rl.Tensor:
    return (x * 2 + 1).exp().clamp(max=9) / (x.abs() + 1)


def _reduced(x: rl.Tensor) -> tuple[rl.Tensor, ...]:
    return x.sum(0), x.softmax(-1), x.amax(1), (x - x.mean(1, keepdim=True)).square().mean()


def _products(x: rl.Tensor) -> rl.Tensor:
    return _F.gelu(x @ x.t()) @ x


def _views(x: rl.Tensor) -> tuple[rl.Tensor, ...]:
    return x.t(), x[1:].clone(), rl.cat((x, x), 1), x.reshape(-1)[::2] + 1


def _made(x: rl.Tensor) -> rl.Tensor:
    return x + rl.arange(x.shape[1], device=x.device) * rl.ones_like(x)


_PROGRAMS = [_pointwise, _reduced, _products, _views, _made]


def _input(place: str) -> rl.Tensor:
    rl.manual_seed(0)
    return rl.randn(5, 4).to(place)


def _all(result: object) -> tuple[rl.Tensor, ...]:
    return result if isinstance(result, tuple) else (result,)  # pyright: ignore[reportReturnType] - tensors


@pytest.mark.parametrize("program", _PROGRAMS)
def test_a_program_gives_what_it_gives_on_the_cpu(
    device: str, tolerance: float, program: Callable[[rl.Tensor], object]
) -> None:
    """Compiled, and for another size."""
    compiled = rl.compile(program)
    for rows in (5, 3):
        x = _input(device)[:rows].clone()
        for one, other in zip(_all(compiled(x)), _all(program(x.cpu())), strict=True):
            assert one.device.type == device
            rl.testing.assert_close(one.cpu(), other, rtol=tolerance, atol=tolerance)


def test_writes_to_arguments_are_made(device: str) -> None:
    """To a view of one too."""

    @rl.compile
    def step(x: rl.Tensor) -> None:
        x.add_(1)
        x[0].mul_(3)

    x = rl.ones(2, 3, device=device)
    step(x)
    assert x.tolist() == [[6, 6, 6], [2, 2, 2]]


def test_gradients_of_a_compiled_function(device: str, tolerance: float) -> None:
    """They are those of the CPU."""

    def f(x: rl.Tensor) -> rl.Tensor:
        return _products(x).square().mean()

    def gradient(place: str, function: Callable[[rl.Tensor], rl.Tensor]) -> rl.Tensor:
        x = _input(place).requires_grad_()
        function(x).backward()
        assert x.grad is not None
        assert x.grad.device.type == place
        return x.grad.cpu()

    rl.testing.assert_close(gradient(device, rl.compile(f)), gradient("cpu", f), rtol=tolerance, atol=tolerance)


def test_random_numbers_of_a_compiled_function(device: str) -> None:
    """They are those of the CPU."""

    def drawn(place: str) -> rl.Tensor:
        rl.manual_seed(1)
        return rl.compile(lambda x: x + rl.rand_like(x))(rl.zeros(4, 3, device=place)).cpu()

    assert rl.equal(drawn(device), drawn("cpu"))


def test_a_function_may_move_tensors(device: str) -> None:
    """Between its devices."""
    moving = rl.compile(lambda x: (x * 2).to(device) + 1)
    result = moving(rl.ones(3))
    assert result.device.type == device
    assert result.tolist() == [3, 3, 3]
