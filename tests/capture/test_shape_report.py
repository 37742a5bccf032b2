"""What `shape_report` says of compiled functions: sizes, guards, asserts, and what further promises would unlock."""

from __future__ import annotations

import gc
import inspect
from pathlib import Path
from typing import Any

import pytest

import rushlight as rl
from rushlight.build import native
from rushlight.capture import explain_entries
from rushlight.compiler import mark_dynamic, mark_unbacked, shape_report
from rushlight.compiler.sizes import GraphShapes
from rushlight.nn import functional
from rushlight.support import settings
from tensors import data, same


def graph_of(compiled: Any) -> GraphShapes:
    (graph,) = shape_report(compiled).functions[0].graphs
    return graph


def unbacked(*shape: int, dim: int = 0) -> Any:
    x = data(*shape)
    mark_unbacked(x, dim)
    return x


def branching(x: Any, y: Any, n: int) -> Any:
    if x.shape[0] < 1024 and x.shape[1] == y.shape[0] * 2:
        return x[:n]
    return x


def test_symbols_say_where_they_come_from_and_what_is_known_of_them():
    x = data(3, 8)
    mark_dynamic(x, 1, min=4, max=64)
    compiled = rl.compile(branching)
    compiled(x, data(4), 2)
    assert [str(symbol) for symbol in graph_of(compiled).symbols] == [
        "a0_0: backed; here 3; >= 0; <= 1023; x.shape[0], dim 0 of argument 0",
        "a0_1: backed; here 8; == 2*a1_0; >= 4; <= 64; x.shape[1], dim 1 of argument 0, marked dynamic",
        "a1_0: backed; here 4; >= 2; <= 32; y.shape[0], dim 0 of argument 1",
        "s0: backed; here 2; n, an integer of the call",
    ]


def test_guards_have_the_users_line():
    compiled = rl.compile(branching)
    compiled(data(3, 8), data(4), 2)
    guards = graph_of(compiled).guards
    lines, first = inspect.getsourcelines(branching)
    assert [guard.condition for guard in guards[:2]] == ["a0_0 < 1024", "2*a1_0 == a0_1"]
    for guard in guards[:2]:
        assert guard.frame is not None and guard.frame.filename == __file__
        assert guard.frame.line == first + 1 and guard.frame.source == lines[1].strip()
    assert f"a0_0 < 1024, test_shape_report.py:{first + 1} in branching:  {lines[1].strip()}" in str(guards[0])


def test_sizes_that_values_tell_name_their_line():
    def told(x: Any, y: Any) -> Any:
        count = y.sum().item()
        rl.check(count >= 0)
        return rl.ones(count), x[x > 0] * 2, y.item()

    compiled = rl.compile(told)
    compiled(data(4), rl.tensor([2]))
    origins = {symbol.name: symbol.origin for symbol in graph_of(compiled).symbols}
    first = inspect.getsourcelines(told)[1]
    here = "test_shape_report.py:{} in told:"
    assert origins["u0"].startswith(f"item() of sum(), {here.format(first + 1)}  count = y.sum().item()")
    assert origins["u1"].startswith(f"a size of flatnonzero() of gt(), {here.format(first + 3)}")
    assert origins["u2"].startswith(f"item() of argument 1, {here.format(first + 3)}")


def test_numbers_of_modules_and_strides_are_named():
    class Counting(rl.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.steps = 0

        def forward(self, x: Any) -> Any:
            self.steps += 1
            return x + 1 if self.steps < 100 else x

    compiled = rl.compile(Counting())
    for _ in range(3):
        compiled(data(4, 6)[:, ::2])
    newest = shape_report(compiled).functions[0].graphs[-1]
    assert [symbol.origin for symbol in newest.symbols[2:]] == [
        "x.stride(0), stride 0 of argument 1",  # the module itself is argument 0
        "x.stride(1), stride 1 of argument 1",
        "(self.steps + 1), an integer of the call",
    ]


def test_asserts_are_those_of_users_of_operators_and_of_branches():
    def asserting(x: Any, flag: Any) -> Any:
        def halves(x: Any) -> Any:
            rl.check(x.shape[0] >= 2, "two rows")
            return x.sum()

        rl.check(x.shape[0] != 7)
        return x.reshape(-1, 2, 2), rl.cond(flag, halves, lambda x: x.sum(), (x,))

    compiled = rl.compile(asserting)
    compiled(unbacked(4, 4), rl.tensor(True))
    asserts = graph_of(compiled).asserts
    assert [(item.condition, item.reason) for item in asserts] == [
        ("a0_0 != 7", ""),
        ("a0_0*a0_1%4 == 0", ""),
        ("a0_0 >= 2", "two rows; where this branch or body runs"),
    ]
    sources = [item.frame.source for item in asserts if item.frame is not None]
    assert [source.partition("(")[0] for source in sources] == ["rl.check", "return x.reshape", "rl.check"]


def attended(q: Any, k: Any) -> Any:
    return functional.scaled_dot_product_attention(q, k, k, enable_gqa=True)


def viewed(x: Any, y: Any) -> Any:
    return x.mT.view(x.shape[1] * y.shape[0])


def convolved(x: Any, w: Any) -> Any:
    return functional.conv2d(x, w, groups=4)


def scattered(x: Any, index: Any, source: Any) -> Any:
    return x.scatter(0, index, source).sum()


def places(count: int) -> Any:
    index = rl.arange(count)
    mark_unbacked(index, 0)
    return index


def with_gradient(x: Any) -> Any:
    return x.requires_grad_(True)


LEFT_OPEN = {
    "attention": (attended, lambda: (unbacked(1, 4, 5, 8, dim=1), unbacked(1, 4, 5, 8, dim=1)), "repeated"),
    "convolution": (convolved, lambda: (data(1, 4, 8, 8), unbacked(4, 1, 3, 3)), "batch of products"),
    "gradient of scatter": (
        scattered,
        lambda: (unbacked(9), places(3), with_gradient(unbacked(3))),
        "zeros are padded behind",
    ),
}


@pytest.mark.parametrize("name", LEFT_OPEN)
def test_what_is_to_be_written_unlocks_what_was_left_open(name: str):
    function, arguments, cost = LEFT_OPEN[name]
    compiled = rl.compile(function)
    given = arguments()
    result = compiled(*given)
    (left,) = graph_of(compiled).undecided
    assert left.reason.startswith(f"{name}: ") and cost in left.reason and not left.late
    assert left.frame is not None and left.frame.function == function.__name__

    named = dict(zip(inspect.signature(function).parameters, given, strict=True))

    def promising(**tensors: Any) -> Any:
        exec(left.unlock, {"rl": rl, **tensors})
        return function(**tensors)

    unlocked = rl.compile(promising)
    assert same(unlocked(**named), result)
    assert left.condition in [item.condition for item in graph_of(unlocked).asserts]
    assert left.condition not in [item.condition for item in graph_of(unlocked).undecided]


def test_a_fact_in_the_specification_unlocks_what_was_left_open():
    spec = "f32[1, H, 5, 8], f32[1, G, 5, 8] where G >= 1"
    compiled = rl.compile(attended, specs=spec)
    compiled(data(1, 4, 5, 8), data(1, 4, 5, 8))
    (left,) = graph_of(compiled).undecided
    assert left.unlock == "G == H in the specification" and left.operation == "scaled_dot_product_attention"
    unlocked = rl.compile(attended, specs=f"{spec}, {left.unlock.removesuffix(' in the specification')}")
    unlocked(data(1, 4, 5, 8), data(1, 4, 5, 8))
    assert not graph_of(unlocked).undecided


def test_equal_questions_are_one_with_the_first_line_and_a_count():
    def twice(q: Any, k: Any) -> Any:
        first = attended(q, k)
        return first + functional.scaled_dot_product_attention(q * 2, k[..., :4, :], k[..., :4, :], enable_gqa=True)

    compiled = rl.compile(twice)
    compiled(unbacked(1, 4, 5, 8, dim=1), unbacked(1, 4, 5, 8, dim=1))
    (left,) = graph_of(compiled).undecided
    assert left.count >= 2 and left.frame is not None and left.frame.function == "attended"
    assert str(left).startswith(f"{left.count}x a0_1 == a1_1, asked by scaled_dot_product_attention (attention: ")
    assert str(left).endswith("\n  write rl.check(k.shape[1] == q.shape[1])")


def test_what_becomes_known_too_late_is_to_be_written_before():
    def late(q: Any, k: Any) -> Any:
        found = attended(q, k)
        rl.check(q.shape[1] == k.shape[1])
        return found

    def never(q: Any, k: Any) -> Any:
        found = attended(q, k)
        rl.check(q.shape[1] == 2 * k.shape[1])
        rl.check(k.shape[1] > 0)
        return found

    compiled, refused = rl.compile(late), rl.compile(never)
    compiled(unbacked(1, 4, 5, 8, dim=1), unbacked(1, 4, 5, 8, dim=1))
    refused(unbacked(1, 4, 5, 8, dim=1), unbacked(1, 2, 5, 8, dim=1))
    (left,) = graph_of(compiled).undecided
    assert left.late and str(left).endswith("before this line")
    assert not graph_of(refused).undecided  # the general path is the right one


def test_a_view_that_nobody_can_judge_says_so():
    compiled = rl.compile(viewed)
    x = data(4, 1)
    mark_unbacked(x, [0, 1])
    compiled(x, unbacked(4))
    assert [item.operation for item in graph_of(compiled).undecided] == ["view"] * len(graph_of(compiled).undecided)
    assert any("lie dense" in item.reason for item in graph_of(compiled).undecided)


def test_backed_sizes_leave_nothing_open():
    compiled = rl.compile(attended)
    compiled(data(1, 4, 5, 8), data(1, 4, 5, 8))
    assert not graph_of(compiled).undecided
    assert "a0_1 == a1_1" in [guard.condition for guard in graph_of(compiled).guards]


def test_the_cache_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    texts: list[str] = []
    with settings.override(cache_dir=str(tmp_path)):
        for _ in range(2):
            monkeypatch.setattr(native, "_loaded", {})
            compiled = rl.compile(attended)
            compiled(unbacked(1, 4, 5, 8, dim=1), unbacked(1, 4, 5, 8, dim=1))
            texts.append(str(shape_report(compiled)))
            cached = [executable.cached for entry in explain_entries(compiled) for executable in entry.executables]
            assert all(cached) == (len(texts) == 2)
    assert texts[0] == texts[1] and "left open:" in texts[0]


@pytest.mark.parametrize("specs", [None, ["f32[3]", "f32[B] where B >= 4"]])
def test_graphs_are_in_the_order_in_which_they_were_made(specs: Any):
    compiled = rl.compile(lambda x: x + 1 if x.shape[0] == 3 else x * 2, specs=specs)
    for count in (3, 5):
        compiled(data(count))
    (function,) = shape_report(compiled, len).functions
    first, second = [str(graph) for graph in function.graphs]
    assert ("a0_0 == 3" in first and "a0_0 != 3" in second) if specs is None else "B: unbacked; >= 4" in second


def test_constant_sizes_and_functions_without_graphs_are_said_to_be_so():
    fixed, waiting = rl.compile(branching, dynamic=False), rl.compile(branching)
    fixed(data(3, 8), data(4), True)
    assert str(graph_of(fixed)) == "all sizes are constants"
    assert str(shape_report(waiting)) == "branching: no graphs"
    assert shape_report(branching).functions == ()


def test_a_scope_lives_no_longer_than_what_needs_it():
    compiled, fixed = rl.compile(attended), rl.compile(attended, dynamic=False)
    compiled(unbacked(1, 4, 5, 8, dim=1), unbacked(1, 4, 5, 8, dim=1))
    fixed(data(1, 4, 5, 8), data(1, 4, 5, 8))
    gc.collect()
    alive = [entry.scope() is not None for item in (compiled, fixed) for entry in explain_entries(item)]
    assert alive == [True, False]


def test_the_report_is_text(capsys: pytest.CaptureFixture[str]):
    compiled = rl.compile(attended)
    compiled(unbacked(1, 4, 5, 8, dim=1), unbacked(1, 4, 5, 8, dim=1))
    print(shape_report(compiled))
    lines = capsys.readouterr().out.splitlines()
    assert lines[:3] == ["attended:", "  graph 1", "    sizes:"]
    assert [line.strip() for line in lines if line.endswith(":")][2:] == [
        "guards:",
        "asserted at run time:",
        "left open:",
    ]
