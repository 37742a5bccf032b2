"""Training scripts, one a file, have the losses that they have with PyTorch, and compiled the bits of eager.

Initial weights, noise, masks, actions and shuffles are the same on both sides: `draws.py` says how.
"""

import importlib
import json
from pathlib import Path

import numpy as np
import pytest

import rushlight as rl

HERE = Path(__file__).parent
TORCH = json.loads((HERE / "torch_programs.json").read_text(encoding="utf-8"))["losses"]
PROGRAMS = sorted(path.stem for path in (HERE / "programs").glob("*.py"))
ROUNDED = {"distillation": 2e-2}  # programs in bfloat16


@pytest.fixture(autouse=True)
def defaults():
    """Programs set a seed and a default dtype."""
    state, dtype = rl.get_rng_state(), rl.get_default_dtype()
    yield
    rl.set_rng_state(state)
    rl.set_default_dtype(dtype)


@pytest.mark.generated
@pytest.mark.usefixtures("quick_code")
@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_has_the_losses_of_torch(name):
    train = importlib.import_module(f"tests.training.programs.{name}").train
    eager = train()
    assert len(eager) == len(TORCH[name]) == 20
    np.testing.assert_allclose(eager, TORCH[name], rtol=0, atol=ROUNDED.get(name, 1e-4))
    rl.compiler.reset()
    assert train(compiled=True) == eager
    assert 1 <= rl.compiler.graph_count() <= 4


@pytest.mark.parametrize("name", PROGRAMS)
def test_only_the_import_line_names_rushlight(name):
    lines = (HERE / "programs" / f"{name}.py").read_text(encoding="utf-8").splitlines()
    assert [line for line in lines if "rushlight" in line] == ["import rushlight as torch"]


def test_each_program_has_losses_of_torch():
    assert sorted(TORCH) == PROGRAMS
