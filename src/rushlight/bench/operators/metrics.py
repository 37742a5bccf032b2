"""What is shown of a measurement: metrics of variants, in tables and files."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from rushlight.bench.records import Record
from rushlight.bench.reports.tables import Notes, Table, duration, failure, missing

Value = float | str | None
MEGA = 1e6


class Metric(NamedTuple):
    """A column: its head, the value of a contestant's entry, how that is written, and whether it takes samples."""

    head: str
    about: str
    value: Callable[[Record], Value]
    text: Callable[[float], str]
    sampled: bool = True


def scaled(key: str, unit: float) -> Callable[[Record], Value]:
    """A number of an entry, in a unit."""
    return lambda entry: None if entry.get(key) is None else entry[key] / unit


METRICS: Mapping[str, Metric] = {
    "latency": Metric("latency", "median seconds of a call", scaled("median_s", 1.0), duration),
    "speedup": Metric("speed-up", "over the baseline, median of rounds", scaled("speedup", 1.0), "{:.2f}".format),
    "tflops": Metric("TFLOP/s", "operations a second", scaled("gflop_per_s", 1e3), "{:.3f}".format),
    "gbps": Metric("GB/s", "bytes a second, each moved once", scaled("gb_per_s", 1.0), "{:.1f}".format),
    "limit": Metric(
        "of limit", "share of the machine's limit: its peak or its bandwidth", scaled("limit", 1.0), "{:.0%}".format
    ),
    "accuracy": Metric(
        "accuracy", "1 where results are those of float64", scaled("accuracy", 1.0), "{:.0f}".format, sampled=False
    ),
    "difference": Metric(
        "difference", "from float64, as share of the largest value", scaled("difference", 1.0), "{:.1e}".format, False
    ),
    "compile_time": Metric(
        "compile", "seconds of a first call beyond others", scaled("compile_s", 1.0), duration, False
    ),
    "peak_memory": Metric(
        "peak MB", "memory that a call needs, with results", scaled("peak_bytes", MEGA), "{:.1f}".format, False
    ),
    "best_config": Metric(
        "configuration", "what was chosen by measurement", lambda entry: entry.get("configuration"), str, False
    ),
}
DEFAULT = ("latency", "speedup", "tflops", "gbps", "limit", "accuracy", "compile_time", "peak_memory")


def text_of(metric: Metric, entry: Record) -> str:
    """A cell."""
    value = metric.value(entry)
    return value if isinstance(value, str) else "" if value is None else metric.text(value)


def tables_of(record: Record, names: Sequence[str]) -> list[Table]:
    """A table for each operator and mode: a row for each shape and variant."""
    groups = dict.fromkeys([(case["operator"], case["mode"]) for case in record["cases"]])
    return [table_of(record, operator, mode, names) for operator, mode in groups]


def table_of(record: Record, operator: str, mode: str, names: Sequence[str]) -> Table:
    """One operator in one mode."""
    chosen = [METRICS[name] for name in names]
    rows = [["shape", "variant", *[metric.head for metric in chosen]]]
    notes = Notes()
    for case in [case for case in record["cases"] if (case["operator"], case["mode"]) == (operator, mode)]:
        for name, entry in case["contestants"].items():
            said = "" if entry["status"] == "ready" else f" {failure(entry, notes)}"
            cells = [text_of(metric, entry) for metric in chosen]
            rows.append(["x".join(map(str, case["shape"])), f"{name}{said}", *cells])
    return Table(f"{operator}, {mode}", rows, [*notes.lines(), *missing(record)])


def as_csv(records: Sequence[Record]) -> str:
    """A line for each operator, mode, shape and variant, with all metrics. Seconds are SI, memory is MB."""
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(["operator", "mode", "shape", "variant", "status", *METRICS])
    for case in [case for record in records for case in record["cases"]]:
        for name, entry in case["contestants"].items():
            values = [metric.value(entry) for metric in METRICS.values()]
            shape = "x".join(map(str, case["shape"]))
            row = [case["operator"], case["mode"], shape, name, entry["status"]]
            writer.writerow([*row, *["" if value is None else value for value in values]])
    return file.getvalue()


def accurate(record: Record) -> bool:
    """Whether every variant that ran gives what is expected."""
    entries = [entry for case in record["cases"] for entry in case["contestants"].values()]
    return all(entry["status"] in ("ready", "absent") for entry in entries)
