"""Runs a fuzzer: `python -m tools.fuzz operators --seed 0 --count 1000 [--resume FILE]`.

Prints counts and reduced failures. The exit status is 1 where something was found.
"""

from __future__ import annotations

import argparse
import importlib
import sys
import time
import warnings
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol, cast

from rushlight.support import settings
from tools.fuzz.finding import Finding
from tools.fuzz.ledger import Ledger

FUZZERS = {
    "operators": "eager programs of operators against PyTorch",
    "views": "views and in-place writes, eager and compiled, against PyTorch",
    "functional": "views and in-place writes functionalised against themselves, bit for bit, and compiled too",
    "native": "native eager calls against those of Python, bit for bit, with gradients",
    "compiled": "compiled against eager, bit for bit, with gradients",
    "parts": "compiled in parts against eager, bit for bit, with gradients",
    "training": "whole training scripts, compiled in parts against eager, turn by turn",
    "hostile": "calls with hostile arguments: a value or a registered error",
    "files": "mutated files: what they hold, or a registered error",
}
"""The fuzzers: each is a module of this package with `generate` and `judge`."""

_CHUNK = 50  # programs between two notes in the ledger
_SHOWN = 20


class Fuzzer(Protocol):
    """What a module of a fuzzer has."""

    def generate(self, seed: int, number: int) -> Any:
        """The program of a seed and number; always the same."""
        ...

    def judge(self, program: Any, skipped: Counter[str]) -> Finding | None:
        """What is wrong with a program, reduced; counts the deviations that explain what differed."""
        ...


def fuzzer_named(name: str) -> Fuzzer:
    """The module of a fuzzer."""
    return cast(Fuzzer, importlib.import_module(f"tools.fuzz.{name}"))


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command; returns its exit status."""
    parser = argparse.ArgumentParser(prog="python -m tools.fuzz", description=__doc__)
    parser.add_argument("fuzzer", choices=FUZZERS)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--first", type=int, help="number of the first program; by default what the ledger says")
    parser.add_argument("--resume", type=Path, help="a ledger: goes on after what it has, and notes what was done")
    parser.add_argument("--quiet", action="store_true", help="one line for each finding, without its program")
    options = parser.parse_args(arguments)
    warnings.simplefilter("ignore")
    ledger = Ledger(options.resume)
    session = Session(options.fuzzer, options.seed, ledger, options.quiet)
    with settings.override(optimise=0):  # the same bits, sooner
        session.run(options.count, options.first)
    print(session.summary())
    return 1 if session.kinds else 0


class Session:
    """One run of a fuzzer over ranges of numbers."""

    def __init__(self, name: str, seed: int, ledger: Ledger, quiet: bool) -> None:
        self.name, self.seed, self.ledger, self.quiet = name, seed, ledger, quiet
        self.fuzzer = fuzzer_named(name)
        self.kinds: Counter[str] = Counter()
        self.skipped: Counter[str] = Counter()
        self.programs = 0
        self.started = time.monotonic()

    def run(self, count: int, first: int | None) -> None:
        """Runs `count` programs, those that the ledger lacks unless the first is given."""
        left = count
        while left > 0:
            span = min(left, _CHUNK)
            if first is None:
                start, end = self.ledger.next(self.name, self.seed, span)
            else:
                start, end = first + count - left, first + count - left + span
            programs = [self.fuzzer.generate(self.seed, number) for number in range(start, end)]
            many = getattr(self.fuzzer, "judge_many", None)
            found = (
                [self.fuzzer.judge(item, self.skipped) for item in programs]
                if many is None
                else many(programs, self.skipped)
            )
            for finding in found:
                self.note(finding)
            self.programs += end - start
            left -= end - start
            self.ledger.add(self.name, self.seed, start, end)

    def note(self, finding: Finding | None) -> None:
        """Counts and prints a finding; of each kind the first ones only."""
        if finding is None:
            return
        self.kinds[finding.kind] += 1
        if self.kinds[finding.kind] <= (1 if self.quiet else _SHOWN):
            program = finding.program
            number = f"{program.seed}/{program.number}"
            print(f"{number} {finding.kind}: {finding.detail[:300]}" if self.quiet else f"{finding}\n", flush=True)

    def summary(self) -> str:
        """Counts, as lines."""
        seconds = time.monotonic() - self.started
        found = f"{self.kinds.total()} findings" if self.kinds else "found nothing"
        lines = [f"{self.programs} programs of seed {self.seed} in {seconds:.0f} s: {found}"]
        lines += [f"  {count:6} {kind}" for kind, count in self.kinds.most_common()]
        lines += [f"  {count:6} deviations: {name}" for name, count in self.skipped.most_common()]
        if self.ledger.path is not None:
            lines.append(f"{self.ledger.total(self.name)} programs of {self.name} in {self.ledger.path}")
        return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
