"""Tracing programs with many sizes that only values tell: how it is measured, and that it is linear."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from rushlight.bench import cases_tracing, tracing
from rushlight.bench.checking import reference, worst_difference
from rushlight.bench.hosts import pytorch as host_pytorch
from rushlight.bench.records import Case
from rushlight.support import clock
from tools.ablate_sizes import TECHNIQUES

ROOT = Path(__file__).resolve().parent.parent.parent


def traced(case: Case) -> float:
    """Seconds of the processor's time that tracing took; the result is right."""
    host = host_pytorch.make_host("rushlight", "traced", 1)
    inputs = case.inputs()
    work = host.prepare(case, inputs)
    clock.reset()
    found = host.arrays(work())
    assert worst_difference(found, reference(case, inputs))[0] == 0
    return clock.spent_ms()["capture"] / 1e3


@pytest.mark.parametrize(
    ("case", "count"), [(cases_tracing.sum_items, 400), (cases_tracing.join_selected, 200)], ids=["items", "pieces"]
)
def test_tracing_is_linear_in_the_sizes_that_values_tell(case: Callable[[int], Case], count: int):
    traced(case(3))  # what is imported first is
    pairs: list[tuple[float, float]] = []
    while len(pairs) < 5 and min([twice / once for once, twice in pairs], default=9.0) >= 2.6:
        pairs.append((traced(case(count)), traced(case(2 * count))))  # other tests run at the same time
    assert min([once for once, _ in pairs]) < 1.0
    assert min([twice / once for once, twice in pairs]) < 2.6


def test_splitting_and_joining_is_near_linear():
    traced(cases_tracing.unbind_split_flip_cat(2, 3))
    pairs: list[tuple[float, float]] = []
    while len(pairs) < 5 and min([many / few for few, many in pairs], default=99.0) >= 4**1.3:
        few, many = [traced(cases_tracing.unbind_split_flip_cat(4, parts)) for parts in (16, 64)]
        pairs.append((few, many))
    assert min([many / few for few, many in pairs]) < 4**1.3
    assert min([many for _, many in pairs]) < 2.0


def test_lengths_add_up_to_the_tensor():
    inputs = cases_tracing.unbind_split_flip_cat(5, 7).inputs()
    assert inputs["counts"].shape == (5, 7)
    assert set(inputs["counts"].sum(1)) == {len(inputs["x"])} == {4 * 7}


def test_the_exponent_is_that_of_a_power():
    counts = [256, 512, 1024, 4096]
    assert tracing.exponent(counts, [3e-6 * count**1.5 for count in counts]) == pytest.approx(1.5)
    assert tracing.exponent(counts, [0.7] * 4) == pytest.approx(0.0)


def test_the_command_prints_times_and_why_there_are_none(rushlight: Callable, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(tracing, "frameworks_of", lambda python: {})
    monkeypatch.setattr(tracing, "BATCHES", (2, 4))
    ended = rushlight("bench", "unbind-split-flip-cat", "--iters=2", "--batch=3", "--rounds=1", "--peers", "--scaling")
    assert ended.status == 0, ended.err
    lines = ended.out.splitlines()
    ours, whole = [line.split() for line in lines if line.startswith("rushlight")]
    assert (ours[1], ours[2]) == ("traced", "6")
    assert (whole[1:3], whole[3]) == (["first", "call"], "6")
    assert any(line.startswith("LLVM ") for line in lines)
    assert [line.split()[:2] for line in lines[-3:-1]] == [["2", "4"], ["4", "8"]]
    assert lines[-1].startswith("exponent ")
    assert "torch.export was not measured: no interpreter here has torch" in lines


def test_a_peer_is_measured_where_it_is(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(tracing, "frameworks_of", lambda python: {"torch": "2"} if python == "elsewhere" else {})
    assert tracing.interpreter("torch", [Path("elsewhere")]) == "elsewhere"
    assert tracing.interpreter("torch", []) is None
    assert tracing.interpreter("rushlight", [Path("elsewhere")]) == sys.executable


def test_a_run_that_fails_says_why():
    found = tracing.run(tracing.TORCH, sys.executable, (1, 2), 1, 60.0)
    assert found.answers == []
    assert "torch" in found.problem
    assert tracing.as_table([found]).notes == [f"torch.export was not measured: {found.problem}"]


def test_techniques_that_are_switched_off_change_no_result():
    def ask(names: list[str]) -> str:
        line = [sys.executable, "-m", "tools.ablate_sizes", "--iters=2", "--batch=9", "--inside", *names]
        said = subprocess.run(line, check=True, capture_output=True, text=True, cwd=ROOT).stdout
        return json.loads(said)["digest"]

    assert ask(list(TECHNIQUES)) == ask([])
