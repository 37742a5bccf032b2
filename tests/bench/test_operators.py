"""Benchmarks of operators: references, checks that find faults, sides, tables, and a sample of real runs."""

from __future__ import annotations

import csv
import json
import sys
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rushlight as rl
from rushlight.bench import copying
from rushlight.bench.checking import flat, widened
from rushlight.bench.hosts import pytorch as host_pytorch
from rushlight.bench.operators import serving
from rushlight.bench.operators.catalog import BENCHMARKS, find
from rushlight.bench.operators.measuring import expected_of, turn_of
from rushlight.bench.operators.metrics import METRICS, as_csv, tables_of
from rushlight.bench.operators.programs.tiled import TILED
from rushlight.bench.operators.record import BACKWARD, BOTH, FORWARD, PLANTED, Benchmark, Problem
from rushlight.bench.results import store

SMALL = list(BENCHMARKS.items())
STEP = 1e-6  # of finite differences in float64


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(copying, "BYTES", 1 << 20)
    monkeypatch.setattr(serving, "SMALLEST_FLUSH", 1 << 16)
    monkeypatch.setattr(serving, "LARGEST_FLUSH", 1 << 16)


def answered(problem: Problem, folder: Path, variant: str, mode: str = "eager") -> dict[str, Any]:
    """What a worker says of a variant, in this process."""
    inputs, expected = expected_of(problem)
    store(folder / "inputs.npz", inputs)
    store(folder / "expected.npz", {f"{number}": one for number, one in enumerate(expected)})
    host = host_pytorch.make_host("rushlight", mode, rl.get_num_threads())
    server = serving.OperatorServer(host, serving.Unknown())
    return server.answer({"do": "prepare", "case": problem.name, "folder": str(folder), "variant": variant})


@pytest.mark.row("10.5")
def test_there_are_at_least_forty_operators_with_small_shapes():
    assert len(BENCHMARKS) >= 40
    for one in BENCHMARKS.values():
        assert one.shapes["small"] and one.shapes["default"]
        assert all(len(shape) == len(one.sizes) for shapes in one.shapes.values() for shape in shapes)
        assert set(one.differentiated) <= set(one.inputs(one.shapes["small"][0]))


@pytest.mark.generated
@pytest.mark.row("10.5")
@pytest.mark.parametrize(("name", "benchmark"), SMALL)
def test_an_operator_is_right_and_a_planted_fault_is_found(name: str, benchmark: Benchmark, tmp_path: Path):
    shape = benchmark.shapes["small"][-1]
    problem = Problem(benchmark, shape, FORWARD)
    right = answered(problem, tmp_path, "eager")
    assert right["status"] == "ready" and right["accuracy"] == 1, right
    wrong = answered(problem, tmp_path, PLANTED)
    assert wrong["status"] == "wrong" and wrong["accuracy"] == 0
    if benchmark.differentiated:
        assert answered(Problem(benchmark, shape, BACKWARD), tmp_path, "eager")["accuracy"] == 1


@pytest.mark.generated
@pytest.mark.parametrize(("name", "benchmark"), [pair for pair in SMALL if pair[1].differentiated])
def test_gradients_that_are_expected_are_those_of_numpys_result(name: str, benchmark: Benchmark):
    """Along a random direction: gradients that are expected come from the baseline, results from numpy."""
    if benchmark.dtype != "float32":
        return
    problem = Problem(benchmark, benchmark.shapes["small"][-1], BOTH)
    inputs, (result, *gradients) = expected_of(problem)
    slope = inputs.pop(serving.SLOPE).astype(np.float64)
    wide, rng = list(widened(inputs).values()), np.random.default_rng(3)
    for at, gradient in zip(serving.differentiated(problem, inputs), gradients, strict=True):
        direction = rng.standard_normal(wide[at].shape)
        ends = []
        for sign in (1, -1):
            moved = list(wide)
            moved[at] = wide[at] + sign * STEP * direction
            ends.append((flat(benchmark.reference(*moved))[0] * slope).sum())
        along = (ends[0] - ends[1]) / (2 * STEP)
        size = np.sqrt((gradient**2).sum() * (direction**2).mean()) + 1e-3
        assert abs(along - (gradient * direction).sum()) < 1e-5 * size * max(1.0, gradient.size**0.5), at
    assert result.shape == slope.shape


@pytest.mark.generated("mode")
@pytest.mark.parametrize("mode", [FORWARD, BACKWARD, BOTH])
@pytest.mark.parametrize("name", ["rms_norm", "gemm", "jagged_sum", "cross_entropy"])
def test_compiled_variants_are_right_in_every_mode(name: str, mode: str, tmp_path: Path):
    benchmark = BENCHMARKS[name]
    for variant in ["compiled", *[key for key, one in benchmark.variants.items() if not one.needs]]:
        answer = answered(Problem(benchmark, benchmark.shapes["small"][-1], mode), tmp_path, variant, "compiled")
        assert answer["status"] == "ready", answer
        assert answer["compile_s"] >= 0 and answer["call_s"] > 0
        assert answer["peak_bytes"] is None or answer["peak_bytes"] >= 0


@pytest.mark.parametrize("name", TILED)
def test_kernels_of_the_tile_language_are_right(name: str, tmp_path: Path):
    benchmark = BENCHMARKS[name]
    answer = answered(Problem(benchmark, benchmark.shapes["small"][-1], BOTH), tmp_path, "tile", "compiled")
    assert answer["status"] == "ready" and answer["accuracy"] == 1, answer


def test_a_problem_is_found_by_its_name():
    problem = Problem(BENCHMARKS["gemm"], (5, 7, 3), BACKWARD)
    assert find(problem.name) == problem


def test_work_and_traffic_are_counted_by_mode():
    benchmark = BENCHMARKS["vector_add"]
    counts = {}
    for mode in benchmark.modes():
        inputs, expected = expected_of(Problem(benchmark, (8,), mode))
        case = Problem(benchmark, (8,), mode).to_case(inputs, expected)
        counts[mode] = (case.flops, case.bytes)
    assert counts == {FORWARD: (8.0, 96.0), BACKWARD: (16.0, 160.0), BOTH: (24.0, 192.0)}
    assert BENCHMARKS["embedding"].traffic(7, 4, 5) == 200.0


def test_what_empties_caches_is_no_part_of_a_sample_but_of_its_cost():
    class Chilly:
        name = "one"

        def ask(self, do: str, **values: object) -> dict[str, Any]:
            return {"status": "ready", "seconds": 0.5}

    assert turn_of(Chilly(), {"call_s": 0.25}, cold=True)[1:] == (0.75, "sample_cold")
    assert turn_of(Chilly(), {"call_s": 0.25}, cold=False)[1:] == (0.25, "sample")


def test_cold_samples_leave_out_what_empties_the_caches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    problem = Problem(BENCHMARKS["vector_add"], (37,), FORWARD)
    inputs, expected = expected_of(problem)
    store(tmp_path / "inputs.npz", inputs)
    store(tmp_path / "expected.npz", {"0": expected[0]})
    host = host_pytorch.make_host("rushlight", "eager", rl.get_num_threads())
    server = serving.OperatorServer(host, serving.Unknown())
    flushed: list[int] = []
    monkeypatch.setattr(serving.Flush, "__call__", lambda self: flushed.append(1))
    server.answer({"do": "prepare", "case": problem.name, "folder": str(tmp_path), "variant": "eager"})
    assert server.answer({"do": "chill"})["status"] == "ready"
    before = len(flushed)
    answer = server.answer({"do": "sample_cold", "repeat": 3, "warm": True})
    assert len(flushed) - before == 3 and 0 < answer["seconds"] < 1


def test_variants_are_timed_in_turns_and_shown(rushlight: Callable, tmp_path: Path):
    files = {key: tmp_path / f"found.{key}" for key in ("json", "csv", "html")}
    options = [word for key, path in files.items() for word in (f"--{key}", str(path))]
    ended = rushlight(
        "opbench", "rms_norm", "--shape", "5,8", "--only", "compiled,planted", "--mode", "forward,backward",
        "--rounds", "3", "--threads", "1", "--metrics", ",".join(METRICS), *options,
    )  # fmt: skip
    assert ended.status == 1, ended.err  # a planted fault is one
    assert "rms_norm, forward" in ended.out and "rms_norm, backward" in ended.out and "of limit" in ended.out
    record = json.loads(files["json"].read_text())
    entries = record["cases"][0]["contestants"]
    assert list(entries) == ["eager", "compiled", "planted"]
    assert entries["planted"]["status"] == "wrong" and entries["planted"]["accuracy"] == 0
    assert entries["eager"]["speedup"] == 1.0 and entries["compiled"]["speedup"] > 0
    assert len(entries["compiled"]["samples_s"]) == 3 and entries["compiled"]["limit"] > 0
    rows = list(csv.DictReader(files["csv"].read_text().splitlines()))
    assert [row["variant"] for row in rows] == ["eager", "compiled", "planted"] * 2
    assert rows[2]["accuracy"] == "0.0" and rows[2]["latency"] == ""
    page = files["html"].read_text().removeprefix("<!DOCTYPE html>")
    assert len(list(ElementTree.fromstring(page).iter("{http://www.w3.org/2000/svg}svg"))) == 2


@pytest.mark.row("10.6")
def test_hardware_that_is_not_here_is_refused_politely(rushlight: Callable):
    ended = rushlight("opbench", "gemm", "--splitk", "--list")
    assert ended.status == 0 and "decompose-k" in ended.out
    assert "tma-persistent (needs a GPU with a tensor memory accelerator (Hopper or newer))" in ended.out
    ended = rushlight("opbench", "gemm", "--only", "buffer-ops")
    assert ended.status == 2 and "buffer" in ended.err and "AMD" in ended.err


@pytest.mark.parametrize(
    "arguments",
    [("nothing",), ("gemm", "--shapes", "tiny"), ("gemm", "--metrics", "beauty"), ("gemm", "--shape", "5,7")],
)
def test_what_there_is_not_is_an_error(rushlight: Callable, arguments: tuple[str, ...]):
    ended = rushlight("opbench", *arguments)
    assert ended.status == 1 and ended.err.startswith("error A002: ")


@pytest.mark.parametrize("sides", [("--side-a", "compiled"), ("--side-a", "compiled", "--side-b", "nothing")])
def test_a_run_of_two_sides_has_two(rushlight: Callable, sides: tuple[str, ...]):
    assert rushlight("opbench", "gemm", "--shapes", "small", *sides).status == 2


@pytest.mark.row("10.5")
def test_a_against_a_is_one(rushlight: Callable, tmp_path: Path):
    """Of a call of some milliseconds; on a machine that others use too some runs are off."""
    out = tmp_path / "sides.json"
    ratios = []
    for _ in range(6):
        ended = rushlight(
            "opbench", "gemm", "--shape", "256,1024,512", "--side-a", "compiled", "--side-b", "compiled",
            "--rounds", "41", "--threads", "1", "--warm", "--json", str(out),
        )  # fmt: skip
        assert ended.status == 0, ended.err
        (case,) = json.loads(out.read_text())["cases"]
        ratios.append(case["contestants"]["B: compiled"]["speedup"])
        if abs(ratios[-1] - 1) <= 0.03:
            return
    pytest.fail(f"{ratios}")


def test_a_side_has_its_own_settings(rushlight: Callable):
    ended = rushlight(
        "opbench", "vector_add", "--shapes", "small", "--metrics", "accuracy",
        "--side-a", "compiled", "--side-b", "compiled,RUSHLIGHT_NO_SUCH=1",
    )  # fmt: skip
    assert ended.status == 1 and "RUSHLIGHT_NO_SUCH" in ended.out


def test_a_setting_of_a_side_may_be_a_path(rushlight: Callable, tmp_path: Path):
    ended = rushlight(
        "opbench", "vector_add", "--shapes", "small", "--metrics", "accuracy",
        "--side-a", f"eager,RUSHLIGHT_CACHE_DIR={tmp_path}/cache", "--side-b", "eager",
    )  # fmt: skip
    assert ended.status == 0, ended.err


def test_a_peer_that_is_missing_has_its_reason(rushlight: Callable):
    bare = Path(sys.base_prefix, "bin", "python3")
    ended = rushlight(
        "opbench", "vector_add", "--shapes", "small", "--metrics", "accuracy", "--peer-python", str(bare)
    )  # fmt: skip
    assert ended.status == 0, ended.err
    assert "torch.compile was not measured: no interpreter here has torch" in ended.out


def test_tables_have_a_row_for_each_variant_and_files_a_line():
    entry = {"status": "ready", "median_s": 2e-3, "speedup": 1.5, "accuracy": 1, "configuration": "mr=4"}
    late = {"status": "late", "reason": "no answer"}
    case = {"operator": "gemm", "mode": "forward", "shape": [2, 3], "contestants": {"eager": entry, "compiled": late}}
    record = {"cases": [case], "missing": {}}
    (table,) = tables_of(record, ["latency", "speedup", "accuracy", "best_config"])
    assert table.rows[1:] == [["2x3", "eager", "2.00 ms", "1.50", "1", "mr=4"], ["2x3", "compiled late [1]", *[""] * 4]]
    assert table.notes == ["[1] no answer"]
    first, second = list(csv.DictReader(as_csv([record]).splitlines()))
    assert first["latency"] == "0.002" and first["best_config"] == "mr=4" and second["status"] == "late"
