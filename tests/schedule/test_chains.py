"""Reductions that are one chain: results side by side in the lanes of vectors, whatever is known of sizes."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tests.harness.tensors import data

import rushlight as rl
from rushlight.build.pipeline import run_passes
from rushlight.ir.graph import Graph
from rushlight.ir.kernel import Axis, AxisKind, Kernel, Loop, Statement
from rushlight.ir.kernel_text import kernel_text
from rushlight.ir.target import Target
from rushlight.nn import functional as F

Capture = Callable[..., Graph]

TARGET = Target("x86_64-unknown-linux-gnu", "x86-64-v4", "", 64)
WINDOWS: dict[str, Callable[[Any], Any]] = {
    "adaptive": lambda x: F.adaptive_avg_pool2d(x, (7, 5)),
    "large": lambda x: F.adaptive_avg_pool2d(x, (2, 2)),
    "overlapping": lambda x: F.adaptive_avg_pool2d(x, (99, 60)),
    "means far apart": lambda x: F.avg_pool2d(x, 8),
    "maxima far apart": lambda x: F.max_pool2d(x, 8),
}

WINDOWS_WITH_BORDERS: dict[str, Callable[[Any], Any]] = {
    "max_pool2d": lambda x: F.max_pool2d(x, 3, 2, 1),
    "relu then max_pool2d": lambda x: F.max_pool2d(F.relu(x), 3, 2, 1),
}


def only_kernel(graph: Graph) -> Kernel:
    """The one kernel of a graph."""
    (kernel,) = run_passes(graph, TARGET, until="07-tiled.ir").kernels
    assert isinstance(kernel, Kernel)
    return kernel


def loops_of(body: tuple[Statement, ...]) -> list[Axis]:
    """The axes of nested loops, the outermost first."""
    first = body[0]
    return [first.axis, *loops_of(first.body)] if isinstance(first, Loop) else []


@pytest.mark.parametrize("dynamic", [True, False], ids=["open", "constant"])
@pytest.mark.parametrize("name", WINDOWS)
def test_windows_have_a_vector_loop_over_results(captured: Capture, name: str, dynamic: bool) -> None:
    kernel = only_kernel(captured(WINDOWS[name], data(2, 3, 56, 64), dynamic=dynamic))
    assert bool(kernel.sizes) is dynamic
    assert loops_of(kernel.body)[-1].kind is AxisKind.VECTOR


def test_chains_of_integers_run_along_what_lies_together(captured: Capture) -> None:
    """Their steps may come in any order, so LLVM has lanes along them, with contiguous loads."""
    a, b = rl.ones(64, 48, dtype=rl.int64), rl.ones(32, 48, dtype=rl.int64)
    along, across = (only_kernel(captured(lambda x, y: x @ y, a, other)) for other in (b.mT, b.reshape(48, 32)))
    assert loops_of(along.body)[-1].kind is AxisKind.PARALLEL
    assert loops_of(across.body)[-1].kind is AxisKind.VECTOR


def test_a_gradient_meets_the_windows_over_its_place_alone(captured: Capture) -> None:
    """Not all 49 for each of 12,320 places: two rows of them at most, and one column, where none overlap."""
    x, g = data(2, 3, 110, 112).requires_grad_(), data(2, 3, 7, 7)
    graph = captured(lambda x, g: rl.autograd.grad(F.adaptive_avg_pool2d(x, 7), (x,), g), x, g, dynamic=False)
    assert re.findall(r"reduce.*axes=\[(.*?)\]", kernel_text(only_kernel(graph))) == ['"i3 < 2", "i4 < 1"']


@pytest.mark.parametrize("name", ["max_pool2d", "relu then max_pool2d"])
def test_windows_with_borders_are_written_out(captured: Capture, name: str) -> None:
    """Which places of a window lie outside is a question for each row, not for each element."""
    pool = WINDOWS_WITH_BORDERS[name]
    text = kernel_text(only_kernel(captured(pool, data(2, 3, 56, 64), dynamic=False)))
    assert "reduce" not in text
    assert text.count("maximum(") == 8
    assert "reduce" in kernel_text(only_kernel(captured(lambda x: F.max_pool2d(x, 8), data(2, 3, 56, 64))))


def test_extremes_that_are_written_out_have_their_bits() -> None:
    x = rl.from_numpy(np.random.default_rng(0).standard_normal((2, 3, 19, 37)).astype("float32"))
    x[0, 1, 3, 5], x[1, 2, 18, 36], x[0, 0] = float("nan"), float("-inf"), -0.0
    values = np.pad(x.numpy(), ((0, 0), (0, 0), (1, 1), (1, 1)), constant_values=-np.inf)
    windows = [values[:, :, i : i + 19 : 2, j : j + 37 : 2] for i in range(3) for j in range(3)]
    found = F.max_pool2d(x, 3, 2, 1)
    np.testing.assert_array_equal(found.numpy(), np.maximum.reduce(windows))
    np.testing.assert_array_equal(rl.compile(lambda x: F.max_pool2d(x, 3, 2, 1))(x).numpy(), found.numpy())
