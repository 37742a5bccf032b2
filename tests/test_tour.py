"""A tour: one small function from Python to machine code and back, to be read from top to bottom."""

import numpy as np
import pytest

import rushlight as rl
from rushlight.build.pipeline import run_passes
from rushlight.capture import explain_entries
from rushlight.ir.graph_parse import parse_graph
from rushlight.ir.kernel_text import plan_text
from rushlight.ir.text import format_graph
from rushlight.ops.record import OPERATORS
from rushlight.runtime.llvm import baseline_target
from rushlight.sym import Scope, floordiv, ge, guard_or_false, statically_known


def normalise(x: rl.Tensor) -> rl.Tensor:
    """Rows [m, n] divided by the sum of their positive elements."""
    h = x.relu()
    return h / h.sum(-1, keepdim=True)


def test_1_an_operator_is_one_record_with_its_rules_side_by_side():
    relu = OPERATORS["relu"]
    x = np.array([-1.0, 2.0], np.float32)
    assert relu.ref_rule(x).tolist() == [0.0, 2.0]  # the reference, in numpy
    assert relu(rl.tensor(x)).tolist() == [0.0, 2.0]  # a kernel, by the `lower` rule


def test_2_sizes_are_expressions_that_simplify_as_they_are_built():
    scope = Scope()
    n = scope.symbol("n", hint=8)
    assert floordiv(6 * n + 3, 6) == n
    assert statically_known(ge(n, 0)) and not statically_known(ge(n, 8))
    assert guard_or_false(ge(n, 8)) and len(scope.guards) == 1  # the example says so: a guard


def test_3_tracing_a_call_gives_a_graph_and_guards():
    compiled = rl.compile(normalise)
    compiled(rl.ones(3, 4))
    (entry,) = explain_entries(compiled)
    modes = ["grad mode", "dtype", "device", "autocast", "ranks"]
    assert [guard.kind for guard in entry.guards] == ["arguments", "arguments", "tensor", *modes]
    assert entry.text.startswith("def call(args, kwargs):"), "guards, descriptors and the native call: one function"
    compiled(rl.ones(5, 7))
    assert len(explain_entries(compiled)) == 1, "sizes are symbols: other sizes are no other graph"


GRAPH = """step(%in0: f32[s0, s1]) {
  size s0 = 3
  size s1 = 4
  %0 = relu(%in0) : f32[s0, s1]
  %1 = sum(%0) {dim=[-1], keepdim=true} : f32[s0, 1]
  %2 = div(%0, %1) : f32[s0, s1]
  return %2
}
"""


def test_4_a_graph_is_text_that_can_be_read_back():
    graph = parse_graph(GRAPH, OPERATORS)
    assert [call.op.name for call in graph.calls] == ["relu", "sum", "div"]
    assert format_graph(parse_graph(format_graph(graph), OPERATORS)) == format_graph(graph)


def test_5_the_scheduler_fuses_the_three_calls_into_one_kernel():
    plan = plan_text(run_passes(parse_graph(GRAPH, OPERATORS), baseline_target(), until="07-tiled.ir"))
    assert plan.count("kernel(") == 1 and "parallel" in plan and "vector" in plan
    assert plan.count("reduce(") == 1, "the sum of a row is one term of the element's expression"


def test_6_the_code_generator_writes_llvm_text():
    code = run_passes(parse_graph(GRAPH, OPERATORS), baseline_target())
    assert code.text.count("define void @kernel") == 1
    assert "fdiv" in code.text and "fast" not in code.text.split(), "no flag may change a bit"


def test_7_compiled_code_has_the_bits_of_eager_code():
    x = rl.randn(33, 17)
    assert rl.compile(normalise)(x).numpy().tobytes() == normalise(x).numpy().tobytes()


def test_8_the_backward_pass_is_compiled_with_the_forward_pass():
    eager, compiled = (rl.ones(2, 3).requires_grad_() for _ in range(2))
    normalise(eager).square().sum().backward()
    rl.compile(lambda x: normalise(x).square().sum())(compiled).backward()
    assert eager.grad is not None and compiled.grad is not None
    assert eager.grad.numpy().tobytes() == compiled.grad.numpy().tobytes()


def test_9_an_error_says_where_and_what_to_do():
    with pytest.raises(rl.RushlightError) as caught:
        rl.ones(8, 16) @ rl.ones(32, 4)
    assert caught.value.code == "S003"
    assert "test_tour.py" in str(caught.value) and "hint: transpose one operand with .mT" in str(caught.value)
