"""Planted mistakes of the compiler: graphs are cut down to them, and the pass that makes them is named."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import rushlight as rl
from rushlight.build import pipeline
from rushlight.cli.app import app
from rushlight.ir.graph import Graph
from rushlight.ir.graph_parse import parse_graph
from rushlight.ir.scalar import Scalar, apply
from rushlight.ops.record import OPERATORS
from rushlight.repro import Given, bisect, read, script_of, shrink
from rushlight.repro.running import by_calls, compiled, differing, digest
from rushlight.schedule.record import Schedule
from rushlight.support import settings
from rushlight.term import map_terms

FORMS = ("neg({0})", "add({0}, %x, none)", "sub(%x, {0}, none)")


def long_graph(calls: int, wrong_at: int) -> Graph:
    """A chain of calls over open sizes, with products in it, in which a `floor` is subtracted."""
    draw = np.random.default_rng(0)
    lines, last = [], "%x"

    def call(text: str) -> str:
        lines.append(f"  %{len(lines)} = {text} : f32[s0, 4]")
        return f"%{len(lines) - 1}"

    while len(lines) < calls:
        if wrong_at <= len(lines) < wrong_at + 3:
            last = call(f"sub({call(f'mul({last}, {last})')}, {call(f'floor({last})')}, none)")
        elif len(lines) % 40 == 30:
            last = call(f"matmul({last}, %w)")
        else:
            last = call(FORMS[int(draw.integers(len(FORMS)))].format(last))
    head = ["long(%x: f32[s0, 4], %w: f32[4, 4]) {", "  size s0 = 5"]
    return parse_graph("\n".join([*head, *lines, f"  return {last}", "}"]), OPERATORS)


def arrays() -> list[np.ndarray]:
    draw = np.random.default_rng(1)
    return [draw.standard_normal((rows, 4)).astype(np.float32) for rows in (5, 4)]


def wrong_term(term: Scalar, operands: tuple) -> Scalar:
    """Adds where a `floor` is subtracted from a product."""
    if term.op.name == "sub" and [operand.op.name for operand in term.operands] == ["mul", "floor"]:
        return apply("add", *operands)
    return Scalar(term.op, operands, term.attrs, term.type)


def wrong_nodes(nodes: tuple) -> tuple:
    return tuple([node.with_body(node.axes, map_terms([node.body], wrong_term)[0], node.place) for node in nodes])


def wrong_fold(schedule: Schedule, context: object) -> Schedule:
    folded = pipeline.fold(schedule)
    return replace(folded, nodes=wrong_nodes(folded.nodes))


def wrong_fuse(schedule: Schedule, context: object) -> Schedule:
    fused = pipeline.fuse(schedule)
    return replace(fused, groups=tuple([replace(group, nodes=wrong_nodes(group.nodes)) for group in fused.groups]))


def wrong_merge(graph: Graph, context: object) -> Graph:
    """Takes the sum where the difference of a product and a `floor` is meant."""
    text = pipeline.format_graph(graph, facts=True)
    return parse_graph(text.replace("sub(%0, %1", "add(%0, %1"), OPERATORS)


@contextmanager
def planted(name: str, run: Callable[..., object]) -> Iterator[None]:
    """A pass of the pipeline that is another one, for code that is compiled meanwhile."""
    before = pipeline.PIPELINE
    changed = tuple([replace(step, run=run) if step.name == name else step for step in before])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pipeline, "PIPELINE", changed)
        patch.setattr("rushlight.repro.bisecting.PIPELINE", changed)
        yield


@pytest.mark.row("11.1")
def test_a_planted_mistake_in_200_calls_is_cut_down_to_three():
    graph = long_graph(200, wrong_at=120)
    assert len(graph.calls) >= 200
    by_calls(graph, arrays())  # the code of eager calls, made before the mistake
    assert not differing(compiled(graph, arrays()), by_calls(graph, arrays()))
    with planted("fold", wrong_fold):
        assert differing(compiled(graph, arrays()), by_calls(graph, arrays()))
        found = shrink(graph, arrays())
    assert sorted(call.op.name for call in found.graph.calls) == ["floor", "mul", "sub"]
    assert found.tried < 100 and [array.shape for array in found.arrays] == [(5, 4)]


def test_a_graph_that_is_right_is_not_shrunk():
    with pytest.raises(rl.RushlightError) as caught:
        shrink(long_graph(12, wrong_at=3), arrays())
    assert caught.value.code == "C043"


def test_parts_have_the_sizes_that_their_inputs_hide():
    text = """
    hidden(%x: f32[s0, s1]) {
      size s0 = 3
      size s1 = 4
      %0 = sum(%x) {dim=[0], keepdim=false} : f32[s1]
      %1 = exp(%0) : f32[s1]
      %2 = unsqueeze(%1) {dim=0} : f32[1, s1]
      %3 = expand(%2) {size=[`s0`, `s1`]} : f32[s0, s1] strides [0, 1]
      %4 = mul(%3, %3) : f32[s0, s1]
      return %4
    }
    """
    graph = parse_graph(text, OPERATORS)
    given = [np.arange(12, dtype=np.float32).reshape(3, 4) / 10]
    found = shrink(graph, given, lambda part, inputs: any(call.op.name == "expand" for call in part.calls))
    assert [call.op.name for call in found.graph.calls if call.op.name != "relayout"] == ["expand"]
    (result,) = compiled(found.graph, found.arrays)
    assert result.shape == (3, 4) and np.array_equal(result[0], result[2])


@pytest.mark.parametrize(
    ("name", "run"), [("merge equal calls", wrong_merge), ("fold", wrong_fold), ("fuse", wrong_fuse)]
)
def test_the_pass_that_makes_the_difference_is_named(name: str, run: Callable[..., object]):
    graph = long_graph(8, wrong_at=0)
    by_calls(graph, arrays())
    assert bisect(graph, arrays()) is None
    with planted(name, run):
        finding = bisect(graph, arrays())
    assert finding is not None and finding.step == name
    assert "differs" in str(finding)


def test_code_that_is_wrong_behind_the_schedule_is_named():
    graph = long_graph(8, wrong_at=0)
    by_calls(graph, arrays())

    def wrong_text(plan: object, context: object) -> object:
        made = emit(plan, context)
        return replace(made, text=made.text.replace("fsub", "fadd"))

    emit = pipeline.PIPELINE[-1].run
    with planted("emit", wrong_text):
        finding = bisect(graph, arrays())
    assert finding is not None and finding.step == "tile, emit or LLVM" and finding.value == "output 0"


@pytest.mark.parametrize(
    "program",
    [
        lambda x, w: (x @ w).softmax(-1),
        lambda x, w: rl.cat([x, w])[1:].cumsum(0).flip(1),
        lambda x, w: (x.unsqueeze(1) - w).square().sum(-1).sqrt(),
        lambda x, w: x.mean(0).expand(3, 4) + rl.where(x.sum(1) > 0, 1.0, 2.0)[:, None][:3],
        lambda x, w: x.index_add(0, rl.tensor([0, 2, 2, 1]), w).var(1),
        lambda x, w: rl.nn.functional.layer_norm(x, (4,)) * x.exp().sum(),
    ],
    ids=["attention", "join", "distances", "broadcast", "scatter", "norm"],
)
def test_stages_of_right_code_are_evaluated_to_the_bit(program: Callable[..., object], tmp_path: Path):
    rl.compiler.reset()
    with settings.override(repro=str(tmp_path)):
        rl.compile(program, fullgraph=True)(*[rl.from_numpy(array) for array in arrays()])
    for path in tmp_path.glob("*.py"):
        script = read(path)
        assert bisect(script.parsed, [given.array() for given in script.inputs]) is None
    assert list(tmp_path.glob("*.py"))


def test_long_loops_are_not_evaluated():
    text = "f(%x: f32[512, 512]) {\n  %0 = matmul(%x, %x) : f32[512, 512]\n  return %0\n}"
    graph = parse_graph(text, OPERATORS)
    with pytest.raises(rl.RushlightError) as caught:
        bisect(graph, [np.zeros((512, 512), np.float32)])
    assert caught.value.code == "C044"


def test_the_commands(tmp_path: Path):
    graph = long_graph(30, wrong_at=12)
    inputs = [Given.of(array, call.type.dtype, 0) for array, call in zip(arrays(), graph.parameters, strict=True)]
    path = tmp_path / "long.py"
    path.write_text(script_of(graph, inputs, digest(by_calls(graph, arrays()))).text())
    runner = CliRunner()
    assert runner.invoke(app, ["bisect", str(path)]).exit_code == 0
    assert runner.invoke(app, ["diff", str(path), str(path)]).output == "no difference\n"
    with planted("fold", wrong_fold):
        told = runner.invoke(app, ["shrink", str(path)])
        assert told.exit_code == 0 and told.output.startswith("3 of 30 calls"), told.output
        smaller = tmp_path / "long-shrunk.py"
        told = runner.invoke(app, ["bisect", str(smaller)])
    assert told.exit_code == 1 and told.output.startswith("fold: ")
    told = runner.invoke(app, ["diff", str(path), str(smaller)])
    assert told.exit_code == 1 and "--- long/00-captured.ir" in told.output
