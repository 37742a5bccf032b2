"""Groups that are alike share kernels, and nothing else does."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import rushlight as rl
from rushlight import nn, optim
from rushlight.build.pipeline import run_passes
from rushlight.ir.graph import Graph
from rushlight.ir.graph_parse import parse_graph
from rushlight.ir.kernel import GemmKernel
from rushlight.ir.plan import RowBlockKernel
from rushlight.ir.target import Target
from rushlight.nn import functional as F
from rushlight.ops.record import OPERATORS
from rushlight.schedule.fuse.dedupe import StructuralKey
from rushlight.schedule.fuse.fusion import fuse_nodes
from rushlight.schedule.lower.folding import Dissected
from rushlight.schedule.lower.lowering import lower_graph
from rushlight.schedule.lower.nodes import make_nodes
from rushlight.schedule.memory.aliasing import alias_results

TARGET = Target("x86_64-unknown-linux-gnu", "x86-64-v4", "", 64)


def structural_key_of(call: str) -> StructuralKey:
    """Of the one group that a call on two parameters makes."""
    text = f"f(%x: f32[10, 64], %y: f32[10, 64], %z: f32[64]) {{\n  %0 = {call} : f32[10, 64]\n  return %0\n}}"
    graph = parse_graph(text, OPERATORS)
    lowered = lower_graph(graph)
    items = [Dissected.of(definition) for definition in lowered.definitions]
    nodes = make_nodes(items, set(alias_results(graph, lowered)))
    return StructuralKey(fuse_nodes(nodes).groups, {})


class Block(nn.Module):
    """A block with a product, an attention and a norm."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.qkv = nn.Linear(width, 3 * width)
        self.norm = nn.LayerNorm(width)

    def forward(self, x: Any) -> Any:
        """x: (batch, time, width)."""
        b, t, w = x.shape
        q, k, v = self.qkv(self.norm(x)).reshape(b, t, 3, 2, w // 2).permute(2, 0, 3, 1, 4)
        return x + F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(b, t, w)


def training(depth: int) -> Callable[[Any], Any]:
    """A training step of so many blocks."""
    rl.manual_seed(0)
    model = nn.Sequential(*[Block(64) for _ in range(depth)])
    optimizer = optim.AdamW(model.parameters(), lr=0.01)

    def step(x: Any) -> Any:
        optimizer.zero_grad()
        loss = model(x).square().mean()
        loss.backward()
        optimizer.step()
        return loss

    return step


def test_more_layers_need_no_more_kernels(captured: Callable[..., Graph]):
    plans = []
    for depth in (4, 8):
        graph = captured(training(depth), rl.rand(2, 128, 64))
        plans.append(run_passes(graph, TARGET, until="07-tiled.ir"))
    few, many = plans
    assert len(many.kernels) == len(few.kernels)
    assert len(many.launches) > 1.7 * len(few.launches)
    assert any(isinstance(kernel, RowBlockKernel) for kernel in many.kernels)
    assert any(isinstance(kernel, GemmKernel) for kernel in many.kernels)


def test_what_is_alike_gives_what_it_gives_alone():
    step, other = training(3), training(3)
    x = rl.rand(2, 33, 64)
    compiled = rl.compile(step)
    for _ in range(3):
        assert rl.equal(compiled(x), other(x))


@pytest.mark.parametrize(
    ("call", "other", "alike"),
    [
        ("mul(%x, %y)", "mul(%y, %x)", True),
        ("mul(%x, %x)", "mul(%x, %y)", False),
        ("mul(%x, %y)", "mul(%x, %z)", False),
        ("mul(%x, %y)", "div(%x, %y)", False),
        ("mul(%x, 2.0)", "mul(%y, 2.0)", True),
        ("mul(%x, 2.0)", "mul(%y, 3.0)", False),
        ("mul(%x, 0.0)", "mul(%y, -0.0)", False),
        ("cumsum(%x) {dim=1}", "cumsum(%y) {dim=1}", True),
        ("cumsum(%x) {dim=1}", "cumsum(%x) {dim=0}", False),
        ("flip(%x) {dims=[1]}", "flip(%y) {dims=[1]}", True),
        ("flip(%x) {dims=[1]}", "flip(%y) {dims=[0]}", False),
    ],
)
def test_only_what_differs_in_buffers_alone_is_alike(call: str, other: str, alike: bool):
    assert (structural_key_of(call).key == structural_key_of(other).key) is alike
