"""Graphs, kernels and plans that break one rule each: the checks say which."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from rushlight.ir.choice import ScheduleTarget
from rushlight.ir.dtype import DType, bool_, float32, float64, int64
from rushlight.ir.graph import RESULT, Call, Graph, OutputView, parameter
from rushlight.ir.graph_parse import parse_graph
from rushlight.ir.kernel import Axis, AxisKind, GemmKernel, Kernel, Loop, Store
from rushlight.ir.plan import Plan
from rushlight.ir.scalar import LANES, OPS, Buffer, Scalar, cast, constant, load, select
from rushlight.ir.type import TensorType
from rushlight.ir.verify import verify_graph
from rushlight.ir.verify_kernel import verify_kernel, verify_plan
from rushlight.ir.verify_memory import verify_memory
from rushlight.ops.record import OPERATORS
from rushlight.support.errors import CompileError
from rushlight.sym import Scope, axis_symbol
from rushlight.term import interned
from scheduling import schedule

MLP = """\
mlp(%x: f32[s0, 8], %w: f32[4, 8], %b: f32[4]) {
  size s0 = 16
  %0 = linear(%x, %w, %b) : f32[s0, 4]
  %1 = relu(%0) : f32[s0, 4]
  %2 = sum(%1) {dim=[0], keepdim=false} : f32[4]
  return %1, %2
  write %b <- %2
}"""


def _graph(text: str = MLP) -> Graph:
    return parse_graph(text, OPERATORS)


def _message(check: Callable[[Any], None], broken: Any) -> str:
    with pytest.raises(CompileError) as caught:
        check(broken)
    assert caught.value.code == "C015"
    return str(caught.value)


def test_a_sound_graph_is_accepted():
    verify_graph(_graph())


@pytest.mark.parametrize(("size", "strides"), [("0", "[1, 3]"), ("1", "[7, 1]")])
def test_strides_that_no_element_is_apart_may_differ(size: str, strides: str):
    text = MLP.replace("  size s0 = 16\n", "").replace("s0", size)
    verify_graph(_graph(text.replace(f"relu(%0) : f32[{size}, 4]", f"relu(%0) : f32[{size}, 4] strides {strides}")))


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("%1 = relu(%0) : f32[s0, 4]", "%1 = relu(%0) : f32[s0, 5]", "sizes 5 and 4 of dim 1"),
        ("%1 = relu(%0) : f32[s0, 4]", "%1 = relu(%0) : f32[2*s0, 4]", "sizes 2*s0 and s0 of dim 0"),
        ("%1 = relu(%0) : f32[s0, 4]", "%1 = relu(%0) : f64[s0, 4]", "dtypes float64 and float32"),
        ("%1 = relu(%0) : f32[s0, 4]", "%1 = relu(%0) : f32[s0, 4] strides [1, s0]", "strides 1 and 4 of dim 0"),
        ("%1 = relu(%0) : f32[s0, 4]", "%1 = relu(%0) : f32[s0, 4] weak", "only one is weak"),
        ("%1 = relu(%0) : f32[s0, 4]", "%1 = relu(%0) : f32[s0, 4] on meta", "devices meta and cpu"),
        ("%1 = relu(%0) : f32[s0, 4]", "%1 = relu(%0) : (f32[s0, 4], f32[4])", "the number of results is wrong"),
        ("write %b <- %2", "write %b <- %1", "overwritten by a value of another type: 2 and 1 dims"),
        ("write %b <- %2", "write %b <- %2\n  write %b <- %2", "the second one to it"),
        ("%b: f32[4]", "%b: frozen f32[4]", "a write is to no parameter or a frozen one"),
        ("write %b <- %2", "view 1 of output 1 [4] [1] + 0", "an output is a view of what is not there"),
        ("write %b <- %2", "view 2 of parameter 0 [4] [1] + 0", "an output is a view of what is not there"),
        ("write %b <- %2", "view 1 of parameter 3 [4] [1] + 0", "an output is a view of what is not there"),
    ],
)
def test_a_broken_graph_is_found(old: str, new: str, message: str):
    assert message in _message(verify_graph, _graph(MLP.replace(old, new)))


def test_a_graph_that_no_text_can_say_is_found():
    graph = _graph()
    relu = graph.calls[1]
    swapped = replace(graph, calls=(graph.calls[1], graph.calls[0], *graph.calls[2:]))
    assert "uses a value that no earlier call defines" in _message(verify_graph, swapped)
    assert "stands in the graph twice" in _message(verify_graph, replace(graph, calls=(*graph.calls, relu)))
    stranger = Call(relu.op, relu.operands, relu.attrs, relu.type)
    assert "an output is no tensor of the graph" in _message(verify_graph, replace(graph, outputs=(stranger,)))
    result = Call(RESULT, (relu,), (("index", 0),), relu.type)
    assert "there is no such result" in _message(verify_graph, replace(graph, calls=(*graph.calls, result)))
    twin = parameter("x", graph.parameters[1].type)
    twins = replace(graph, parameters=(*graph.parameters, twin))
    assert "or a second one of its name" in _message(verify_graph, twins)
    view = OutputView(0, ("parameter", 0), (4,), (), 0)
    assert "a view of what is not there" in _message(verify_graph, replace(graph, views=(view,)))


# Kernels: `out[i] = x[i] * 2` over n elements, with one thing wrong at a time.

SCOPE = Scope()
N = SCOPE.symbol("n", hint=64)
ROW, COLUMN = axis_symbol(N, "i"), axis_symbol(4, "j")
X, OUT = (Buffer(name, TensorType((N,), float32)) for name in ("x", "out"))
DOUBLE = load(X, ROW) * 2.0


def _kernel(body: Any = None, **parts: Any) -> Kernel:
    body = Loop(Axis(ROW, N, AxisKind.PARALLEL_VECTOR), (Store(OUT, ROW, DOUBLE),)) if body is None else body
    return replace(Kernel("k", (X, OUT), (N,), (body,)), **parts)


def _reduced(kind: str, element: DType, result: DType) -> Scalar:
    attrs = (("kind", kind), ("axes", (COLUMN,)), ("order", LANES))
    return cast(interned(Scalar, OPS["reduce"], (cast(DOUBLE, element),), attrs, result), float32)


def _store(value: Scalar, **parts: Any) -> Kernel:
    return _kernel(Loop(Axis(ROW, N), (replace(Store(OUT, ROW, value), **parts),)))


def test_a_sound_kernel_is_accepted():
    verify_kernel(_kernel())


@pytest.mark.parametrize(
    ("kernel", "message"),
    [
        (_kernel(sizes=()), "a size is no argument"),
        (_kernel(buffers=(OUT,)), "a buffer is no argument"),
        (_kernel(sizes=(N, COLUMN)), "a loop axis is an argument"),
        (_kernel(Store(OUT, 0, DOUBLE)), "an axis is used outside of its loop"),
        (_kernel(Loop(Axis(ROW, N), (Loop(Axis(ROW, N), (Store(OUT, ROW, DOUBLE),)),))), "run over the same axis"),
        (
            _kernel(Loop(Axis(COLUMN, 4), (Loop(Axis(ROW, N, AxisKind.PARALLEL_VECTOR), (Store(OUT, ROW, DOUBLE),)),))),
            "a parallel loop is not outermost",
        ),
        (_kernel(Loop(Axis(ROW, N, AxisKind.PARALLEL), (Store(OUT, ROW, DOUBLE),))), "no axis runs in lanes"),
        (
            _kernel(Loop(Axis(ROW, N, AxisKind.PARALLEL_VECTOR), (Loop(Axis(COLUMN, 4), (Store(OUT, ROW, DOUBLE),)),))),
            "a parallel loop in lanes has more than stores",
        ),
        (
            _kernel(
                Loop(
                    Axis(ROW, N, AxisKind.VECTOR),
                    (Loop(Axis(COLUMN, 4, AxisKind.VECTOR), (Store(OUT, ROW, DOUBLE),)),),
                )
            ),
            "a loop in lanes is inside another",
        ),
        (_store(cast(DOUBLE, float64)), "a value of another dtype is stored"),
        (_store(DOUBLE, combine="xor"), "there is no such way to combine"),
        (_store(_reduced("sum", float64, float32)), "only sums are of a wider dtype than their elements"),
        (_store(_reduced("max", float32, float64)), "only sums are of a wider dtype"),
        (_store(DOUBLE, offset=constant(1.0, float32)), "an offset is an int64"),
        (_store(DOUBLE, where=constant(1, int64)), "a mask is bool"),
        (_store(load(X, ROW, COLUMN)), "a load has one linear offset"),
        (_kernel(Loop(Axis(ROW, constant(1.5, float32)), (Store(OUT, ROW, DOUBLE),))), "a loop's bounds are integers"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_broken_kernel_is_found(kernel: Kernel, message: str):
    assert message in _message(verify_kernel, kernel)


def test_an_axis_that_one_use_does_not_bind_is_found():
    shared = load(X, COLUMN)
    value = select(constant(True, bool_), shared, shared + 1.0)
    assert "an axis is used outside of its loop" in _message(verify_kernel, _store(value))


# Plans: the schedule of the graph above, with one thing wrong at a time.


def _plan() -> Plan:
    return schedule(_graph(), ScheduleTarget(64))


def test_a_sound_plan_is_accepted():
    verify_plan(_plan())


def test_what_runs_once_is_checked_too():
    frozen = "g(%x: f32[s0, 64], %w: frozen f32[64, 64]) {\n%0 = matmul(%x, %w) : f32[s0, 64]\nreturn %0\n}"
    plan = schedule(_graph(frozen), ScheduleTarget(64))
    assert plan.once is not None
    verify_plan(plan)
    assert "what is made once is no input" in _message(verify_plan, replace(plan, inputs=plan.inputs[:-1]))
    lost = replace(plan.once, inputs=())
    assert "a buffer is read that is not written before" in _message(verify_memory, replace(plan, once=lost))


def _first(plan: Plan, **parts: Any) -> Plan:
    return replace(plan, launches=(replace(plan.launches[0], **parts), *plan.launches[1:]))


BROKEN_PLANS: dict[str, Callable[[Plan], Plan]] = {
    "there is no such kernel": lambda plan: _first(plan, kernel=99),
    "the number of arguments is not the kernel's": lambda plan: _first(
        plan, arguments=(*plan.launches[0].arguments, 1)
    ),
    "an argument is no buffer of the kernel's dtype": lambda plan: _first(
        plan, arguments=(7, *plan.launches[0].arguments[1:])
    ),
    "a size cannot be found at the call": lambda plan: replace(plan, symbols=()),
    "a size is looked for where no descriptor is": lambda plan: replace(
        plan, symbols=(replace(plan.symbols[0], descriptor=9),)
    ),
}


@pytest.mark.parametrize("message", BROKEN_PLANS)
def test_a_broken_plan_is_found(message: str):
    assert message in _message(verify_plan, BROKEN_PLANS[message](_plan()))


def test_a_product_that_lacks_what_makes_its_operand_is_found():
    made = "g(%x: f32[64, 64]) {\n%0 = neg(%x) : f32[64, 64]\n%1 = matmul(%x, %0) : f32[64, 64]\nreturn %1\n}"
    plan = schedule(_graph(made), ScheduleTarget(64))
    verify_plan(plan)
    (kernel,) = plan.kernels
    assert isinstance(kernel, GemmKernel)
    assert kernel.prologue is not None
    assert "a prologue is what makes b" in _message(verify_kernel, replace(kernel, prologue=None))
    bare = replace(kernel.prologue, buffers=kernel.prologue.buffers[::-1])
    assert "its first buffer is the product's" in _message(verify_kernel, replace(kernel, prologue=bare))
    words = plan.launches[0].arguments
    assert "the number of arguments is not the product's" in _message(verify_plan, _first(plan, arguments=words[:-1]))
    doubled = (words[0], words[0], *words[2:])
    assert "two operands, or a prologue" in _message(verify_plan, _first(plan, arguments=doubled))


def _chain() -> Plan:
    lines = [f"  %{n} = matmul(%{n - 1 if n else 'x'}, %x) : f32[64, 64]" for n in range(4)]
    return schedule(_graph("\n".join(["g(%x: f32[64, 64]) {", *lines, "  return %3", "}"])), ScheduleTarget(64))


def test_a_buffer_without_a_place_in_the_arena_is_found():
    assert "a buffer has no place in the arena" in _message(verify_plan, replace(_chain(), slots=()))
