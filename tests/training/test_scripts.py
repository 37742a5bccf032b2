"""Ordinary programs give what PyTorch gives, and compiled the same bits as eager."""

import json
from pathlib import Path

import numpy as np
import pytest
from tests.training import scripts

import rushlight as rl

TORCH = json.loads((Path(__file__).parent / "torch_scripts.json").read_text(encoding="utf-8"))["found"]


@pytest.mark.parametrize("script", scripts.SCRIPTS, ids=[script.__name__ for script in scripts.SCRIPTS])
def test_a_script_gives_what_torch_gives(script):
    eager = script(lambda model: model)
    np.testing.assert_allclose(eager, TORCH[script.__name__], rtol=2e-5, atol=1e-6)
    rl.compiler.reset()
    assert script(rl.compile) == eager
    assert 1 <= rl.compiler.graph_count() <= 4
