"""A run as a table: a row for each case, a column for each contestant, and notes on who has no number."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

Record = dict[str, Any]
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
        return f"{entry['status']} [{notes.number(entry['reason'].splitlines()[0][:200])}]"
    middle = entry["median_s"]
    return f"{duration(middle)} ±{(entry['p90_s'] - entry['p10_s']) / 2 / middle:.0%}"


def contestants(record: Record) -> list[str]:
    """The names of those who were measured, in their order."""
    return list(record["contestants"])


def family_tables(record: Record) -> list[Table]:
    """A table for each family of cases."""
    families = dict.fromkeys([case["family"] for case in record["cases"]])
    return [cases_table(record, [case for case in record["cases"] if case["family"] == name]) for name in families]


def cases_table(record: Record, cases: Sequence[Record]) -> Table:
    """Times of all, the best peer and our time as a share of its, and our rates as shares of what is possible."""
    names = contestants(record)
    ceilings = record["ceilings"]
    notes = Notes()
    rows = [["case", *names, "best peer", "ratio", "GFLOP/s", "of peak", "GB/s", "of copy"]]
    for case in cases:
        entries = case["contestants"]
        row = [case["case"], *[cell(entries[name], notes) if name in entries else "" for name in names]]
        best, ours = case["best_peer"], entries["rushlight"]
        row += [best or "", f"{case['ratios'][best]:.2f}" if best in case["ratios"] else ""]
        if "median_s" in ours:
            row += [f"{ours['gflop_per_s']:.1f}", f"{ours['gflop_per_s'] / ceilings['gflop_per_s']:.0%}"]
            row += [f"{ours['gb_per_s']:.1f}", f"{ours['gb_per_s'] / ceilings['gb_per_s']:.0%}"]
        rows.append(row + [""] * (len(rows[0]) - len(row)))
    missing = [f"{name} was not measured: {reason}" for name, reason in record["missing"].items()]
    return Table(cases[0]["family"], rows, [*notes.lines(), *missing])


def machine_line(record: Record) -> str:
    """Where and with what this was measured."""
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
    for table in family_tables(record):
        widths = [max([len(row[column]) for row in table.rows]) for column in range(len(table.rows[0]))]
        lines.append("")
        for row in table.rows:
            first, *rest = [
                (text.ljust if not column else text.rjust)(widths[column]) for column, text in enumerate(row)
            ]
            lines.append("  ".join([first, *rest]).rstrip())
        lines += table.notes
    return "\n".join(lines)


def as_markdown(record: Record) -> str:
    """All tables as Markdown shows them."""
    lines = [machine_line(record)]
    for table in family_tables(record):
        head, *rows = table.rows
        lines += ["", "| " + " | ".join(head) + " |", "|---" + "|---:" * (len(head) - 1) + "|"]
        lines += ["| " + " | ".join(row) + " |" for row in rows]
        lines += ["", *[f"- {note}" for note in table.notes]]
    return "\n".join(lines)
