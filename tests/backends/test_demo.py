"""The demo's model trains on an emulated accelerator."""

from typing import Any

import pytest

import rushlight as rl
from rushlight.demo.model import GPT
from rushlight.demo.training import make_optimizer, make_step

STEPS = 10


def losses(device: str, how: str) -> list[tuple[float, float]]:
    """The loss and the gradient's norm of each step of a small model."""
    rl.manual_seed(0)
    windows = rl.randint(0, 256, (STEPS, 4, 17), generator=rl.Generator().manual_seed(3))
    model = GPT(2, 2, 32, 16).to(device)
    step: Any = make_step(model, make_optimizer(model, 1e-2, 0.1))
    if how != "eager":
        step = rl.compile(step, fullgraph=how == "whole")
    results = [step(batch.to(device)) for batch in windows]
    assert {parameter.device.type for parameter in model.parameters()} == {device}
    assert {loss.device.type for loss, _ in results} == {device}
    return [(loss.item(), norm.item()) for loss, norm in results]


@pytest.mark.row("1.7")
@pytest.mark.usefixtures("quick_code", "mica")
@pytest.mark.parametrize("how", ["eager", "whole", "parts"])
def test_the_demo_trains_on_mica_with_eager_losses_and_no_fallback(how: str) -> None:
    expected = losses("cpu", "eager")
    with rl.strict():
        found = losses("mica", how)
    assert not rl.backends.fallbacks()
    assert found == expected
    assert found[-1][0] < found[0][0]
