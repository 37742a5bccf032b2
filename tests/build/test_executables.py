"""Executables: made of a graph and code that another process compiled, with a surface that stays as it is."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rushlight as rl
from rushlight.build.executable import Executable, NativeExecutable
from rushlight.build.native import compile_code, compile_native
from rushlight.ir.choice import BLOCKS, Blocks
from rushlight.ir.graph import Graph
from rushlight.ir.graph_parse import parse_graph
from rushlight.ir.text import format_graph
from rushlight.ops.record import OPERATORS
from rushlight.runtime import llvm
from rushlight.support import settings
from rushlight.tune.measure import Always, Prepared

TEXT = """f(%x: f32[s0, 40], %y: f32[40]) {
  size s0 = 6
  %0 = mul(%x, %y) : f32[s0, 40]
  %1 = softmax(%0) {dim=1} : f32[s0, 40]
  %2 = sum(%1) {dim=[0], keepdim=false} : f32[40]
  return %1, %2
}"""

LOADS = """
import sys
from pathlib import Path
import numpy as np
from rushlight.build.executable import Summary
from rushlight.build.native import load_code
from rushlight.ir.graph_parse import parse_graph
from rushlight.ops.record import OPERATORS
from rushlight.runtime import llvm
from rushlight.tune.measure import Prepared

folder = Path(sys.argv[1])
llvm.compile_object = None
graph = parse_graph((folder / "graph").read_text(), OPERATORS)
summary = Summary.from_json((folder / "summary").read_bytes())
executable = load_code(graph, (folder / "code").read_bytes(), summary)
prepared = Prepared(executable, [np.load(folder / f"{number}.npy") for number in range(2)])
prepared.run()
for number, result in enumerate(prepared.results):
    np.save(folder / f"result{number}.npy", result)
"""

SURFACE = [
    "cached",
    "committer",
    "infer_outputs",
    "input_types",
    "launch",
    "launcher",
    "once",
    "output_types",
    "reads",
    "short_entry",
    "summary",
    "work_of",
]


def graph_of(text: str) -> Graph:
    """The graph of a text."""
    return parse_graph(text, OPERATORS)


@pytest.mark.row("5.13")
def test_code_of_one_process_runs_in_another_with_the_same_bits(tmp_path: Path):
    graph = graph_of(TEXT)
    code, summary = compile_code(graph, Always())
    (tmp_path / "graph").write_text(format_graph(graph))
    (tmp_path / "code").write_bytes(code)
    (tmp_path / "summary").write_bytes(summary.to_json())
    random = np.random.default_rng(0)
    operands = [random.standard_normal(shape).astype(np.float32) for shape in ((11, 40), (40,))]
    for number, operand in enumerate(operands):
        np.save(tmp_path / f"{number}.npy", operand)
    subprocess.run([sys.executable, "-c", LOADS, str(tmp_path)], check=True)
    here = Prepared(compile_native(graph), operands)
    here.run()
    for number, result in enumerate(here.results):
        assert np.load(tmp_path / f"result{number}.npy").tobytes() == result.tobytes()


@pytest.mark.row("5.13")
def test_the_surface_of_executables_stays_as_it_is():
    made = compile_native(graph_of(TEXT))
    for kind in (Executable, type(made)):
        names = {name for one in kind.__mro__ for name in vars(one) if not name.startswith("_")}
        assert sorted(names - {"of_graph", "symbol", "asserts", "key"}) == SURFACE
    assert isinstance(made, NativeExecutable)
    assert (made.once, made.reads) == (None, ())


class Keyed(Always):
    """Blocks, for code that is cached under them."""

    def key(self, graph: Graph) -> str:  # pyright: ignore[reportIncompatibleMethodOverride] - the base caches nothing
        """The same for all."""
        return "keyed"


LONG = """f(%x: f32[65536]) {
  %0 = sum(%x) {dim=[0], keepdim=false} : f32[]
  return %0
}"""


@pytest.mark.row("6.5")
def test_choices_that_differ_in_splits_alone_have_code_of_their_own(monkeypatch: pytest.MonkeyPatch):
    graph, before = graph_of(LONG), settings.get()
    texts: list[str] = []
    inner = llvm.compile_object

    def noted(text: str, *rest: Any) -> bytes:
        texts.append(text)
        return inner(text, *rest)

    monkeypatch.setattr(llvm, "compile_object", noted)
    whole = Blocks(splits=False)
    x = np.random.default_rng(0).standard_normal(65536).astype(np.float32)
    results: list[bytes] = []
    kept: list[Prepared] = []
    with settings.override(cache=False):
        for blocks in (BLOCKS, whole, BLOCKS, whole):
            kept.append(Prepared(compile_native(graph, Keyed(None, blocks)), [x]))
            kept[-1].run()
            results.append(kept[-1].results[0].tobytes())
    assert len(texts) == len(set(texts)) == 2
    assert len(set(results)) == 1
    assert settings.get() == before


@pytest.mark.row("6.5")
def test_what_is_compiled_within_a_compilation_leaves_it_as_it_is(monkeypatch: pytest.MonkeyPatch):
    """A chooser that compiles and runs whole graphs while another is compiled."""
    x = rl.randn(12, 40)
    with settings.override(cache=False):
        plain, _ = compile_code(graph_of(TEXT), Always())
        seen: list[object] = []

        class Nested(Always):
            def prepare(self, graph: Graph, blocks: Blocks) -> None:
                before = settings.get()
                made = compile_native(graph_of(LONG), Always())
                Prepared(made, [np.ones(65536, np.float32)]).run()
                rl.compile(lambda x: (x * 2).sum())(x)
                seen.append(settings.get() is before or settings.get() == before)

        nested, _ = compile_code(graph_of(TEXT), Nested())
    assert seen == [True]
    assert nested == plain
