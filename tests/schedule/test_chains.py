"""Reductions that are one chain: results side by side in the lanes of vectors, whatever is known of sizes."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

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
