"""How stages grow with a program: a layer more adds what the layer before it added, and no kernels of its own."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

import rushlight as rl
from rushlight import build, nn, optim
from rushlight.build.pipeline import run_passes
from rushlight.ir.graph import Graph
from rushlight.nn import functional as F
from rushlight.runtime import llvm
from rushlight.schedule.lower.rewrite import Substitution

WIDTH = 32


def graph_of_a_step(depth: int, monkeypatch: pytest.MonkeyPatch) -> Graph:
    """The graph of a training step of a residual network with so many layers."""
    rl.manual_seed(0)
    layers = nn.ModuleList([nn.Sequential(nn.LayerNorm(WIDTH), nn.Linear(WIDTH, WIDTH)) for _ in range(depth)])
    head = nn.Linear(WIDTH, 10)
    optimizer = optim.AdamW([*layers.parameters(), *head.parameters()], lr=0.01)
    graphs: list[Graph] = []
    compile_graph = build.compile_graph

    def spy(graph: Graph, *others: Any, **options: Any) -> Any:
        graphs.append(graph)
        return compile_graph(graph, *others, **options)

    @rl.compile
    def step(x: Any, y: Any) -> Any:
        optimizer.zero_grad()
        for layer in layers:
            x = x + F.gelu(layer(x))
        loss = F.cross_entropy(head(x), y)
        loss.backward()
        optimizer.step()
        return loss

    monkeypatch.setattr(build, "compile_graph", spy, raising=False)
    step(rl.rand(16, WIDTH), rl.randint(0, 10, (16,)))
    monkeypatch.undo()
    return graphs[-1]


def measured(depth: int, monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """The sizes of all stages, and how often a body was rewritten on the way."""
    graph = graph_of_a_step(depth, monkeypatch)
    target = llvm.baseline_target()
    found: Counter[str] = Counter()
    rewrite = Substitution.__call__

    def counted(self: Substitution, term: Any) -> Any:
        found["rewritten bodies"] += 1
        return rewrite(self, term)

    monkeypatch.setattr(Substitution, "__call__", counted)
    merged = run_passes(graph, target, until="02-merged.ir")
    code = run_passes(graph, target)
    monkeypatch.undo()
    found["calls"] = len(graph.calls)
    found["merged calls"] = len(merged.calls)
    found["launches"] = len(code.plan.launches)
    found["slots"] = len(code.plan.slots)
    found["order of slots"] = sum([len(slot.after) for slot in code.plan.slots])
    found["functions"] = code.text.count("\ndefine ")
    return found


def test_stages_grow_linearly_with_layers(monkeypatch: pytest.MonkeyPatch):
    few, some, many = (measured(depth, monkeypatch) for depth in (4, 8, 16))
    for name in few:
        assert many[name] - some[name] <= 2.15 * (some[name] - few[name]), name
    assert many["functions"] == some["functions"]
