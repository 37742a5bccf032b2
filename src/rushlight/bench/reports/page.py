"""A run as one page of HTML: a chart of bars for each case, and the tables. It needs nothing from elsewhere."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from html import escape

from rushlight.bench.records import Record
from rushlight.bench.reports.tables import Table, duration, machine_line, tables_of

STYLE = """
body { font: 15px/1.45 system-ui, sans-serif; margin: 2rem auto; max-width: 70rem; padding: 0 1rem; color: #222; }
table { border-collapse: collapse; font-size: 13px; display: block; overflow-x: auto; }
td, th { padding: 0.2rem 0.6rem; text-align: right; border-bottom: 1px solid #ddd; white-space: nowrap; }
td:first-child, th:first-child { text-align: left; }
.charts { display: flex; flex-wrap: wrap; gap: 1rem 2rem; }
figure { margin: 0; } figcaption { font-weight: 600; }
svg text { font: 12px system-ui, sans-serif; fill: #222; }
.bar { fill: #9db4c0; } .ours { fill: #d1495b; } .spread { stroke: #222; stroke-width: 1; }
.notes { font-size: 13px; color: #444; }
"""
LABELS, BARS, VALUES = 120, 240, 90  # widths of a chart's columns, in pixels
ROW, BAR = 20, 13


def as_html(records: Sequence[Record], tables: Callable[[Record], Sequence[Table]] = tables_of) -> str:
    """The page of some runs. It is well-formed XML too. Charts stand with the table of their cases' family."""
    parts = [
        "<!DOCTYPE html>",
        '<html lang="en"><head><meta charset="utf-8"/><title>Rushlight benchmarks</title>',
        f"<style>{STYLE}</style></head><body><h1>Rushlight benchmarks</h1>",
        "<p>Bars are medians of seconds for one call, shorter is better; the line is from the 10th to the 90th "
        "percentile. A contestant without a bar says why.</p>",
    ]
    for record in records:
        parts.append(f"<p>{escape(machine_line(record))}</p>")
        for table in tables(record):
            charts = [chart(case) for case in record.get("cases", []) if case["family"] == table.title]
            parts += [f"<h2>{escape(table.title)}</h2>", f'<div class="charts">{"".join(charts)}</div>', *shown(table)]
    return "\n".join([*parts, "</body></html>", ""])


def chart(case: Record) -> str:
    """Bars of one case."""
    entries = case["contestants"]
    longest = max([entry["p90_s"] for entry in entries.values() if "median_s" in entry], default=1.0)
    width, height = LABELS + BARS + VALUES, ROW * len(entries)
    rows = [row for number, name in enumerate(entries) for row in bar(name, entries[name], number * ROW, longest)]
    return (
        f"<figure><figcaption>{escape(case['case'])}</figcaption>"
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" role="img">{"".join(rows)}</svg>'
        "</figure>"
    )


def bar(name: str, entry: Record, top: int, longest: float) -> Iterator[str]:
    """A contestant's name, bar and time, or its status."""
    baseline, middle = top + BAR - 1, top + (BAR + 2) / 2
    yield f'<text x="{LABELS - 6}" y="{baseline}" text-anchor="end">{escape(name)}</text>'
    if "median_s" not in entry:
        reason = escape(entry.get("reason", "not timed"))
        yield f'<text x="{LABELS}" y="{baseline}">{escape(entry["status"])}<title>{reason}</title></text>'
        return
    width, low, high = (BARS * entry[key] / longest for key in ("median_s", "p10_s", "p90_s"))
    kind = "ours" if name.startswith("rushlight") else "bar"
    yield f'<rect class="{kind}" x="{LABELS}" y="{top + 1}" width="{width:.1f}" height="{BAR}"/>'
    ends = f'x1="{LABELS + low:.1f}" x2="{LABELS + high:.1f}" y1="{middle}" y2="{middle}"'
    yield f'<line class="spread" {ends}/>'
    yield f'<text x="{LABELS + max(width, high) + 6:.1f}" y="{baseline}">{escape(duration(entry["median_s"]))}</text>'


def shown(table: Table) -> Iterator[str]:
    """A table and its notes."""
    head, *rows = table.rows
    yield "<table><tr>" + "".join([f"<th>{escape(text)}</th>" for text in head]) + "</tr>"
    for row in rows:
        yield "<tr>" + "".join([f"<td>{escape(text)}</td>" for text in row]) + "</tr>"
    yield "</table>"
    yield '<div class="notes">' + "".join([f"<p>{escape(note)}</p>" for note in table.notes]) + "</div>"
