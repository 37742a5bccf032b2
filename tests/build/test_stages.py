"""Stages of the pipeline: printed, dumped, edited, read back."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rushlight as rl
from rushlight.build.native import _target, compile_native
from rushlight.build.pipeline import PIPELINE, run_passes
from rushlight.ir.graph import Graph
from rushlight.ir.graph_parse import parse_graph
from rushlight.ir.text import format_graph
from rushlight.ops.record import OPERATORS
from rushlight.support import settings
from rushlight.support.errors import CompileError

GRAPHS = ["00-captured.ir", "01-primitives.ir", "02-merged.ir"]
SCHEDULE = ["03-lowered.ir", "04-folded.ir", "05-fused.ir", "06-ordered.ir", "07-tiled.ir"]
STAGES = [*GRAPHS, *SCHEDULE, "08-kernels.ll", "08-kernels.s"]


def _step(x: Any) -> Any:
    return rl.exp(x) + 1.0


def _graph() -> Graph:
    text = "g(%x: f32[s0]) {\n  size s0 = 64\n  %0 = exp(%x) : f32[s0]\n  %1 = add(%0, 1.0, none) : f32[s0]\n"
    return parse_graph(text + "  return %1\n}", OPERATORS)


def _dumped(tmp_path: Path) -> Path:
    with settings.override(dump=str(tmp_path / "dump"), cache=False):
        compile_native(_graph())
    (folder,) = (tmp_path / "dump").iterdir()
    return folder


def _edited(tmp_path: Path, stage: str, change: Callable[[str], str]) -> Any:
    """The step compiled again with one stage of its dump changed, run on [0, 1]."""
    with settings.override(dump=str(tmp_path / "dump"), cache_dir=str(tmp_path / "cache")):
        x = rl.tensor([0.0, 1.0])
        assert np.array_equal(rl.compile(_step)(x).numpy(), _step(x).numpy())
    for folder in (tmp_path / "dump").iterdir():
        text = (folder / stage).read_text()
        if change(text) != text and (folder / "00-captured.ir").read_text().startswith("step("):
            (tmp_path / "edit" / folder.name).mkdir(parents=True)
            (tmp_path / "edit" / folder.name / stage).write_text(change(text))
    with settings.override(edit=str(tmp_path / "edit")):
        return rl.compile(_step)(x).numpy()


def test_the_pipeline_prints():
    assert [str(step) for step in PIPELINE] == [
        "capture -> 00-captured.ir",
        "decompose -> 01-primitives.ir",
        "merge equal calls -> 02-merged.ir",
        "lower -> 03-lowered.ir",
        "fold -> 04-folded.ir",
        "fuse -> 05-fused.ir",
        "order -> 06-ordered.ir",
        "tile -> 07-tiled.ir",
        "emit -> 08-kernels.ll",
    ]


def test_every_stage_is_dumped(tmp_path: Path):
    folder = _dumped(tmp_path)
    assert sorted(path.name for path in folder.iterdir()) == STAGES
    assert "%0 = exp(%x) : f32[s0]" in (folder / "00-captured.ir").read_text()
    assert "define" in (folder / "08-kernels.ll").read_text()
    assert ".text" in (folder / "08-kernels.s").read_text()


def test_dumped_graphs_read_back_equal(tmp_path: Path):
    folder = _dumped(tmp_path)
    for stage in GRAPHS:
        text = (folder / stage).read_text()
        assert format_graph(parse_graph(text, OPERATORS), facts=True) + "\n" == text


def test_the_pipeline_stops_at_a_stage():
    graph = run_passes(_graph(), _target("native"), until="01-primitives.ir")
    assert isinstance(graph, Graph) and "exp" in format_graph(graph)


@pytest.mark.parametrize("stage", GRAPHS)
def test_an_edited_graph_is_what_runs(tmp_path: Path, stage: str):
    found = _edited(tmp_path, stage, lambda text: text.replace("= exp(", "= neg("))
    assert found.tolist() == [1.0, 0.0]


def test_edited_code_is_what_runs(tmp_path: Path):
    def change(text: str) -> str:
        lines = text.splitlines(keepends=True)
        adds = [number for number, line in enumerate(lines) if "fadd" in line]
        for number in adds[-2:]:
            lines[number] = lines[number].replace("fadd", "fsub")
        return "".join(lines)

    assert not np.array_equal(_edited(tmp_path, "08-kernels.ll", change), _step(rl.tensor([0.0, 1.0])).numpy())


def test_edits_bypass_the_cache(tmp_path: Path):
    _edited(tmp_path, "01-primitives.ir", lambda text: text.replace("= exp(", "= neg("))
    again = rl.compile(_step)(rl.tensor([0.0]))
    assert again.item() == 2.0


def test_an_edit_that_does_not_parse_is_an_error(tmp_path: Path):
    with pytest.raises(CompileError, match="there is no operator 'expp'"):
        _edited(tmp_path, "01-primitives.ir", lambda text: text.replace("= exp(", "= expp("))


def test_an_edit_that_breaks_a_rule_is_an_error_even_unasked(tmp_path: Path):
    with settings.override(verify=False), pytest.raises(CompileError, match="dtypes float64 and float32"):
        _edited(tmp_path, "01-primitives.ir", lambda text: text.replace("= exp(%in0) : f32", "= exp(%in0) : f64"))


def test_an_edit_may_not_change_what_goes_in_and_out(tmp_path: Path):
    with pytest.raises(CompileError, match="the edited graph has other outputs"):
        _edited(tmp_path, "00-captured.ir", lambda text: text.replace("return %1", "return %1, %1"))
