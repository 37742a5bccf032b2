"""Counts programs in this process: `python -m rushlight.bench.prtime.inside COUNTER EXTRA NAME…` prints their counts.

EXTRA is a share of work to add to each program, by which a test sees that more work is told.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence

from rushlight.bench.prtime.opcodes import COUNTERS
from rushlight.bench.prtime.programs import PROGRAMS
from rushlight.sym.expr import advance_serials

SERIALS = 1 << 16  # more than a program makes: its sums have trees of one shape in every process


def with_more(work: Callable[[], object], steps: int) -> Callable[[], None]:
    """The same work, and a loop of so many steps."""

    def both() -> None:
        work()
        for _ in range(steps):
            pass

    return both


def counts(counter: str, extra: float, names: Sequence[str]) -> dict[str, int]:
    """The count of each program, which has run before at the least size and at its own."""
    found: dict[str, int] = {}
    for name in names:
        program = PROGRAMS[name]
        program.prepare(program.least)()
        work = program.prepare(program.size)
        work()
        if extra:
            steps = round(extra * COUNTERS["bytecodes"]().count(work) / 2)
            work = with_more(work, steps)
        advance_serials(SERIALS)
        found[name] = COUNTERS[counter]().count(work)
    return found


def main() -> None:
    """Prints a JSON object."""
    counter, extra, *names = sys.argv[1:]
    sys.stdout.write(json.dumps(counts(counter, float(extra), names)) + "\n")


if __name__ == "__main__":
    main()
