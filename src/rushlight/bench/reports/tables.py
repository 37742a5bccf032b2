"""A run as a table: a row for each case, a column for each contestant, and notes on missing numbers."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import NamedTuple

from rushlight.bench.contestants import OURS
from rushlight.bench.records import Record

MANY = 20  # ratios that have a median worth a line
SLOW = 1.5
UNITS = ((1.0, "s"), (1e-3, "ms"), (0.0, "µs"))


class Table(NamedTuple):
    """Texts; the first row is the head."""

    title: str
    rows: list[list[str]]
    notes: list[str]


class Notes:
    """Numbered notes; the same reason has the same number."""

    def __init__(self) -> None:
        self.texts: list[str] = []

    def number(self, text: str) -> int:
        """The number of a note, from one."""
        if text not in self.texts:
            self.texts.append(text)
        return self.texts.index(text) + 1

    def lines(self) -> list[str]:
        """The notes with their numbers."""
        return [f"[{number}] {text}" for number, text in enumerate(self.texts, 1)]


def duration(seconds: float) -> str:
    """Three digits and a unit."""
    least, name = next(unit for unit in UNITS if seconds >= unit[0])
    value = seconds / (least or 1e-6)
    return f"{value:.{2 if value < 10 else 1 if value < 100 else 0}f} {name}"


def cell(entry: Record, notes: Notes) -> str:
    """The median and its spread, or why there is none."""
    if "median_s" not in entry:
        return failure(entry, notes)
    middle = entry["median_s"]
    return f"{duration(middle)} ±{(entry['p90_s'] - entry['p10_s']) / 2 / middle:.0%}"


def failure(entry: Record, notes: Notes) -> str:
    """How an entry without numbers ended, and the number of the note that says why."""
    return f"{entry['status']} [{notes.number(entry['reason'].splitlines()[0][:200])}]"


def contestants(record: Record) -> list[str]:
    """The contestants' names, in their order."""
    return list(record["contestants"])


def tables_of(record: Record) -> list[Table]:
    """A table for each family of cases, and those of first calls and of stages."""
    cases = record.get("cases", [])
    families = dict.fromkeys([case["family"] for case in cases])
    tables = [cases_table(record, [case for case in cases if case["family"] == name]) for name in families]
    further = {"starts": starts_table, "stages": stages_table}
    return [*tables, *[table(record) for key, table in further.items() if key in record]]


def cases_table(record: Record, cases: Sequence[Record]) -> Table:
    """Times of all contestants. Ours is also relative to the best peer's, and our rates to the machine's peak."""
    names = [name for name in contestants(record) if any(name in case["contestants"] for case in cases)]
    notes = Notes()
    rows = [["case", *names, "best peer", "ratio", "GFLOP/s", "of peak", "GB/s", "of copy"]]
    for case in cases:
        entries = case["contestants"]
        row = [case["case"], *[cell(entries[name], notes) if name in entries else "" for name in names]]
        best = case["best_peer"]
        ours = next((entries[name] for name in OURS if name in entries), {})  # eager calls: where both are asked for
        row += [best or "", f"{case['ratios'][best]:.2f}" if best in case["ratios"] else ""]
        if "median_s" in ours:
            row += [f"{ours['gflop_per_s']:.1f}", f"{case['shares']['peak']:.0%}"]
            row += [f"{ours['gb_per_s']:.1f}", f"{case['shares']['copy']:.0%}"]
        rows.append(row + [""] * (len(rows[0]) - len(row)))
    if cases[0]["family"] == "overhead":  # rates say nothing about calls on next to nothing
        rows = [row[:-4] for row in rows]
    return Table(cases[0]["family"], rows, [*notes.lines(), *summary(cases), *missing(record)])


def summary(cases: Sequence[Record]) -> list[str]:
    """The median of many ratios to the best peer, and how many are above `SLOW`."""
    ratios = [case["ratios"][case["best_peer"]] for case in cases if case["best_peer"] in case["ratios"]]
    if len(ratios) < MANY:
        return []
    slow = sum([one > SLOW for one in ratios])
    return [f"{len(ratios)} cases: median ratio {statistics.median(ratios):.2f}, {slow} above {SLOW}"]


def starts_table(record: Record) -> Table:
    """Median wall and processor seconds until the first call ends. Imports alone come first."""
    names = contestants(record)
    notes = Notes()
    everything = [case["contestants"] for case in record["starts"]]
    imports = {name: [one for entries in everything for one in entries[name].get("import_s", ())] for name in names}
    texts = [duration(statistics.median(imports[name])) if imports[name] else "" for name in names]
    rows = [["first call", "cache", *names], ["import", "", *texts]]
    for case in record["starts"]:
        for state in ("off", "empty", "filled"):
            entries = [case["contestants"][name] for name in names]
            rows.append([case["case"], state, *[start_cell(entry, state, notes) for entry in entries]])
    return Table("compile-time", rows, [*notes.lines(), *missing(record)])


def stages_table(record: Record) -> Table:
    """Each stage of calls on few elements in nanoseconds, and its share of the call."""
    stages = record["stages"]
    totals: dict[str, float] = {}
    for call, _, ns in stages:
        totals[call] = totals.get(call, 0.0) + ns
    rows = [["call", "stage", "ns", "share"]]
    rows += [[call, name, f"{ns:,.0f}", f"{ns / totals[call]:.0%}"] for call, name, ns in stages]
    notes = ["Processor time in this process."] if stages else ["Without native calls there are no stages."]
    return Table("stages", rows, notes)


def start_cell(entry: Record, state: str, notes: Notes) -> str:
    """Seconds on the clock and of the processor, or the reason for their absence."""
    if entry["status"] != "ready":
        return cell(entry, notes)
    times = entry["states"].get(state)
    if times is None:
        return "no cache"
    wall, processor = (duration(statistics.median(times[key])) for key in ("wall_s", "cpu_s"))
    return f"{wall} (cpu {processor})"


def missing(record: Record) -> list[str]:
    """The missing contestants, and why they are missing."""
    return [f"{name} was not measured: {reason}" for name, reason in record["missing"].items()]


def machine_line(record: Record) -> str:
    """The machine and the versions of a run."""
    machine = record["machine"]
    versions = ", ".join([f"{name} {one['version']}" for name, one in record["contestants"].items() if one["version"]])
    ceilings = record.get("ceilings")
    line = f"{machine['processor']}, {machine['threads']} threads; {versions}"
    if ceilings:
        line += f"; peak of multiply-adds {ceilings['gflop_per_s']:.0f} GFLOP/s, copy {ceilings['gb_per_s']:.1f} GB/s"
    return line


def as_text(record: Record) -> str:
    """All tables with aligned columns."""
    lines = [machine_line(record)]
    for table in tables_of(record):
        lines += ["", *aligned(table)]
    return "\n".join(lines)


def aligned(table: Table) -> list[str]:
    """A table with aligned columns, and its notes."""
    widths = [max([len(row[column]) for row in table.rows]) for column in range(len(table.rows[0]))]
    lines: list[str] = []
    for row in table.rows:
        first, *rest = [(text.ljust if not column else text.rjust)(widths[column]) for column, text in enumerate(row)]
        lines.append("  ".join([first, *rest]).rstrip())
    return [*lines, *table.notes]


def as_markdown(record: Record) -> str:
    """All tables as Markdown shows them."""
    return "\n".join([machine_line(record), *[line for table in tables_of(record) for line in markdown_of(table)]])


def markdown_of(table: Table) -> list[str]:
    """A table and its notes as Markdown shows them."""
    head, *rows = table.rows
    lines = ["", "| " + " | ".join(head) + " |", "|---" + "|---:" * (len(head) - 1) + "|"]
    lines += ["| " + " | ".join(row) + " |" for row in rows]
    return [*lines, "", *[f"- {note}" for note in table.notes]]
