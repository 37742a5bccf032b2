"""From samples to a record, and from a record to tables."""

import json
import xml.etree.ElementTree as ElementTree
from dataclasses import replace
from typing import Any

import pytest

from rushlight.bench.cases_ops import gemm
from rushlight.bench.catalog import CASES
from rushlight.bench.reports.page import as_html
from rushlight.bench.reports.tables import as_markdown, as_text, duration
from rushlight.bench.results import Ceiling, Ceilings, measure, to_record

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
    seconds = {"rushlight": [0.01, 0.02], "torch": [0.02, 0.04], "peak": [0.005, 0.012], "copy": [0.001, 0.004]}
    case = to_record(CASE, {"a": "float32[2, 2]"}, entries, seconds)
    return {
        "machine": {"processor": "abacus", "python": "3", "threads": 2},
        "contestants": {name: {"version": "1.0", "interpreter": "python"} for name in entries},
        "missing": {"tinygrad": "no interpreter here has tinygrad"},
        "ceilings": {"gflop_per_s": 400.0, "gb_per_s": 20.0},
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
    assert case["shares"] == pytest.approx({"peak": 0.55, "copy": 0.15})
    assert list(case["contestants"]) == ["rushlight", "torch", "jax.jit", "numpy"]


def test_ceilings_do_the_work_of_each_case():
    asked: list[float] = []

    def rate(amount: float) -> float:
        asked.append(amount)
        return 4.0 * len(asked)

    ceilings = Ceilings(Ceiling("peak", rate), Ceiling("copy", rate))
    seconds = [turn.entrant.ask("sample")["seconds"] for turn in ceilings.turns_for(CASE)]
    assert asked == [CASE.flops, CASE.bytes]
    assert seconds == pytest.approx([CASE.flops / 4e9, CASE.bytes / 8e9])
    ceilings.turns_for(CASES["gemm-256"])
    assert ceilings.peak.amount == CASES["gemm-256"].flops
    record = ceilings.to_record()
    assert (record["gflop_per_s"], record["gb_per_s"]) == (4.0, 8.0)


def test_our_own_eager_calls_are_no_peer():
    ready = {"status": "ready"}
    times = {"rushlight": [2.0], "rushlight-eager": [1.0], "torch": [4.0]}
    case = to_record(CASE, {}, dict.fromkeys(times, ready), times)
    assert case["best_peer"] == "torch"
    assert list(case["ratios"]) == ["torch"]


def test_cases_for_some_are_measured_beside_these_and_summed_up(record: dict[str, Any]):
    eager = replace(CASE, name="scans/cumsum", family="eager", contestants=("rushlight-eager", "torch"))
    entrants = [Exact(name, "ready") for name in ("rushlight", "rushlight-eager", "torch")]
    ceilings = Ceilings(Ceiling("peak", lambda _: 1.0), Ceiling("copy", lambda _: 1.0))
    case = measure(replace(eager, make=gemm(2, 2, 2, "").make), entrants, ceilings, 2, 60.0, lambda text: None)
    assert (entrants[0].asked, case["ratios"], case["best_peer"]) == ([], {"torch": 1.0}, "torch")
    record["contestants"]["rushlight-eager"] = {"version": "1.0", "interpreter": "python"}
    record["cases"] = [{**case, "ratios": {"torch": number / 10}} for number in range(1, 22)]
    assert "| case | torch | rushlight-eager | best peer | ratio |" in as_markdown(record)
    assert "- 21 cases: median ratio 1.10, 6 above 1.5" in as_markdown(record)


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
        *("143.2", "55%", "0.8", "15%"),
    ]


def test_a_case_without_our_own_times_has_a_row(record: dict[str, Any]):
    case = record["cases"][0]
    case["contestants"] = {name: entry for name, entry in case["contestants"].items() if name == "torch"}
    case["ratios"] = {}
    assert case["case"] in as_text(record)


def test_a_record_is_json(record: dict[str, Any]):
    assert json.loads(json.dumps(record)) == record


def page_of(*records: dict[str, Any]) -> ElementTree.Element:
    """The page, parsed: it is well-formed after its first line."""
    kind, _, text = as_html(records).partition("\n")
    assert kind == "<!DOCTYPE html>"
    return ElementTree.fromstring(text)


def test_a_page_has_a_bar_for_everyone_who_has_times(record: dict[str, Any]):
    page = page_of(record)
    svg = "{http://www.w3.org/2000/svg}"
    widths = [float(bar.get("width", 0)) for bar in page.iter(f"{svg}rect")]
    assert len(widths) == 2
    assert widths[1] == pytest.approx(2 * widths[0], abs=0.2)
    assert [one.get("class") for one in page.iter(f"{svg}rect")] == ["ours", "bar"]
    assert [title.text for title in page.iter(f"{svg}title")] == ["result 0 is off", "ValueError: <no>\nmore"]
    assert "gemm-1024" in [cell.text for cell in page.iter("td")]


def test_a_page_needs_nothing_from_elsewhere(record: dict[str, Any]):
    text = as_html([record]).replace('xmlns="http://www.w3.org/2000/svg"', "")
    assert "http" not in text
    assert "<script" not in text


@pytest.fixture
def starts() -> dict[str, Any]:
    """First calls of three contestants."""
    off, empty = {"wall_s": [1.0, 3.0, 2.0], "cpu_s": [4.0]}, {"wall_s": [0.5], "cpu_s": [0.25]}
    entries = {
        "rushlight": {"status": "ready", "import_s": [0.1, 0.2, 0.3], "states": {"off": off, "empty": empty}},
        "jax.jit": {"status": "dead", "reason": "its process ended", "import_s": [], "states": {}},
    }
    return {
        "machine": {"processor": "abacus", "python": "3", "threads": 2},
        "contestants": {name: {"version": "", "interpreter": "python"} for name in entries},
        "missing": {"tinygrad": "no interpreter here has tinygrad"},
        "starts": [{"case": "demo-step", "contestants": entries}],
    }


def test_first_calls_are_a_table(starts: dict[str, Any]):
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in as_markdown(starts).splitlines()]
    assert ["import", "", "200 ms", ""] in rows
    assert ["demo-step", "off", "2.00 s (cpu 4.00 s)", "dead [1]"] in rows
    assert ["demo-step", "empty", "500 ms (cpu 250 ms)", "dead [1]"] in rows
    assert ["demo-step", "filled", "no cache", "dead [1]"] in rows
    assert ["- tinygrad was not measured: no interpreter here has tinygrad"] in rows


def test_runs_of_both_kinds_share_a_page(record: dict[str, Any], starts: dict[str, Any]):
    assert [head.text for head in page_of(record, starts).iter("h2")] == ["ops", "compile-time"]


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
    ceilings = Ceilings(Ceiling("peak", lambda _: 1.0), Ceiling("copy", lambda _: 1.0))
    case = measure(gemm(2, 2, 2, "gemm-1024"), [good, bad], ceilings, 4, 60.0, lambda text: None)
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
