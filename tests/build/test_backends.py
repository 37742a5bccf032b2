"""What runs a graph: the four backends agree on a training step, and each does what its name says."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import rushlight as rl
from rushlight import nn
from rushlight.build import compile_graph
from rushlight.build.executable import NativeExecutable
from rushlight.build.reference import ReferenceExecutable
from rushlight.build.steps import StepExecutable, ViewStep
from rushlight.ir.dtype import float32
from rushlight.ir.graph import Graph, GraphBuilder
from rushlight.ir.graph_parse import parse_graph
from rushlight.ir.type import TensorType
from rushlight.nn import functional as F
from rushlight.ops.record import OPERATORS
from rushlight.runtime import descriptor
from rushlight.support import settings
from rushlight.support.errors import ArgumentValueError
from rushlight.sym import Scope

BITWISE = ("rushlight", "inductor", "eager", "aot_eager")


def _mlp() -> nn.Sequential:
    rng = np.random.default_rng(0)
    model = nn.Sequential(nn.Linear(12, 24), nn.LayerNorm(24), nn.GELU(), nn.Linear(24, 5))
    with rl.no_grad():
        for parameter in model.parameters():
            parameter.copy_(rl.tensor(rng.standard_normal(parameter.shape).astype(np.float32) * 0.3))
    return model


def _trained(run: Callable[[Callable[..., Any]], Callable[..., Any]]) -> list[np.ndarray]:
    """Losses and final weights of three steps; the second has another batch size."""
    rng = np.random.default_rng(1)
    model = _mlp()
    optimizer = rl.optim.AdamW(model.parameters(), lr=0.01)

    def step(x: Any, y: Any) -> Any:
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        return loss

    step = run(step)
    losses: list[Any] = []
    for count in (8, 3, 8):
        x = rl.tensor(rng.standard_normal((count, 12)).astype(np.float32))
        losses.append(step(x, rl.tensor(rng.integers(0, 5, count))).detach().numpy())
    return [*losses, *[parameter.detach().numpy() for parameter in model.parameters()]]


@pytest.fixture(scope="module")
def eager() -> list[np.ndarray]:
    return _trained(lambda step: step)


@pytest.mark.parametrize("backend", BITWISE)
def test_a_training_step_has_the_bits_of_eager(backend: str, eager: list[np.ndarray]):
    found = _trained(lambda step: rl.compile(step, backend=backend))
    assert all(np.array_equal(one, two) for one, two in zip(found, eager, strict=True))


def test_the_reference_agrees_with_eager(eager: list[np.ndarray]):
    found = _trained(lambda step: rl.compile(step, backend="reference"))
    assert all(np.allclose(one, two, rtol=1e-4, atol=1e-6) for one, two in zip(found, eager, strict=True))


@pytest.mark.parametrize("backend", BITWISE)
def test_a_module_differentiated_from_outside_has_the_bits_of_eager(backend: str):
    x0 = np.random.default_rng(2).standard_normal((6, 12)).astype(np.float32)
    found: list[list[np.ndarray]] = []
    for compiled in (False, True):
        model = _mlp()
        call = rl.compile(model, backend=backend) if compiled else model
        x = rl.tensor(x0, requires_grad=True)
        call(x).square().sum().backward()
        found.append([x.grad.numpy(), *[parameter.grad.numpy() for parameter in model.parameters()]])
    assert all(np.array_equal(one, two) for one, two in zip(*found, strict=True))


def test_an_unknown_backend_is_an_error():
    with pytest.raises(ArgumentValueError, match="no such backend"):
        rl.compile(lambda x: x, backend="inductr")


def test_the_setting_chooses_the_backend():
    with settings.override(backend="reference"):
        assert isinstance(compile_graph(_graph("  %0 = exp(%x) : f32[s0, 4]\n  return %0")), ReferenceExecutable)


# Graphs run call by call.


def _graph(body: str, parameters: str = "%x: f32[s0, 4]") -> Graph:
    return parse_graph(f"g({parameters}) {{\n  size s0 = 3\n{body}\n}}", OPERATORS)


@pytest.mark.parametrize("backend", ["rushlight", "reference"])
def test_strides_that_no_size_tells_are_left_to_the_caller(backend: str):
    builder = GraphBuilder()
    scope = Scope()
    size, stride = (scope.symbol() for _ in range(2))
    node = builder.parameter("x", TensorType((1,), float32, strides=(stride,)))
    rest = builder.parameter("y", TensorType((size,), float32))
    executable = compile_graph(builder.graph([OPERATORS["alias"](node), OPERATORS["neg"](rest)]), backend)
    assert executable.infer_outputs([(1,), (5,)]) == (((1,), None), ((5,), (1,)))


def _launched(executable: Any, *inputs: np.ndarray) -> list[np.ndarray]:
    layouts = executable.infer_outputs([array.shape for array in inputs])
    outputs = [
        np.empty(shape, type_.dtype.numpy) for type_, (shape, _) in zip(executable.output_types, layouts, strict=True)
    ]
    types = (*executable.input_types, *executable.output_types)
    kept = [
        descriptor.describe(
            array.ctypes.data, type_.dtype.code, array.shape, [step // array.itemsize for step in array.strides]
        )
        for array, type_ in zip((*inputs, *outputs), types, strict=True)
    ]
    executable.launch([address for _, address in kept], 0)
    return outputs


X = np.arange(12, dtype=np.float32).reshape(3, 4) / 7


def test_one_call_is_one_native_executable():
    graph = _graph("  %0 = exp(%x) : f32[s0, 4]\n  return %0")
    assert isinstance(compile_graph(graph, "eager"), NativeExecutable)


def test_each_call_is_a_launch_and_views_are_none():
    graph = _graph(
        "  %0 = exp(%x) : f32[s0, 4]\n"
        "  %1 = transpose(%0) {dim0=0, dim1=1} : f32[4, s0] strides [1, 4]\n"
        "  %2 = neg(%1) : f32[4, s0] strides [1, 4]\n"
        "  return %2"
    )
    executable = compile_graph(graph, "eager")
    assert isinstance(executable, StepExecutable)
    assert sum([isinstance(step, ViewStep) for step in executable._steps]) == 1
    assert executable.summary.launches == 2  # two calls, the last of which writes to the memory of the result
    (found,) = _launched(executable, X)
    (fused,) = _launched(compile_graph(graph, "rushlight"), X)
    assert np.array_equal(found, fused)


def test_sizes_that_no_operand_shows_are_passed_along():
    graph = _graph(
        "  %0 = reshape(%x) {shape=[`4*s0`]} : f32[4*s0]\n"
        "  %1 = exp(%0) : f32[4*s0]\n"
        "  %2 = full(2.0) {size=[`4*s0`]} : f32[4*s0]\n"
        "  %3 = add(%1, %2, none) : f32[4*s0]\n"
        "  return %3"
    )
    (found,) = _launched(compile_graph(graph, "eager"), X)
    assert np.array_equal(found, _launched(compile_graph(graph, "rushlight"), X)[0])


@pytest.mark.parametrize("backend", ["eager", "rushlight", "reference"])
def test_inputs_that_exchange_their_values_are_written_at_the_end(backend: str):
    graph = _graph(
        "  %0 = neg(%x) : f32[s0, 4]\n  return %0\n  write %x <- %y\n  write %y <- %x",
        "%x: f32[s0, 4], %y: f32[s0, 4]",
    )
    x, y = X.copy(), X + 10
    (found,) = _launched(compile_graph(graph, backend), x, y)
    assert np.array_equal(found, -X)
    assert np.array_equal(x, X + 10) and np.array_equal(y, X)


def test_values_are_let_go_after_their_last_use():
    graph = _graph("  %0 = exp(%x) : f32[s0, 4]\n  %1 = neg(%0) : f32[s0, 4]\n  %2 = abs(%1) : f32[s0, 4]\n  return %2")
    executable = compile_graph(graph, "eager")
    assert isinstance(executable, StepExecutable)
    assert [len(over) for over in executable._last] == [1, 1, 1]
