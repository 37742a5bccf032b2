"""From samples to a record, and from a record to tables."""

import json
from typing import Any

import pytest

from rushlight.bench.cases_ops import gemm
from rushlight.bench.catalog import CASES
from rushlight.bench.reports.tables import as_markdown, as_text, duration
from rushlight.bench.results import Ceilings, measure, to_record

CASE = CASES["gemm-1024"]


@pytest.fixture
def record() -> dict[str, Any]:
    """A run of four contestants, two of which have no times."""
    entries = {
        "rushlight": {"status": "ready"},
        "torch": {"status": "ready"},
        "jax.jit": {"status": "wrong", "reason": "result 0 is off"},
        "numpy": {"status": "error", "reason": "ValueError: <no>\nmore"},
    }
    case = to_record(CASE, {"a": "float32[2, 2]"}, entries, {"rushlight": [0.01, 0.02], "torch": [0.02, 0.04]})
    return {
        "machine": {"processor": "abacus", "python": "3", "threads": 2},
        "contestants": {name: {"version": "1.0", "interpreter": "python"} for name in entries},
        "missing": {"tinygrad": "no interpreter here has tinygrad"},
        "ceilings": Ceilings([200.0, 400.0], [10.0, 20.0]).to_record(),
        "cases": [case],
    }


def test_rates_and_ratios_are_derived(record: dict[str, Any]):
    case = record["cases"][0]
    ours = case["contestants"]["rushlight"]
    assert ours["median_s"] == pytest.approx(0.015)
    assert ours["gflop_per_s"] == pytest.approx(2 * 1024**3 / 0.015 / 1e9)
    assert ours["gb_per_s"] == pytest.approx(12 * 1024**2 / 0.015 / 1e9)
    assert case["best_peer"] == "torch"
    assert case["ratios"] == {"torch": 0.5}


def test_our_own_eager_calls_are_no_peer():
    ready = {"status": "ready"}
    times = {"rushlight": [2.0], "rushlight-eager": [1.0], "torch": [4.0]}
    case = to_record(CASE, {}, dict.fromkeys(times, ready), times)
    assert case["best_peer"] == "torch"
    assert list(case["ratios"]) == ["torch"]


def test_without_our_own_times_there_are_no_ratios():
    entries = {"rushlight": {"status": "dead", "reason": "bang"}, "torch": {"status": "ready"}}
    case = to_record(CASE, {}, entries, {"torch": [1.0]})
    assert (case["best_peer"], case["ratios"]) == ("torch", {})


def test_nobody_is_dropped(record: dict[str, Any]):
    for text in (as_text(record), as_markdown(record)):
        assert "wrong [1]" in text
        assert "[1] result 0 is off" in text
        assert "error [2]" in text
        assert "[2] ValueError: <no>\n" in text
        assert "tinygrad was not measured: no interpreter here has tinygrad" in text


def test_a_table_has_times_ratio_and_shares(record: dict[str, Any]):
    row = next(line for line in as_markdown(record).splitlines() if line.startswith("| gemm-1024"))
    assert [cell.strip() for cell in row.strip("|").split("|")] == [
        *("gemm-1024", "15.0 ms ±27%", "30.0 ms ±27%", "wrong [1]", "error [2]", "torch", "0.50"),
        *("143.2", "36%", "0.8", "4%"),
    ]


def test_a_record_is_json(record: dict[str, Any]):
    assert json.loads(json.dumps(record)) == record


def test_durations():
    assert [duration(seconds) for seconds in (2.5, 0.0123, 4.5e-6, 1e-9)] == ["2.50 s", "12.3 ms", "4.50 µs", "0.00 µs"]


class Exact:
    """An entrant that is ready or not, and takes as long as it says."""

    def __init__(self, name: str, status: str) -> None:
        self.name = name
        self.status = status
        self.asked: list[str] = []

    def ask(self, do: str, **values: Any) -> dict[str, Any]:
        self.asked.append(do)
        return {"status": self.status, "reason": "so it is", "call_s": 1.0, "seconds": 0.5}


def test_only_those_with_right_results_are_timed():
    good, bad = Exact("rushlight", "ready"), Exact("torch", "wrong")
    case = measure(gemm(2, 2, 2, "gemm-1024"), [good, bad], 4, 60.0, lambda text: None)
    assert good.asked == ["prepare", "sample", "sample", "sample", "sample", "forget"]
    assert bad.asked == ["prepare"]
    assert case["contestants"]["rushlight"]["samples_s"] == [0.5] * 4
    assert case["contestants"]["torch"] == {
        "status": "wrong",
        "reason": "so it is",
        "call_s": 1.0,
        "seconds": 0.5,
    }
    assert case["inputs"] == {"a": "float32[2, 2]", "b": "float32[2, 2]"}
