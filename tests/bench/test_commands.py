"""`rushlight bench` as a command."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from rushlight.bench import contestants, copying
from rushlight.bench.lengths import first_and_later

CASE = "add-2-tensors-of-4"


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    """The copy's size is of no interest here, and no peer but numpy is there."""
    monkeypatch.setattr(copying, "BYTES", 1 << 20)
    monkeypatch.setattr(contestants, "frameworks_of", lambda python: {"numpy": "2"})


def test_bench_prints_a_table_and_writes_samples(rushlight: Callable, tmp_path: Path):
    out = tmp_path / "overhead.json"
    ended = rushlight(
        "bench", "overhead", CASE, "--rounds", "2", "--peers", "numpy,tinygrad", "--threads", "1", "--json", str(out)
    )
    assert ended.status == 0, ended.err
    assert CASE in ended.out
    assert "peak of multiply-adds" in ended.out
    assert "tinygrad was not measured" in ended.out
    content = json.loads(out.read_text())
    assert content["machine"]["threads"] == 1
    entries = content["cases"][0]["contestants"]
    assert list(entries) == ["rushlight", "numpy"]
    assert len(entries["rushlight"]["samples_s"]) == len(entries["numpy"]["samples_s"]) == 2
    assert content["ceilings"]["gflop_per_s"] > 1


def test_what_was_written_can_be_shown_again(rushlight: Callable, tmp_path: Path):
    out, page = tmp_path / "overhead.json", tmp_path / "page.html"
    measured = rushlight("bench", "overhead", CASE, "--rounds", "1", "--peers", "numpy", "--json", str(out))
    shown = rushlight("bench", "show", str(out), "--html", str(page))
    assert shown.status == 0, shown.err
    assert shown.out == measured.out
    assert CASE in page.read_text()
    assert rushlight("bench", "show", str(page)).err.startswith("error A002: ")


def test_first_calls_run_in_new_processes(rushlight: Callable, tmp_path: Path):
    out = tmp_path / "starts.json"
    case = "mlp-784-256-10-step-64"
    arguments = ("--rounds", "1", "--peers", "jax.jit", "--threads", "1", "--json", str(out))
    ended = rushlight("bench", "compile-time", case, *arguments)
    assert ended.status == 0, ended.err
    entry = json.loads(out.read_text())["starts"][0]["contestants"]["rushlight"]
    states = entry["states"]
    assert list(states) == ["off", "empty", "filled"]
    spent = zip(states.values(), entry["import_s"], strict=True)  # one run each, in this order
    assert all(times["wall_s"][0] > seconds > 0 for times, seconds in spent)
    # A filled cache saves most of the work. The processor's seconds do not depend on what else runs.
    assert 0 < states["filled"]["cpu_s"][0] < 0.7 * states["empty"]["cpu_s"][0]


def test_first_calls_of_many_lengths_are_timed(rushlight: Callable):
    ended = rushlight("bench", "lengths", "demo-8-lengths", "--peers", "torch", "--threads", "1")
    assert ended.status == 0, ended.err
    head, row, note = ended.out.splitlines()
    assert "first calls" in head and row.startswith("rushlight ") and row.endswith(" 1.00")
    assert note == "torch was not measured: no interpreter here has torch"


def test_what_first_calls_cost_is_of_pairs():
    assert first_and_later([9.0, 1.0, 2.0, 3.0, 4.0, 4.0], 3) == (12.0, 5.5)


def test_bench_prints_markdown(rushlight: Callable):
    ended = rushlight("bench", "overhead", "--cases", CASE, "--rounds", "1", "--peers", "numpy", "--markdown")
    assert ended.status == 0, ended.err
    assert "| case | rushlight | numpy | best peer |" in ended.out


def test_an_unknown_case_is_an_error(rushlight: Callable):
    ended = rushlight("bench", "ops", "gemm-7")
    assert ended.status == 1
    assert ended.err.startswith("error A002: ")
    assert "gemm-1024" in ended.err and "scans/cumsum" in ended.err


def test_a_group_is_measured_among_eager_contestants(rushlight: Callable):
    ended = rushlight("bench", "ops", "joining", "--rounds", "1", "--budget", "1", "--peers", "rushlight-eager,numpy")
    assert ended.status == 0, ended.err
    rows = [line.split()[0] for line in ended.out.splitlines() if line.startswith(("case", "joining/"))]
    assert rows == ["case", "joining/cat", "joining/flip", "joining/transpose-copy"]
    assert "numpy" not in next(line for line in ended.out.splitlines() if line.startswith("case"))


def test_a_file_that_cannot_be_written_is_an_error(rushlight: Callable, tmp_path: Path):
    ended = rushlight("bench", "overhead", CASE, "--rounds", "1", "--peers", "numpy", "--json", str(tmp_path))
    assert ended.status == 1
    assert ended.err.splitlines()[-1].startswith("error P003: ") or "error P003: " in ended.err
