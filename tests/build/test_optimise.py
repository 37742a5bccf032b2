"""How hard LLVM works: results keep their bits, and each level has code of its own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rushlight as rl
from rushlight.support import settings


def step(x: Any, w: Any, index: Any) -> Any:
    """Products, sums in rows and columns, transcendental functions, gathers, and what has no vectors of its own."""
    y = rl.softmax(rl.nn.functional.gelu(x @ w), -1)
    loss = (y[:, index] * y[:, ::3]).sum() + y.std(0).max() + (x.cumsum(1).bfloat16() > 0.3).sum()
    return (y, loss, *rl.autograd.grad(loss, (x, w)))


def results(level: int, compiled: bool) -> list[np.ndarray]:
    generator = np.random.default_rng(7)
    x, w = (rl.tensor(generator.standard_normal(size, np.float32), requires_grad=True) for size in ((37, 51), (51, 21)))
    index = rl.tensor([20, 0, 3, 3, 19, 7, 1])
    with settings.override(optimise=level):
        run = rl.compile(step) if compiled else step
        return [found.detach().numpy() for found in run(x, w, index)]


@pytest.mark.parametrize("level", [0, 2])
@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "compiled"])
def test_all_levels_give_the_same_bits(level: int, compiled: bool):
    for found, expected in zip(results(level, compiled), results(1, compiled), strict=True):
        assert found.tobytes() == expected.tobytes()


def test_each_level_has_its_code(tmp_path: Path):
    x = rl.rand(1000)
    lines: dict[int, int] = {}
    for level in (0, 1):
        with settings.override(optimise=level, dump=str(tmp_path / str(level))):
            rl.compile(lambda x: rl.exp(x) + 1.0)(x)
        (path,) = (tmp_path / str(level)).glob("*/08-kernels.s")
        lines[level] = len(path.read_text().splitlines())
    assert lines[0] > lines[1]
