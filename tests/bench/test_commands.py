"""`rushlight bench` as a command."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from rushlight.bench import copying

CASE = "add-2-tensors-of-4"


@pytest.fixture(autouse=True)
def _little_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """The copy's size is of no interest here."""
    monkeypatch.setattr(copying, "BYTES", 1 << 20)


def test_bench_prints_a_table_and_writes_samples(rushlight: Callable, tmp_path: Path):
    out = tmp_path / "overhead.json"
    ended = rushlight(
        "bench", "overhead", CASE, "--rounds", "2", "--peers", "numpy,tinygrad", "--threads", "1", "--json", str(out)
    )
    assert ended.status == 0, ended.err
    assert CASE in ended.out
    assert "of peak" in ended.out
    assert "tinygrad was not measured" in ended.out
    content = json.loads(out.read_text())
    assert content["machine"]["threads"] == 1
    entries = content["cases"][0]["contestants"]
    assert list(entries) == ["rushlight", "numpy"]
    assert len(entries["rushlight"]["samples_s"]) == len(entries["numpy"]["samples_s"]) == 2
    assert content["ceilings"]["gflop_per_s"] > 1


def test_bench_prints_markdown(rushlight: Callable):
    ended = rushlight("bench", "overhead", "--cases", CASE, "--rounds", "1", "--peers", "numpy", "--markdown")
    assert ended.status == 0, ended.err
    assert "| case | rushlight | numpy | best peer |" in ended.out


def test_an_unknown_case_is_an_error(rushlight: Callable):
    ended = rushlight("bench", "ops", "gemm-7")
    assert ended.status == 1
    assert ended.err.startswith("error A002: ")
    assert "gemm-1024" in ended.err


def test_a_file_that_cannot_be_written_is_an_error(rushlight: Callable, tmp_path: Path):
    ended = rushlight("bench", "overhead", CASE, "--rounds", "1", "--peers", "numpy", "--json", str(tmp_path))
    assert ended.status == 1
    assert ended.err.splitlines()[-1].startswith("error P003: ") or "error P003: " in ended.err
