"""Fixtures of tests of what the scheduler makes: graphs of programs as the compiler gets them, threads."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import rushlight as rl
from rushlight import build
from rushlight.ir.graph import Graph


@pytest.fixture
def captured(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Graph]:
    """`captured(function, *args, **options)`: the graph that capture hands to the compiler last for one call."""
    compile_graph = build.compile_graph

    @rl.compiler.disable  # a body that is compiled would have the function in its own graph
    def capture(function: Callable[..., Any], *args: Any, **options: Any) -> Graph:
        graphs: list[Graph] = []

        def spy(graph: Graph, *others: Any, **named: Any) -> Any:
            graphs.append(graph)
            return compile_graph(graph, *others, **named)

        with monkeypatch.context() as patch:
            patch.setattr(build, "compile_graph", spy, raising=False)
            rl.compile(function, **options)(*args)
        return graphs[-1]

    return capture


@pytest.fixture(params=[1, 2], ids=["one thread", "two threads"])
def threads(request: pytest.FixtureRequest) -> Any:
    before = rl.get_num_threads()
    rl.set_num_threads(request.param)
    yield request.param
    rl.set_num_threads(before)
