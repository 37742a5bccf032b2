"""Tier 2, autograd: every operator's gradients are the CPU's, and gradients flow between devices."""

from __future__ import annotations

import pytest

import rushlight as rl
from rushlight.conformance.calls import compared, operators
from rushlight.ops.record import OPERATORS, Fact

_DERIVED = [name for name in operators() if Fact.NONDIFFERENTIABLE not in OPERATORS[name].facts]


@pytest.mark.parametrize("name", _DERIVED)
def test_gradients_are_the_cpu_s(device: str, tolerance: float, name: str) -> None:
    """Of the sum of all results, on samples."""
    assert not compared(name, device, tolerance, lambda call, place: call.gradients(place))


def test_gradients_flow_between_devices(device: str) -> None:
    """A leaf's gradient is where the leaf is."""
    x = rl.arange(4.0).requires_grad_()
    y = x.to(device)
    (y * y).sum().cpu().backward()
    assert x.grad is not None
    assert x.grad.device.type == "cpu"
    assert x.grad.tolist() == [0, 2, 4, 6]
    z = rl.ones(3, device=device).requires_grad_()
    z.sum().backward()
    z.sum().backward()
    assert z.grad is not None
    assert z.grad.device.type == device
    assert z.grad.tolist() == [2, 2, 2]


def test_a_small_network_learns_as_on_the_cpu(device: str, tolerance: float) -> None:
    """Losses of ten steps of an optimizer."""

    def losses(place: str) -> list[float]:
        rl.manual_seed(0)
        model = rl.nn.Sequential(rl.nn.Linear(5, 8), rl.nn.Tanh(), rl.nn.Linear(8, 3)).to(place)
        optimizer = rl.optim.AdamW(model.parameters(), lr=1e-2)
        x, y = rl.randn(16, 5).to(place), rl.randint(0, 3, (16,)).to(place)
        found: list[float] = []
        for _ in range(10):
            loss = rl.nn.functional.cross_entropy(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            found.append(loss.item())
        return found

    assert losses(device) == pytest.approx(losses("cpu"), rel=tolerance, abs=tolerance)
