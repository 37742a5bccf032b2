"""Figures of a service in the text format of Prometheus."""

from __future__ import annotations

import threading
from bisect import bisect_left
from collections import Counter
from collections.abc import Sequence

SECONDS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)
EXAMPLES = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)


class Histogram:
    """How often values were at most each of some bounds, and their sum."""

    def __init__(self, name: str, what: str, bounds: Sequence[float]) -> None:
        self._name, self._what, self._bounds = name, what, bounds
        self._counts = [0] * (len(bounds) + 1)
        self._sum = 0.0

    def observe(self, value: float) -> None:
        """Count a value."""
        self._counts[bisect_left(self._bounds, value)] += 1
        self._sum += value

    def lines(self) -> list[str]:
        """Return its lines."""
        lines, total = _head(self._name, self._what, "histogram"), 0
        for bound, count in zip([*map(str, self._bounds), "+Inf"], self._counts, strict=True):
            total += count
            lines.append(f'{self._name}_bucket{{le="{bound}"}} {total}')
        return [*lines, f"{self._name}_sum {self._sum:.6f}", f"{self._name}_count {total}"]


def _head(name: str, what: str, kind: str) -> list[str]:
    return [f"# HELP {name} {what}", f"# TYPE {name} {kind}"]


class Metrics:
    """Requests by status, their times, and the sizes and times of batches."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._statuses: Counter[int] = Counter()
        self._answers = Histogram(
            "rushlight_request_seconds", "Time from a request's last byte to its answer.", SECONDS
        )
        self._batches = Histogram("rushlight_batch_seconds", "Time of a batch in the model.", SECONDS)
        self._examples = Histogram("rushlight_batch_examples", "Examples of a batch.", EXAMPLES)

    def answered(self, status: int, seconds: float | None = None) -> None:
        """Count an answer; `seconds` are those of a prediction."""
        with self._lock:
            self._statuses[status] += 1
            if seconds is not None:
                self._answers.observe(seconds)

    def batch(self, examples: int, seconds: float) -> None:
        """Count a batch."""
        with self._lock:
            self._examples.observe(examples)
            self._batches.observe(seconds)

    def text(self, waiting: int) -> str:
        """Return all figures; `waiting` is the number of requests that wait now."""
        with self._lock:
            lines = _head("rushlight_requests_total", "Requests by the status of their answer.", "counter")
            for status, count in sorted(self._statuses.items()):
                lines.append(f'rushlight_requests_total{{status="{status}"}} {count}')
            lines += [*_head("rushlight_waiting", "Requests that wait.", "gauge"), f"rushlight_waiting {waiting}"]
            for histogram in (self._answers, self._batches, self._examples):
                lines += histogram.lines()
        return "\n".join(lines) + "\n"
