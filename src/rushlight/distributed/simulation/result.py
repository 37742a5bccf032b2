"""What a simulation tells: times, waiting, bytes and memory of each class of ranks, and a trace to look at."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from rushlight.distributed.simulation.classes import Class
from rushlight.distributed.simulation.timeline import Span, Timeline
from rushlight.support import lazy


class Summary(NamedTuple):
    """One class of ranks: seconds of computing, of moving data, and of waiting for others; bytes sent and memory."""

    ranks: tuple[int, ...]
    name: str
    compute: float
    communication: float
    waiting: float
    bytes_sent: int
    peak_bytes: int
    calls: dict[str, int]


class Simulation:
    """A simulated job. `seconds` is one step's time, or the whole program's where it passes fewer than two marks."""

    def __init__(self, world: int, timeline: Timeline, *, measured: bool) -> None:
        self.world = world
        self.seconds = timeline.now
        self.measured = measured
        self.spans: list[list[Span]] = [row.spans for row in timeline.rows]
        self.classes: list[Summary] = [_summary(row.owner, row.spans) for row in timeline.rows]
        self._owners = [row.owner for row in timeline.rows]

    @property
    def bytes_sent(self) -> int:
        """The bytes that all ranks send in the whole program."""
        return sum([one.bytes_sent * len(one.ranks) for one in self.classes])

    @property
    def imbalance(self) -> float:
        """How much longer than the mean of all ranks the class that computes longest does: 1 where all do as much."""
        mean = sum([one.compute * len(one.ranks) for one in self.classes]) / self.world
        return self.slowest.compute / mean if mean else 1.0

    @property
    def slowest(self) -> Summary:
        """The class that computes longest."""
        return max(self.classes, key=lambda one: one.compute)

    def by_line(self) -> dict[str, int]:
        """The bytes that all ranks send for each line of the program, the most first."""
        totals = Counter[str]()
        for owner in self._owners:
            for line, sent in owner.trace.ledger.by_line().items():
                totals[line] += sent * len(owner.ranks)
        return dict(totals.most_common())

    def save_trace(self, path: str | os.PathLike[str]) -> None:
        """Write the time line as a Chrome trace, which `chrome://tracing` and Perfetto show: a row for each class."""
        events: list[dict[str, object]] = []
        for number, (summary, spans) in enumerate(zip(self.classes, self.spans, strict=True)):
            events.append({"ph": "M", "pid": 0, "tid": number, "name": "thread_name", "args": {"name": summary.name}})
            for span in spans:
                times = {"ts": span.begin * 1e6, "dur": (span.end - span.begin) * 1e6}
                place = {"ph": "X", "pid": 0, "tid": number, "name": span.what}
                events.append({**place, **times, "args": {"call": span.text}})
        Path(path).write_text(lazy.json.dumps({"traceEvents": events}), encoding="utf-8")

    def __str__(self) -> str:
        costs = "measured on this machine" if self.measured else "assumed: `rushlight tune collectives` measures them"
        slowest = self.slowest
        lines = [
            f"{self.world} ranks in {len(self.classes)} classes: {_time(self.seconds)} (costs of collectives {costs})",
            f"imbalance {self.imbalance:.2f}: {slowest.name} computes {_time(slowest.compute)}",
        ]
        for one in self.classes:
            parts = [f"computes {_time(one.compute)}", f"moves data {_time(one.communication)}"]
            parts += [
                f"waits {_time(one.waiting)}",
                f"sends {_bytes(one.bytes_sent)}",
                f"holds {_bytes(one.peak_bytes)}",
            ]
            lines.append(f"  {one.name}: {', '.join(parts)}")
        return "\n".join(lines)


def _summary(owner: Class, spans: Sequence[Span]) -> Summary:
    totals = {"compute": 0.0, "wait": 0.0, "communication": 0.0}
    for span in spans:
        totals[span.what if span.what in totals else "communication"] += span.end - span.begin
    trace = owner.trace
    sent, calls = trace.ledger.bytes_sent, trace.ledger.counts()
    times = totals["compute"], totals["communication"], totals["wait"]
    return Summary(owner.ranks, str(owner), *times, sent, trace.peak_bytes, calls)


def _time(seconds: float) -> str:
    for unit, factor in (("s", 1.0), ("ms", 1e3), ("µs", 1e6)):
        if seconds * factor >= 1 or unit == "µs":
            return f"{seconds * factor:.3g} {unit}"
    raise AssertionError


def _bytes(count: float) -> str:
    for unit in ("B", "kB", "MB", "GB", "TB"):
        if count < 1000 or unit == "TB":
            return f"{count:.3g} {unit}"
        count /= 1000
    raise AssertionError
