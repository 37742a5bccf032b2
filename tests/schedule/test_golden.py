"""From captured graphs to fused kernels, as text: read `golden/*.ir` beside this file to see what the compiler does.

Each file shows the graph that capture wrote down, the same graph in primitives, and its kernels in outline.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import rushlight as rl
from rushlight import nn
from rushlight.build.pipeline import run_passes
from rushlight.ir.graph import Graph
from rushlight.ir.graph_parse import parse_graph
from rushlight.ir.outline import plan_outline
from rushlight.ir.target import Target
from rushlight.ir.text import format_graph
from rushlight.nn import functional as F
from rushlight.ops.record import OPERATORS
from rushlight.schedule.text import folded_text, fused_text, lowered_text, ordered_text

Capture = Callable[..., Graph]

TARGET = Target("x86_64-unknown-linux-gnu", "x86-64-v4", "", 64)


def stages(graph: Graph) -> str:
    """The graph, its primitives, and its kernels in outline."""
    graph = parse_graph(format_graph(graph, facts=True), OPERATORS)  # so that sizes have their printed names
    primitives = run_passes(graph, TARGET, until="02-merged.ir")
    plan = run_passes(graph, TARGET, until="07-tiled.ir")
    parts = (
        ("captured", format_graph(graph, facts=True)),
        ("primitives", format_graph(primitives)),
        ("kernels", plan_outline(plan)),
    )
    return "\n\n".join([f"# {title}\n\n{text}" for title, text in parts])


def softmax(x: Any) -> Any:
    return rl.softmax(x, -1)


def layer_norm(x: Any, weight: Any, bias: Any) -> Any:
    return F.layer_norm(x, (32,), weight, bias)


def gelu_of_linear(x: Any, weight: Any, bias: Any, residual: Any) -> Any:
    return F.gelu(F.linear(x, weight, bias)) + residual


def cross_entropy(logits: Any, labels: Any) -> Any:
    return F.cross_entropy(logits, labels)


CASES: dict[str, tuple[Callable[..., Any], Callable[[], tuple[Any, ...]]]] = {
    "softmax": (softmax, lambda: (rl.zeros(64, 128),)),
    "layer_norm": (layer_norm, lambda: (rl.zeros(64, 32), rl.ones(32), rl.zeros(32))),
    "gelu_of_linear": (
        gelu_of_linear,
        lambda: (rl.zeros(64, 32), rl.zeros(128, 32), rl.zeros(128), rl.zeros(64, 128)),
    ),
    "cross_entropy": (cross_entropy, lambda: (rl.zeros(64, 10), rl.zeros(64, dtype=rl.int64))),
}


@pytest.mark.parametrize("name", CASES)
def test_kernels_are_golden(name: str, captured: Capture, golden: Callable[[str, str], None]):
    function, args = CASES[name]
    golden(f"{name}.ir", stages(captured(function, *args())))


def test_one_optimizer_step_is_one_kernel(captured: Capture, golden: Callable[[str, str], None]):
    weight = nn.Parameter(rl.ones(64))
    optimizer = rl.optim.AdamW([weight], lr=0.01, weight_decay=0.1)

    def step(gradient: Any) -> None:
        weight.grad = gradient
        optimizer.step()

    golden("adamw_step.ir", stages(captured(step, rl.ones(64))))


# Verdicts: why values share a kernel, or do not.

VERDICTS = """\
g(%x: f32[s0, s1], %w: f32[s1, 64], %i: i64[s0, 64], %z: f32[s0, 64]) {
  size s0 = 256
  size s1 = 512
  %0 = matmul(%x, %w) : f32[s0, 64]
  %1 = relu(%0) : f32[s0, 64]
  %2 = sum(%1) {dim=[1], keepdim=true} : f32[s0, 1]
  %3 = div(%1, %2) : f32[s0, 64]
  %4 = sum(%3) {dim=[0], keepdim=false} : f32[64]
  %5 = exp(%4) : f32[64]
  %6 = scatter_add(%z, %i, %3) {dim=0} : f32[s0, 64]
  return %3, %5, %6
}"""


def test_verdicts_are_golden(golden: Callable[[str, str], None]):
    graph = parse_graph(VERDICTS, OPERATORS)
    missed = run_passes(graph, TARGET, until="05-fused.ir").missed
    plan = run_passes(graph, TARGET, until="07-tiled.ir")
    lines = [f"{item.consumer} not with {item.producer}: {item.verdict.reason}" for item in missed]
    golden("verdicts.txt", "\n".join([VERDICTS, "", plan_outline(plan), "", *lines]))


STAGES = {"03-lowered": lowered_text, "04-folded": folded_text, "05-fused": fused_text, "06-ordered": ordered_text}


def test_stages_of_the_schedule_are_golden(golden: Callable[[str, str], None]):
    graph = parse_graph(VERDICTS, OPERATORS)
    texts = [f"# {stage}\n\n{show(run_passes(graph, TARGET, until=f'{stage}.ir'))}" for stage, show in STAGES.items()]
    golden("stages.txt", "\n".join([VERDICTS, "", *texts]))


# Products of what is not in memory: a prologue makes panels of shifted pixels.

CONVOLUTION = """\
g(%x: f32[1, 64, s0, s0], %w: f32[32, 64, 3, 3], %b: f32[32]) {
  size s0 = 56
  %0 = convolution(%x, %w, %b) {stride=[1, 1], padding=[1, 1], dilation=[1, 1], groups=1} : f32[1, 32, s0, s0]
  %1 = relu(%0) : f32[1, 32, s0, s0]
  return %1
}"""


def test_convolutions_are_golden(golden: Callable[[str, str], None]):
    plan = run_passes(parse_graph(CONVOLUTION, OPERATORS), TARGET, until="07-tiled.ir")
    golden("convolution.txt", f"{CONVOLUTION}\n\n{plan_outline(plan)}")


# Frozen inputs: what is made of them alone runs once, in a plan of its own.

FROZEN = """\
g(%x: f32[s0, 256], %w: frozen f32[128, 256], %b: frozen f32[128], %v: frozen f32[128]) {
  size s0 = 16
  %0 = transpose(%w) {dim0=0, dim1=1} : f32[256, 128] strides [1, 256]
  %1 = matmul(%x, %0) : f32[s0, 128]
  %2 = exp(%v) : f32[128]
  %3 = rsqrt(%2) : f32[128]
  %4 = mul(%1, %3) : f32[s0, 128]
  %5 = maximum(%4, %b) : f32[s0, 128]
  return %5
}"""


def test_frozen_inputs_are_golden(golden: Callable[[str, str], None]):
    plan = run_passes(parse_graph(FROZEN, OPERATORS), TARGET, until="07-tiled.ir")
    golden("frozen.txt", f"{FROZEN}\n\n{plan_outline(plan)}")


# Memory: values that are not needed at the same time share a place.

CHAIN = """\
g(%x: f32[s0, s0]) {
  size s0 = 256
  %0 = matmul(%x, %x) : f32[s0, s0]
  %1 = matmul(%0, %x) : f32[s0, s0]
  %2 = matmul(%1, %x) : f32[s0, s0]
  %3 = matmul(%2, %x) : f32[s0, s0]
  %4 = matmul(%3, %0) : f32[s0, s0]
  return %4
}"""


def test_the_memory_plan_is_golden(golden: Callable[[str, str], None]):
    plan = run_passes(parse_graph(CHAIN, OPERATORS), TARGET, until="07-tiled.ir")
    golden("memory.txt", f"{CHAIN}\n\n{plan_outline(plan)}")
