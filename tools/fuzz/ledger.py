"""Which programs have been run: ranges of numbers by fuzzer and seed, in a JSON file that runs continue."""

from __future__ import annotations

import json
import os
from pathlib import Path


class Ledger:
    """Ranges `[first, end)` that are done, merged. Without a path nothing is kept."""

    def __init__(self, path: Path | None = None) -> None:
        self.path = path
        self.ranges: dict[str, list[list[int]]] = {}
        if path is not None and path.exists():
            self.ranges = json.loads(path.read_text(encoding="utf-8"))

    def done(self, fuzzer: str, seed: int) -> list[list[int]]:
        """The ranges of a seed, ascending."""
        return self.ranges.get(f"{fuzzer} {seed}", [])

    def total(self, fuzzer: str) -> int:
        """How many programs of a fuzzer have been run, over all seeds."""
        parts = [ranges for key, ranges in self.ranges.items() if key.split()[0] == fuzzer]
        return sum([end - first for ranges in parts for first, end in ranges])

    def next(self, fuzzer: str, seed: int, count: int) -> tuple[int, int]:
        """The first range of at most `count` numbers that have not been done."""
        first = 0
        for start, end in self.done(fuzzer, seed):
            if first < start:
                return first, min(first + count, start)
            first = max(first, end)
        return first, first + count

    def add(self, fuzzer: str, seed: int, first: int, end: int) -> None:
        """Notes a range as done, and writes the file."""
        merged: list[list[int]] = []
        for start, stop in sorted([*self.done(fuzzer, seed), [first, end]]):
            if merged and start <= merged[-1][1]:
                merged[-1][1] = max(merged[-1][1], stop)
            else:
                merged.append([start, stop])
        self.ranges[f"{fuzzer} {seed}"] = merged
        if self.path is not None:
            scratch = self.path.with_name(f"{self.path.name}.{os.getpid()}")
            scratch.write_text(json.dumps(self.ranges, indent=1) + "\n", encoding="utf-8")
            scratch.replace(self.path)
