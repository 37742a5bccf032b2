"""Choices that do not depend on the sizes that a graph happens to be compiled with."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

import rushlight as rl
from rushlight.build.pipeline import PIPELINE, PassContext, run_passes
from rushlight.capture import explain_entries
from rushlight.ir.choice import BLOCKS, ScheduleTarget, by_model
from rushlight.ir.graph import Graph
from rushlight.ir.graph_parse import parse_graph
from rushlight.ir.kernel_text import plan_text
from rushlight.ops.record import OPERATORS
from rushlight.runtime import llvm
from scheduling import schedule

PROGRAMS = {
    "product": "step(%x: f32[s0, s1], %y: f32[s1, s2]) {{\n{sizes}  %0 = matmul(%x, %y) : f32[s0, s2]\n  return %0\n}}",
    "rows": "step(%x: f32[s0, s1]) {{\n{sizes}  %0 = softmax(%x) {{dim=-1}} : f32[s0, s1]\n  return %0\n}}",
    "sum": "step(%x: f32[s0, s1]) {{\n{sizes}  %0 = sum(%x) : f32[]\n  %1 = exp(%0) : f32[]\n  return %1\n}}",
}


def graph(name: str, size: int) -> Graph:
    """Return a program whose sizes are unknown, met first with some size."""
    symbols = 3 if name == "product" else 2
    sizes = "".join(f"  size s{number} = {size}\n" for number in range(symbols))
    return parse_graph(PROGRAMS[name].format(sizes=sizes), OPERATORS)


def scheduled(name: str, size: int) -> str:
    """Return the text of the plan."""
    merged: Any = graph(name, size)
    for stage in PIPELINE[1:3]:
        merged = stage.run(merged, PassContext(llvm.baseline_target(), by_model, BLOCKS))
    return plan_text(schedule(merged, ScheduleTarget(64)))


@pytest.mark.parametrize("name", PROGRAMS)
def test_small_and_large_first_sizes_give_one_plan(name: str):
    assert scheduled(name, 2) == scheduled(name, 4096)


def test_a_small_first_product_does_not_slow_a_large_one():
    compiled = rl.compile(lambda a, b: a @ b)
    compiled(rl.rand(2, 3), rl.rand(3, 4))
    a, b = rl.rand(70, 300), rl.rand(300, 50)
    assert bool((compiled(a, b) == a @ b).all())
    assert explain_entries(compiled)[0].executables[0].summary.tiles


@pytest.mark.parametrize("dynamic", [None, False], ids=["open", "constant"])
def test_a_size_is_no_more_of_a_load_than_a_constant(dynamic: bool | None, captured: Callable[..., Graph]):
    def sums(x: Any, ids: Any) -> Any:
        last = rl.full((), x.shape[0] - 1)
        return rl.zeros(x.shape[0]).index_add(0, rl.minimum(ids, last), rl.ones(ids.shape[0]))

    graph = captured(sums, rl.ones(7), rl.tensor([3, 9]), dynamic=dynamic)
    graph = replace(graph, asserts=()).without_dead_calls()  # whose values have memory
    assert run_passes(graph, llvm.baseline_target(), until="07-tiled.ir").slots == ()


def test_bags_of_any_number_of_members_choose_between_no_sizes(captured: Callable[..., Graph]):
    def largest(members: Any, weight: Any, offsets: Any) -> Any:
        return rl.nn.functional.embedding_bag(members, weight, offsets, mode="max")

    graph = captured(largest, rl.zeros(40, dtype=rl.int64), rl.ones(50, 32), rl.tensor([0, 3, 9]))
    plan = run_passes(graph, llvm.baseline_target(), until="07-tiled.ir")
    sizes = [size for slot in plan.slots for size in slot.buffer.type.shape]
    assert plan.inputs[0].type.shape[0] // 32 + 1 in sizes
    members = str(plan.inputs[0].type.shape[0])
    assert not [size for size in sizes if "min" in str(size) and members in str(size)]  # as checks of offsets have
