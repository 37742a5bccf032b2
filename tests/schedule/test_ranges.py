"""Joined tensors: each part is copied, or computed, by loops of its own, without conditions."""

from __future__ import annotations

import itertools
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
from rushlight.ops.ragged import pooled_segments

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


def _bags(tables: list[Any], ids: Any, offsets: Any, means: tuple[bool, ...]) -> Any:
    return pooled_segments(tables, ids, offsets, None, tuple(range(len(tables))), means)


def _bag_operands(dims: tuple[int, ...], batch: int) -> tuple[list[Any], Any, Any]:
    tables = [rl.from_numpy(elements(50, dim)) for dim in dims]
    lengths = np.random.default_rng(batch).integers(0, 4, batch * len(dims))
    ids = np.random.default_rng(1).integers(0, 50, int(lengths.sum()))
    return tables, rl.from_numpy(ids), rl.from_numpy(np.concatenate([[0], np.cumsum(lengths)]))


def test_ragged_sums_are_stored_where_their_part_lies(captured: Callable[..., Graph]) -> None:
    tables, ids, offsets = _bag_operands((16, 40, 17), 5)
    graph = captured(lambda *tables: _bags(list(tables), ids, offsets, (False,) * 3), *tables)
    plan: Plan = run_passes(graph, TARGET, until="07-tiled.ir")
    assert len(plan.launches) == 3
    assert "arena" not in plan_text(plan)
    graph = captured(lambda *tables: _bags(list(tables), ids, offsets, (False, True, False)), *tables)
    plan = run_passes(graph, TARGET, until="07-tiled.ir")
    assert len(plan.launches) == 4  # the lengths of the bags that are averaged have one


@pytest.mark.parametrize("dims", [(16, 40, 17), (3, 40), (1,), (64, 64, 64)])
@pytest.mark.parametrize("batch", [0, 1, 7])
def test_joined_ragged_sums_are_those_of_the_parts(dims: tuple[int, ...], batch: int) -> None:
    tables, ids, offsets = _bag_operands(dims, batch)
    means = tuple(place % 2 == 1 for place in range(len(dims)))
    wanted = []
    for place, table in enumerate(tables):
        ends = offsets.numpy()[place * batch : (place + 1) * batch + 1]
        rows = [table.numpy()[ids.numpy()[low:high]] for low, high in itertools.pairwise(ends)]
        sums = [row.sum(0) / (max(len(row), 1) if means[place] else 1) for row in rows]
        wanted.append(np.array(sums, np.float32).reshape(batch, table.shape[1]))

    def used(*tables: Any) -> Any:
        joined = _bags(list(tables), ids, offsets, means)
        return joined, joined.relu() + 1, joined.sum(1)

    found = _bags(tables, ids, offsets, means)
    assert np.allclose(found.numpy(), np.concatenate(wanted, 1), rtol=1e-6, atol=1e-6)
    for one, other in zip(rl.compile(used)(*tables), used(*tables), strict=True):
        assert np.array_equal(one.numpy(), other.numpy())
