"""Memory of whole programs: updates in place, values in each other's place, an order that frees memory early."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

import rushlight as rl
from rushlight import nn, optim
from rushlight.build.pipeline import run_passes
from rushlight.capture import explain_entries
from rushlight.ir.graph import Graph
from rushlight.ir.graph_parse import parse_graph
from rushlight.ir.kernel import GemmKernel, Kernel
from rushlight.ir.plan import Plan
from rushlight.ir.target import Target
from rushlight.nn import functional as F
from rushlight.ops.record import OPERATORS
from rushlight.sym import optimization_hint, product

Capture = Callable[..., Graph]

TARGET = Target("x86_64-unknown-linux-gnu", "x86-64-v4", "", 64)
BATCH, WIDTH = 64, 32
ACTIVATION = BATCH * WIDTH * 4


def plan_of(text: str) -> Plan:
    """The plan of a program in text."""
    return tiled(parse_graph(text, OPERATORS))


def tiled(graph: Graph) -> Plan:
    """The plan of a graph."""
    return run_passes(graph, TARGET, until="07-tiled.ir")


def training_step(depth: int, activation: Callable[[], nn.Module]) -> Callable[[Any, Any], Any]:
    """A step of Adam on a perceptron of so many layers."""
    rl.manual_seed(0)
    layers = [layer for _ in range(depth) for layer in (nn.Linear(WIDTH, WIDTH), activation())]
    model = nn.Sequential(*layers, nn.Linear(WIDTH, 10))
    optimizer = optim.AdamW(model.parameters(), lr=0.01)

    def step(x: Any, y: Any) -> Any:
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        return loss

    return step


def plan_of_training(captured: Capture, depth: int, activation: Callable[[], nn.Module] = nn.ReLU) -> Plan:
    step = training_step(depth, activation)
    return tiled(captured(step, rl.rand(BATCH, WIDTH), rl.randint(0, 10, (BATCH,)), dynamic=False))


def large_slots(plan: Plan) -> list[str]:
    """The names of the values of 64 x 64 elements in the arena."""
    return [slot.buffer.name for slot in plan.slots if optimization_hint(product(slot.buffer.type.shape)) == 64 * 64]


def is_copy(kernel: Kernel | GemmKernel) -> bool:
    """Whether a kernel stores what it loads and does nothing else."""
    if not isinstance(kernel, Kernel):
        return False
    return all(store.value.op.name == "load" for store in kernel.stores())


@pytest.mark.parametrize(("activation", "kept"), [(nn.ReLU, 1), (partial(nn.GELU, approximate="tanh"), 2)])
def test_a_layer_more_keeps_no_more_than_its_activations(
    activation: Callable[[], nn.Module], kept: int, captured: Capture
):
    few, many = (plan_of_training(captured, depth, activation).arena_hints()[1] for depth in (4, 12))
    assert (many - few) / 8 <= kept * ACTIVATION


def test_parameters_and_their_state_are_updated_in_place(captured: Capture):
    plan = plan_of_training(captured, 3)
    assert not any(is_copy(plan.kernels[launch.kernel]) for launch in plan.launches)
    written = {
        buffer for launch in plan.launches for buffer in launch.buffers if buffer in plan.inputs and buffer.type.ndim
    }
    assert len(written) >= 3 * 8  # parameters, two means of each


def test_a_parameter_is_overwritten_after_its_last_reader():
    plan = plan_of("""\
step(%w: f32[64, 64], %x: f32[64, 64]) {
  %0 = matmul(%x, %x) : f32[64, 64]
  %1 = add(%0, %w, none) : f32[64, 64]
  %2 = matmul(%x, %w) : f32[64, 64]
  %3 = matmul(%2, %2) : f32[64, 64]
  write %w <- %1
  return %3
}""")
    using = [number for number, launch in enumerate(plan.launches) if plan.inputs[0] in launch.buffers]
    assert len(using) == 2
    assert "v2" in [buffer.name for buffer in plan.launches[using[0]].buffers]
    assert not any(is_copy(kernel) for kernel in plan.kernels)


def test_a_new_value_that_the_readers_of_the_old_one_need_is_copied_at_the_end():
    plan = plan_of("""\
step(%w: f32[64, 64], %x: f32[64, 64]) {
  %0 = matmul(%x, %x) : f32[64, 64]
  %1 = add(%0, %w, none) : f32[64, 64]
  %2 = matmul(%1, %w) : f32[64, 64]
  write %w <- %1
  return %2
}""")
    assert is_copy(plan.kernels[plan.launches[-1].kernel])
    assert plan.launches[-1].buffers[-1].name == "w"


SCATTER = """\
step(%w: f32[4096, 64], %i: i64[8], %v: f32[8, 64]) {{
  %0 = index_put(%w, [%i], {value}) {{dims=[0], accumulate={accumulate}}} : f32[4096, 64]
  write %w <- %0
  return
}}"""


@pytest.mark.parametrize("accumulate", ["true", "false"])
def test_writes_at_some_places_pass_over_nothing_else(accumulate: str):
    plan = plan_of(SCATTER.format(value="%v", accumulate=accumulate))
    assert len(plan.launches) == 1 and not plan.slots
    assert plan.launches[0].buffers[-1] is plan.inputs[0]


def test_what_the_writes_read_is_not_written_over():
    text = SCATTER.format(value="%1", accumulate="false")
    plan = plan_of(text.replace("  %0 =", "  %1 = index(%w, [%i]) {dims=[0]} : f32[8, 64]\n  %0 ="))
    assert plan.slots and is_copy(plan.kernels[plan.launches[-1].kernel])


def test_a_value_that_others_read_is_copied_before_places_of_it_are_written():
    plan = plan_of("""\
step(%x: f32[64, 64], %i: i64[8], %v: f32[8, 64]) {
  %0 = matmul(%x, %x) : f32[64, 64]
  %1 = index_put(%0, [%i], %v) {dims=[0], accumulate=false} : f32[64, 64]
  %2 = matmul(%0, %1) : f32[64, 64]
  return %2
}""")
    assert len(large_slots(plan)) == 2


def test_values_are_made_when_they_are_used_up_soon():
    products = [f"  %{number} = matmul(%x, %w{number}) : f32[64, 64]" for number in range(6)]
    sums = [f"  %{number + 6} = sum(%{number}) {{dim=[1], keepdim=false}} : f32[64]" for number in range(6)]
    parameters = ", ".join(["%x: f32[64, 64]", *[f"%w{number}: f32[64, 64]" for number in range(6)]])
    results = ", ".join([f"%{number + 6}" for number in range(6)])
    plan = plan_of("\n".join([f"step({parameters}) {{", *products, *sums, f"  return {results}", "}"]))
    assert plan.arena_hints()[1] == 64 * 64 * 4


def test_a_value_takes_the_place_of_the_one_it_is_made_of():
    plan = plan_of("""\
step(%x: f32[64, 64], %y: f32[64]) {
  %0 = matmul(%x, %x) : f32[64, 64]
  %1 = sum(%0) {dim=[0], keepdim=false} : f32[64]
  %2 = add(%0, %1, none) : f32[64, 64]
  %3 = matmul(%2, %x) : f32[64, 64]
  return %3
}""")
    assert len(large_slots(plan)) == 1


def test_a_value_lies_in_the_result_that_it_becomes():
    plan = plan_of("""\
step(%x: f32[64, 64], %y: f32[64]) {
  %0 = matmul(%x, %x) : f32[64, 64]
  %1 = sum(%0) {dim=[0], keepdim=false} : f32[64]
  %2 = add(%0, %1, none) : f32[64, 64]
  return %2
}""")
    assert not large_slots(plan)


def test_a_product_that_is_read_transposed_lies_as_it_is_read():
    plan = plan_of("""\
step(%x: f32[96, 64], %y: f32[96, 32], %z: f32[32, 64]) {
  %0 = permute(%x) {dims=[1, 0]} : f32[64, 96] strides [1, 64]
  %1 = matmul(%0, %y) : f32[64, 32]
  %2 = permute(%1) {dims=[1, 0]} : f32[32, 64] strides [1, 32]
  %3 = add(%z, %2, none) : f32[32, 64]
  return %3
}""")
    assert len(plan.launches) == 1
    assert not plan.slots


def test_what_a_row_result_makes_cheap_is_made_again():
    plan = plan_of("""\
step(%x: f32[64, 64], %y: f32[64, 64]) {
  %0 = matmul(%x, %y) : f32[64, 64]
  %1 = amax(%0) {dim=[1], keepdim=true} : f32[64, 1]
  %2 = sub(%0, %1, none) : f32[64, 64]
  %3 = exp(%2) : f32[64, 64]
  %4 = sum(%3) {dim=[0], keepdim=false} : f32[64]
  %5 = sum(%2) {dim=[0], keepdim=false} : f32[64]
  %6 = matmul(%0, %y) : f32[64, 64]
  return %4, %5, %6
}""")
    assert large_slots(plan) == ["v0"]


@pytest.mark.parametrize("batch", [1, 3, 64, 200])
def test_places_hold_for_sizes_that_were_not_met_first(batch: int):
    rl.manual_seed(1)
    model = nn.Sequential(*[nn.Linear(24, 24), nn.LayerNorm(24)] * 3)
    compiled = rl.compile(lambda x: F.softmax(model(x), -1) + x.sum(0) + model(x * 2).mean(0))
    first = rl.rand(17, 24)
    assert rl.equal(compiled(first), compiled.function(first))
    x = rl.rand(batch, 24)
    assert rl.equal(compiled(x), compiled.function(x))


def outer_of_sums(x: Any, w: Any) -> Any:
    """A small program whose result is large and made last."""
    made = ((x @ w) @ w).sum(0)
    return made[:, None] * made


def test_values_lie_in_a_result_until_it_is_written(captured: Capture):
    plan = tiled(captured(outer_of_sums, rl.rand(64, 512), rl.rand(512, 512), dynamic=False))
    large = [slot for slot in plan.slots if slot.buffer.type.shape == (64, 512)]
    assert len(large) == 2
    assert all(slot.within is plan.outputs[0] for slot in large)


@pytest.mark.parametrize("rows", [1, 64, 256, 257, 2000])
def test_values_that_do_not_fit_into_a_result_lie_in_the_arena(rows: int):
    compiled = rl.compile(outer_of_sums)
    w = rl.rand(512, 512)
    compiled(rl.rand(64, 512), w)
    x = rl.rand(rows, 512)
    assert rl.equal(compiled(x, w), outer_of_sums(x, w))
    assert len(explain_entries(compiled)) == 1
