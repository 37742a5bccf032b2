"""Programs that differentiate gradients have the losses of PyTorch."""

import json
from pathlib import Path

import numpy as np
import pytest
from tests.autodiff.higher_order import PROGRAMS, STEPS

import rushlight as rl

TORCH = json.loads(Path(__file__).with_name("torch_higher_order.json").read_text(encoding="utf-8"))["losses"]


@pytest.mark.row("2.1")
@pytest.mark.usefixtures("quick_code")
@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("how", ["eager", "compiled", "parts"])
def test_training_through_gradients_has_the_losses_of_torch(name, how):
    forms = {"eager": (), "compiled": (rl.compile,), "parts": (lambda function: rl.compile(function, fullgraph=False),)}
    losses = PROGRAMS[name](rl, *forms[how])
    assert len(losses) == STEPS
    np.testing.assert_allclose(losses, TORCH[name], rtol=1e-9, atol=1e-9)
