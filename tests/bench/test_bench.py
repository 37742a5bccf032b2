"""Benchmarks: who is measured takes turns, the peak is a peak, and a peer runs the same text."""

import json
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import rushlight as rl
from rushlight.bench import peer
from rushlight.bench.cases import CASES
from rushlight.bench.contestants import Peer, Rushlight
from rushlight.bench.peak import FmaPeak, fma_loop
from rushlight.bench.timing import take_turns
from rushlight.support.errors import RushlightError


class Counting:
    """Says how long it takes, and when it was asked."""

    def __init__(self, name: str, seconds: float, asked: list[str]) -> None:
        self.name = name
        self.seconds = seconds
        self.asked = asked

    def prepare(self, case: str, threads: int) -> None:
        self.asked.append(f"{self.name} prepares {case} for {threads}")

    def sample(self, case: str, repeat: int) -> float:
        self.asked.append(self.name)
        return self.seconds * repeat


def test_contestants_take_turns():
    asked: list[str] = []
    two = [Counting("a", 2.0, asked), Counting("b", 1.0, asked)]
    samples = take_turns("gemm-1024", 4e9, 1e9, 3, two, rounds=3, threads=2)
    assert asked == ["a prepares gemm-1024 for 2", "b prepares gemm-1024 for 2", "a", "b", "b", "a", "a", "b"]
    assert samples.seconds == {"a": [6.0, 6.0, 6.0], "b": [3.0, 3.0, 3.0]}
    assert samples.ratio("a", "b") == 2.0
    record = samples.to_dict()
    assert record["flops"] == 4e9
    assert record["bytes"] == 1e9
    assert record["gflop_per_s"] == {"a": 4 / 6, "b": 4 / 3}


def test_every_case_states_its_work():
    assert {"gemm-1024", "gemm-2048", "demo-step"} <= set(CASES)
    for case in CASES.values():
        assert case.flops > 0
        assert case.bytes > 0
        assert case.family in ("ops", "models")


def test_we_run_a_case():
    contestant = Rushlight()
    contestant.prepare("softmax-4096x1024", rl.get_num_threads())
    assert 0 < contestant.sample("softmax-4096x1024", 1) < 60


def test_the_peak_is_above_what_products_reach():
    peak = FmaPeak()
    best = max(peak.sample(1) for _ in range(3))
    assert best > 1
    assert f"fma.v{peak.lanes}f32" in fma_loop(peak.lanes)
    assert fma_loop(8).count("call") == 64


def test_a_peer_that_is_not_there_is_an_error(tmp_path: Path):
    with pytest.raises(RushlightError) as caught:
        Peer(tmp_path / "python")
    assert caught.value.code == "A002"


def test_a_peer_without_torch_is_an_error(tmp_path: Path):
    broken = tmp_path / "python"
    broken.write_text("#!/bin/sh\nexit 3\n")
    broken.chmod(0o755)
    with pytest.raises(RushlightError, match="ended"):
        Peer(broken)


def test_a_peer_answers_over_pipes(tmp_path: Path):
    """Another interpreter reads the cases' text under another name: here ours, dressed up as torch."""
    (tmp_path / "torch.py").write_text(
        "import numpy\n__version__ = '0'\n"
        "rand = numpy.random.rand\n"
        "class Module: pass\n"
        "class nn: Module = Module; functional = None\n"
        "def set_num_threads(count): pass\n"
    )
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\nPYTHONPATH={tmp_path} exec {sys.executable} "$@"\n')
    python.chmod(0o755)
    contestant = Peer(python)
    try:
        assert (contestant.name, contestant.version) == ("torch", "0")
        contestant.prepare("gemm-1024", 1)
        assert 0 < contestant.sample("gemm-1024", 1) < 60
    finally:
        contestant.close()


def test_bench_prints_a_table_and_writes_samples(rushlight: Callable, tmp_path: Path):
    ended = rushlight("bench", "ops", "gemm-1024", "--rounds", "2", "--json", str(tmp_path / "ops.json"))
    assert ended.status == 0, ended.err
    assert "gemm-1024" in ended.out
    assert "of peak" in ended.out
    content = json.loads((tmp_path / "ops.json").read_text())
    case = content["cases"][0]
    assert case["flops"] == 2 * 1024**3
    assert len(case["samples_s"]["rushlight"]) == 2
    assert np.median(content["peak_gflop_per_s"]) > 1


def test_an_unknown_case_is_an_error(rushlight: Callable):
    ended = rushlight("bench", "models", "gemm-1024")
    assert ended.status == 1
    assert ended.err.startswith("error A002: ")
    assert "demo-step" in ended.err


def test_the_peers_script_needs_nothing_of_ours():
    text = Path(peer.__file__).read_text(encoding="utf-8")
    imports = [line for line in text.splitlines() if line.startswith(("import ", "from "))]
    assert not [line for line in imports if "rushlight" in line or "numpy" in line]
