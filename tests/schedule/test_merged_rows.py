"""Groups of sums over rows that began apart, and are one kernel once a value needs both."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import rushlight as rl
from rushlight.build.pipeline import run_passes
from rushlight.ir.graph import Graph
from rushlight.ir.plan import Plan
from rushlight.ir.target import Target

TARGET = Target("x86_64-unknown-linux-gnu", "x86-64-v4", "", 64)


def gradients(x: Any, w: Any, b: Any, g: Any) -> Any:
    """Those of a norm of rows."""
    x, w, b = (tensor.detach().requires_grad_() for tensor in (x, w, b))
    return rl.autograd.grad(rl.nn.functional.layer_norm(x, x.shape[-1:], w, b), (x, w, b), g)


def plan_of(graph: Graph) -> Plan:
    return run_passes(graph, TARGET, until="07-tiled.ir")


@pytest.mark.row("7.3")
@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])
def test_one_kernel_makes_all_of_a_norms_gradient_that_is_of_rows(
    dynamic: bool, captured: Callable[..., Graph]
) -> None:
    shapes = (600, 70), (70,), (70,), (600, 70)
    plan = plan_of(captured(gradients, *[rl.ones(*shape) for shape in shapes], dynamic=dynamic))
    x = plan.inputs[0]
    assert len([launch for launch in plan.launches if x in launch.buffers]) == 2  # rows, and the sums of columns


@pytest.mark.parametrize("shape", [(1, 1), (3, 5), (64, 33), (300, 70), (0, 4), (2, 3, 40)])
def test_gradients_of_norms_have_the_bits_of_eager_code(shape: tuple[int, ...]) -> None:
    random = np.random.default_rng(7)
    x, g = (rl.tensor(random.standard_normal(shape).astype(np.float32)) for _ in range(2))
    w, b = (rl.tensor(random.standard_normal(shape[-1:]).astype(np.float32)) for _ in range(2))
    for found, wanted in zip(rl.compile(gradients)(x, w, b, g), gradients(x, w, b, g), strict=True):
        assert found.numpy().tobytes() == wanted.numpy().tobytes()


def test_rows_stay_apart_where_another_kernel_is_between(captured: Callable[..., Graph]) -> None:
    def between(x: Any, y: Any) -> Any:
        first = (x * 2).sum(-1)
        columns = (x * first[:, None]).sum(0)  # needs all rows of the first sums
        second = (x * y * columns).sum(-1)
        return (x + y) * first[:, None] - second[:, None]

    x, y = rl.randn(40, 30), rl.randn(40, 30)
    assert len(plan_of(captured(between, x, y, dynamic=False)).launches) >= 3
    assert rl.compile(between)(x, y).numpy().tobytes() == between(x, y).numpy().tobytes()


def program(seed: int) -> Callable[..., Any]:
    """Sums along both dims and pointwise values of them, at random."""

    def run(x: Any, y: Any) -> Any:
        random = np.random.default_rng(seed)
        values = [x, y, x * y]
        for _ in range(9):
            a, b = (values[place] for place in random.integers(0, len(values), 2))
            kind = random.integers(0, 5)
            if kind < 2:
                values.append(a * (b * 0.5).sum(-1, keepdim=True))
            elif kind == 2:
                values.append(a - b.amax(-1, keepdim=True))
            elif kind == 3:
                values.append(a + (b * 0.25).mean(0, keepdim=True))
            else:
                values.append(a * 0.5 - b)
        return values[-1], values[-3]

    return run


@pytest.mark.generated("seed")
@pytest.mark.parametrize("seed", range(24))
def test_random_programs_have_the_bits_of_eager_code(seed: int) -> None:
    random = np.random.default_rng(seed)
    run = program(seed)
    x, y = (rl.tensor(random.standard_normal((9, 12)).astype(np.float32)) for _ in range(2))
    for found, wanted in zip(rl.compile(run)(x, y), run(x, y), strict=True):
        assert found.numpy().tobytes() == wanted.numpy().tobytes()
