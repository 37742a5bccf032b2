"""Graphs print as text and parse back equal."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from tests.ir.random_graphs import random_graphs

from rushlight.build.key import graph_key
from rushlight.build.native import _target
from rushlight.ir.graph import Graph
from rushlight.ir.graph_parse import parse_graph
from rushlight.ir.text import format_graph
from rushlight.ir.verify import verify_graph
from rushlight.ops.record import OPERATORS
from rushlight.support.errors import CompileError, RushlightError
from rushlight.sym import Scope

EVERYTHING = """\
step(%x: f32[s0, 256], %w: f32[256, 64] strides [1, 256], %m: bool[s0] on meta:1, %h: f64[] weak) {
  size s0 = 128 from 1 to 4096 step 8
  size s1 about 12
  given s0 - 16 >= 0
  check s0 - 2*s1 == 0
  %0 = linear(%x, %w, none) : f32[s0, 64]
  %1 = clamp(%0, none, -inf) @3 : f32[s0, 64]
  %2 = cat([%1, %0]) {dim=0} : f32[2*s0, 64]
  %3 = topk(%2) {k=`s1`, note="a \\"b\\"", span=slice[none, `s0//2`, 2], like=complex(0.0, -1.5)} : (f32[s1], i64[s1])
  %4 = result(%3) {index=1} : i64[s1]
  %5 = full(complex(0.0, -1.5)) {size=[`s0`, 4], value=nan, dtype=bf16, device=device cpu -1} : bf16[s0, 4]
  return %4, %5, 2, true
  write %x <- %1
  view 1 of parameter 0 [s0, 4] [256, 1] + 4*s0
}"""


class FakeOp:
    """An operator with a schema, for syntax that no real one shows."""

    def __init__(self, name: str, *attributes: str) -> None:
        self.name = name
        self.schema = type("Schema", (), {"attributes": [type("Named", (), {"name": one}) for one in attributes]})


FAKES = {
    op.name: op
    for op in (
        FakeOp("linear"),
        FakeOp("clamp"),
        FakeOp("cat", "dim"),
        FakeOp("topk", "k", "note", "span", "like"),
        FakeOp("full", "size", "value", "dtype", "device"),
        FakeOp("optional", "first", "second"),
    )
}


def test_text_with_everything_in_it_reads_back_equal():
    assert format_graph(parse_graph(EVERYTHING, FAKES), facts=True) == EVERYTHING


def test_facts_are_printed_on_demand_only():
    text = format_graph(parse_graph(EVERYTHING, FAKES))
    assert "size s0" not in text and "given" not in text and "%0 = linear" in text


def test_graphs_traced_under_other_guards_have_other_keys():
    text = "g(%x: f32[s0, 8]) {{\n size s0 = {}\n given s0 - 2 {} 0\n return %x\n}}"
    one, other, again = (parse_graph(text.format(*fact), {}) for fact in ((2, "=="), (3, "!="), (5, "!=")))
    assert format_graph(one) == format_graph(other)
    one_key, other_key, again_key = (graph_key(graph, _target("native")) for graph in (one, other, again))
    assert one_key != other_key == again_key


def test_facts_are_known_again():
    scope = Scope()
    parse_graph(EVERYTHING, FAKES, scope)
    assert scope.symbols["s0"].facts.hint == 128 and scope.symbols["s0"].facts.multiple_of == 8
    assert scope.bounds(scope.symbols["s0"]) == (16, 4096)
    assert scope.known(scope.guards[0].condition) is True
    assert scope.resolve(scope.symbols["s0"]) is scope.resolve(2 * scope.symbols["s1"])


def test_attributes_that_are_left_out_are_none():
    graph = parse_graph("g() {\n %0 = optional() {second=2} : f32[]\n return %0\n}", FAKES)
    assert graph.calls[0].attrs == (("first", None), ("second", 2))


def test_one_scope_gives_the_same_sizes():
    scope = Scope()
    one, two = (parse_graph("g(%x: f32[n, 2*n]) {\n return %x\n}", {}, scope) for _ in range(2))
    assert one.parameters[0].type.shape[1] is two.parameters[0].type.shape[1]


@given(random_graphs())
@settings(max_examples=60, deadline=None)
def test_random_graphs_read_back_equal_with_the_same_key(graph: Graph):
    verify_graph(graph)
    text = format_graph(graph, facts=True)
    again = parse_graph(text, OPERATORS)
    verify_graph(again)
    assert format_graph(again, facts=True) == text
    assert graph_key(again, _target("native")) == graph_key(graph, _target("native"))


CONTROL = """\
step(%in0: f32[s0, 4], %in1: f32[]) {
  size s0 = 3
  size s1
  size s2
  given s0 - 2 != 0
  %0 = gt(%in1, 0) : bool[]
  @0 true(%in0: f32[s0, 4]) {
    check s0 + s1 - 9 <= 0
    %0 = sum(%in0) {dim=[], keepdim=false} : f32[]
    @0 body(%in0: f32[4], %in1: f32[]) {
      %0 = sum(%in0) {dim=[], keepdim=false} : f32[]
      %1 = mul(%0, %in1) : f32[]
      return %1
    }
    %1 = scan([], [%in0], [%0]) {body=@0, types=[f32[s0]], length=`s0`, reverse=true, sizes=[]} : (f32[s0])
    %2 = result(%1) {index=0} : f32[s0]
    return %2
  }
  @1 false(%in0: f32[s0, 4]) {
    %0 = full(0.5) {size=[2]} : f32[2]
    return %0
  }
  %1 = cond(%0, [%in0]) {branches=[@0, @1], types=[f32[s2]], sizes=[`s2`]} : (f32[s2])
  %2 = result(%1) {index=0} : f32[s2]
  return %2
}"""


def test_graphs_that_calls_run_stand_before_them():
    graph = parse_graph(CONTROL, OPERATORS)
    assert format_graph(graph, facts=True) == CONTROL
    verify_graph(graph)
    true, false = graph.inner
    assert [inner.name for inner in (true, false, *true.inner)] == ["true", "false", "body"]
    call = graph.calls[-2]
    assert [symbol.facts.name for symbol in call.unbacked_symbols()] == ["s2"]
    assert {symbol.facts.name for symbol in call.symbols()} == {"s1", "s2"}  # s0 is a size of what it is given


def test_what_a_branch_runs_is_in_the_key():
    one, other = (parse_graph(CONTROL.replace("0.5", value), OPERATORS) for value in ("0.5", "0.25"))
    assert graph_key(one, _target("native")) != graph_key(other, _target("native"))


def test_a_graph_that_does_not_fit_its_call_is_noticed():
    graph = parse_graph(CONTROL.replace("return %0\n  }\n  %1", "return %in0\n  }\n  %1"), OPERATORS)
    with pytest.raises(RushlightError, match="a branch has other results"):
        verify_graph(graph)
    with pytest.raises(RushlightError, match="there is no graph @7 here"):
        parse_graph(CONTROL.replace("branches=[@0", "branches=[@7"), OPERATORS)


MALFORMED = {
    "g(%x: f32[2]) {\n  %0 = exp(%y) : f32[2]\n  return %0\n}": "%y is used before it is defined (line 2)",
    "g(%x: f32[2]) {\n  %0 = exq(%x) : f32[2]\n  return %0\n}": "there is no operator 'exq' (line 2)",
    "g(%x: f32[2]) {\n  %0 = exp(%x) {dim=1} : f32[2]\n  return %0\n}": "exp has no attribute 'dim' (line 2)",
    "g(%x: f32[2]) {\n  %x = exp(%x) : f32[2]\n  return %x\n}": "%x is defined twice (line 2)",
    "g(%x: f31[2]) {\n  return %x\n}": "expected a type such as f32[4], found 'f31' (line 1)",
    "g(%x: f32[2 {\n  return %x\n}": "(line 1)",
    "g(%x: f32[2]) {\n  return %x": "the text ends before the closing brace",
    "g(%x: f32[2]) {\n  return %x\n  %0 = exp(%x) : f32[2]\n}": "a call stands after `return` (line 3)",
    "g(%x: f32[2]) {\n  return %x\n}\nmore": "there is text after the closing brace (line 4)",
    "g(%x: f32[2]) {\n  %0 = exp(%x) : f32[2]\n  return %0\n  write %0 <- %x\n}": "only parameters are written to",
    "g(%x: f32[2]) {\n  size s0 = many\n  return %x\n}": "expected `size NAME = HINT",
    "g(%x: f32[2]) {\n  given s0 = 0\n  return %x\n}": "expected `given SIZE == 0`",
    "g(%x: f32[s0*]) {\n  return %x\n}": "a value is missing",
    "g(%x: f32[2]) {\n  %0 = exp(%x) : f32[2] f32[2]\n  return %0\n}": "unexpected 'f32' at the end of the line",
    "": "the text ends before the closing brace",
}


@pytest.mark.parametrize("text", MALFORMED, ids=list(MALFORMED.values()))
def test_malformed_text_is_an_error_with_its_line(text: str):
    with pytest.raises(CompileError) as caught:
        parse_graph(text, OPERATORS)
    assert caught.value.code == "C009" and MALFORMED[text] in str(caught.value)
