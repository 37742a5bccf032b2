"""The suite's table: accuracy and speed of each model."""

from __future__ import annotations

from collections.abc import Sequence

from rushlight.bench.records import Record
from rushlight.bench.reports.tables import Table, duration
from rushlight.bench.suite.running import Setup


def as_record(setup: Setup, machine: Record, cases: Sequence[Record]) -> Record:
    """A run as plain values."""
    return {"machine": machine, "setup": setup._asdict(), "contestants": {}, "cases": [*cases]}


def tables(record: Record) -> list[Table]:
    """One table; charts of the times stand with it."""
    rows = [["model", "accuracy", "graphs", "eager", "compiled", "speedup"]]
    for case in record["cases"]:
        times = [case["contestants"].get(kind, {}).get("median_s") for kind in ("eager", "rushlight")]
        shown = ["" if seconds is None else duration(seconds) for seconds in times]
        speedup = "" if case["speedup"] is None else f"{case['speedup']:.2f}"
        rows.append([case["case"], case["accuracy"], str(case["graphs"]), *shown, speedup])
    passed = sum([case["passes"] for case in record["cases"]])
    notes = [f"{passed} of {len(record['cases'])} pass; {_said(record['setup'])}"]
    return [Table("suite", rows, notes)]


def _said(setup: Record) -> str:
    parts = ["training" if setup["training"] else "inference", f"sizes: {setup['size']}"]
    parts += [f"autocast to {setup['amp']}"] if setup["amp"] else []
    parts += ["one graph for all sizes"] if setup["dynamic"] else []
    parts += ["compiled autograd"] if setup["compiled_autograd"] else []
    return ", ".join(parts)
