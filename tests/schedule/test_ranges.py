"""Joined tensors: each part is copied, or computed, by loops of its own, without conditions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import rushlight as rl
from rushlight.build.pipeline import run_passes
from rushlight.ir.graph import Graph
from rushlight.ir.kernel_text import plan_text
from rushlight.ir.plan import Plan
from rushlight.ir.target import Target

Array = np.ndarray[Any, Any]
TARGET = Target("x86_64-unknown-linux-gnu", "x86-64-v3", "", 64)
JOINED = [
    ([(2, 3), (4, 3), (1, 3)], 0),
    ([(2, 3), (0, 3), (1, 3)], 0),
    ([(2, 3, 70), (2, 5, 70)], 1),
    ([(65, 20), (65, 33), (65, 1), (65, 20)], 1),
    ([(3, 17), (3, 17)], -1),
    ([(0, 4), (0, 4)], 0),
    ([(40,), (0,), (23,)], 0),
]


def elements(*shape: int) -> Array:
    return np.random.default_rng(len(shape)).standard_normal(shape, dtype=np.float32)


@pytest.mark.parametrize(("shapes", "dim"), JOINED)
def test_parts_arrive_where_they_belong(shapes: list[tuple[int, ...]], dim: int) -> None:
    parts = [elements(*shape) for shape in shapes]
    tensors = [rl.from_numpy(part) for part in parts]
    wanted = np.concatenate(parts, dim)
    assert np.array_equal(rl.cat(tensors, dim).numpy(), wanted)

    def computed(*parts: Any) -> Any:
        return rl.cat([part * 2 + place for place, part in enumerate(parts)], dim).exp()

    assert np.array_equal(rl.compile(computed)(*tensors).numpy(), computed(*tensors).numpy())


@pytest.mark.parametrize("dtype", ["float64", "int8", "complex64", "bool"])
def test_parts_that_are_not_contiguous(dtype: str) -> None:
    first, second = (elements(9, 40) * 3).astype(dtype), (elements(40, 31) * 3).astype(dtype)
    found = rl.cat([rl.from_numpy(first).T, rl.from_numpy(second)[:, ::2]], 1)
    assert np.array_equal(found.numpy(), np.concatenate([first.T, second[:, ::2]], 1))


def test_a_result_may_lie_in_the_memory_of_a_part() -> None:
    source = elements(50, 20)

    def turned(x: Any) -> Any:
        x = x + 1
        return rl.cat([x[20:], x[:20]]), rl.cat([x[:, 16:], x[:, :16]], 1)

    for function in (turned, rl.compile(turned)):
        down, across = function(rl.from_numpy(source))
        assert np.array_equal(down.numpy(), np.roll(source + 1, 30, 0))
        assert np.array_equal(across.numpy(), np.roll(source + 1, 4, 1))


def test_many_parts_share_one_kernel(captured: Callable[..., Graph]) -> None:
    graph = captured(lambda *parts: rl.stack(parts), *[rl.ones(3, 40) for _ in range(30)])
    plan: Plan = run_passes(graph, TARGET, until="07-tiled.ir")
    assert len(plan.launches) == 30
    assert len(plan.kernels) == 1
    assert "guard" not in plan_text(plan)


def test_parts_of_one_length_share_a_loop(captured: Callable[..., Graph]) -> None:
    def gates(x: Any, y: Any) -> Any:
        z = (x * y).sqrt()
        return rl.cat([z * 2, z + x, z - y], 1), (x - y).sum(1, keepdim=True) + x

    plan: Plan = run_passes(captured(gates, rl.ones(30, 40), rl.ones(30, 40)), TARGET, until="07-tiled.ir")
    assert "guard" not in plan_text(plan)


def test_columns_of_few_elements_are_not_apart(captured: Callable[..., Graph]) -> None:
    graph = captured(lambda *parts: rl.stack(parts, -1), rl.ones(300), rl.ones(300))
    plan: Plan = run_passes(graph, TARGET, until="07-tiled.ir")
    assert len(plan.launches) == 1
