"""Programs that differentiate gradients have the losses of PyTorch."""

import json
from contextlib import nullcontext
from pathlib import Path

import numpy as np
import pytest
from tests.autodiff.higher_order import PROGRAMS, STEPS

import rushlight as rl
from rushlight.compiler import compiled_autograd

TORCH = json.loads(Path(__file__).with_name("torch_higher_order.json").read_text(encoding="utf-8"))["losses"]


@pytest.mark.generated("how")
@pytest.mark.row("2.1")
@pytest.mark.usefixtures("quick_code")
@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("how", ["eager", "compiled", "parts", "tape", "compiled_tape"])
def test_training_through_gradients_has_the_losses_of_torch(name, how):
    whole, parts = rl.compile, lambda function: rl.compile(function, fullgraph=False)
    forms = {"compiled": (whole,), "parts": (parts,), "compiled_tape": (whole,)}
    with compiled_autograd.enable() if "tape" in how else nullcontext():
        losses = PROGRAMS[name](rl, *forms.get(how, ()))
    assert len(losses) == STEPS
    np.testing.assert_allclose(losses, TORCH[name], rtol=1e-9, atol=1e-9)
