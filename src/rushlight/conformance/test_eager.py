"""Tier 1, eager: every operator gives on the device what it gives on the CPU, be it by way of the CPU."""

from __future__ import annotations

import pytest

import rushlight as rl
from rushlight.conformance.calls import compared, operators


@pytest.mark.parametrize("name", operators())
def test_an_operator_gives_what_the_cpu_gives(device: str, tolerance: float, name: str) -> None:
    """On its samples."""
    assert not compared(name, device, tolerance, lambda call, place: call.results(place))


def test_writes_give_what_they_give_on_the_cpu(device: str, tolerance: float) -> None:
    """In place, to views, of other dtypes, with `out=`."""

    def written(place: str) -> rl.Tensor:
        x = rl.arange(12.0, device=place).reshape(3, 4)
        x.add_(1).mul_(x)
        x[:, 1].sub_(3)
        x.t()[2] = 7
        x[0].copy_(x[1].clone())
        x[2, 1:].fill_(-1)
        x[1] += rl.arange(4, device=place)
        rl.add(x, 1, out=x)
        return x

    rl.testing.assert_close(written(device).cpu(), written("cpu"), rtol=tolerance, atol=tolerance)


def test_random_numbers_are_those_of_the_cpu(device: str) -> None:
    """They depend on the seed and on the number of calls alone."""

    def drawn(place: str) -> list[rl.Tensor]:
        rl.manual_seed(5)
        x = rl.rand(3, 5, device=place)
        return [x, rl.randint(0, 9, (7,), device=place), x.clone().uniform_(), rl.zeros(5, device=place).bernoulli_()]

    for one, other in zip(drawn(device), drawn("cpu"), strict=True):
        assert one.device.type == device
        assert rl.equal(one.cpu(), other)


def test_operands_elsewhere_are_refused(device: str) -> None:
    """But for numbers, and tensors without dims on the CPU."""
    x = rl.ones(3, device=device)
    with pytest.raises(rl.DeviceError):
        rl.add(x, rl.ones(3))
    assert (x + rl.tensor(2.0) + 1).tolist() == [4, 4, 4]
