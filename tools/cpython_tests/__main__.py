"""Runs CPython's own tests, natively and with their bodies interpreted and compiled.

`python -m tools.cpython_tests [--file dict ...] [--mode interpreted ...] [--causes] [--record] [--resume LEDGER]`. Each
file and mode has processes of their own, so that a test that hangs or crashes is a row and not the end, and a line in
the ledger when it has ended, so that a run goes on where another one stopped.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rushlight.testing import ledger
from tools.cpython_tests import report
from tools.cpython_tests.choice import FILES, are_installed
from tools.cpython_tests.worker import MODES, SECONDS

Row = dict[str, Any]
WORKER = [sys.executable, "-m", "tools.cpython_tests.worker"]


def rows_of(mode: str, file: str, chosen: list[str] | None, every: int = 1) -> dict[str, Row]:
    """How each test of a file ends in a mode, by name. A test that ends the process is `crashed`.

    Bytecodes are counted of one test in `every`.
    """
    found: dict[str, Row] = {}
    left = chosen
    while left is None or left:
        begun, running = _some_rows(mode, file, left, found, every)
        if running is None:
            break
        found[running] = {"outcome": "crashed", "text": f"the process ended with {begun}"}
        if left is None:  # natively: the names are known from the file alone
            left = report.names_of(file)
        left = [name for name in left if name not in found]
    return found


def _some_rows(
    mode: str, file: str, left: list[str] | None, found: dict[str, Row], every: int
) -> tuple[int, str | None]:
    """Adds what a process has reported; its status, and the test that it left unfinished."""
    limit = 60 + 60 * SECONDS * (300 if left is None else len(left))
    with subprocess.Popen(
        [*WORKER, mode, file, str(every)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as process:
        assert process.stdin is not None and process.stdout is not None
        json.dump(left, process.stdin)
        process.stdin.close()
        running = None
        for line in process.stdout:
            entry = json.loads(line)
            running = entry.get("begins")
            if running is None:
                found[entry.pop("name")] = entry
        status = process.wait(limit)
    return status, running


@dataclass(frozen=True)
class ModeRun:
    """How each test of a file ended in a mode, by name. Bytecodes were counted of one test in `every`."""

    file: str
    mode: str
    every: int
    rows: dict[str, Row]


def results(file: str, modes: list[str], every: int, resumed: Path | None) -> dict[str, dict[str, Row]]:
    """The rows of a file by mode; only tests that pass natively are run in the other modes.

    What the ledger has is not run again.
    """
    runs = () if resumed is None else ledger.noted(resumed, ModeRun)
    known = {run.mode: run.rows for run in runs if run.file == file and run.every == every}
    found: dict[str, dict[str, Row]] = {}
    for mode in ("native", *modes):
        passed = [name for name, row in found.get("native", {}).items() if row["outcome"] == "passed"]
        if mode in known:
            found[mode] = known[mode]
            continue
        found[mode] = rows_of(mode, file, None if mode == "native" else passed, every)
        if resumed is not None:
            ledger.note(resumed, asdict(ModeRun(file, mode, every, found[mode])))
    return found


def failures(file: str, found: dict[str, dict[str, Row]]) -> Iterator[tuple[str, str]]:
    """The tests of a file that fail in a mode, and each one's cause."""
    for mode, rows in found.items():
        for name, row in rows.items():
            if mode != "native" and row["outcome"] != "passed":
                yield f"{file} {name} {mode}: {row['outcome']}", f"{mode}: {report.cause(row['text'])}"


def natively(found: dict[str, dict[str, Row]]) -> Counter[str]:
    """How many bytecodes CPython ran of a file, by mode and code."""
    counts: Counter[str] = Counter()
    for mode, rows in found.items():
        for row in rows.values():
            counts.update({f"{mode}: {what}": count for what, count in row.get("by", {}).items()})
    return counts


def main() -> int:
    """Runs the files that the command line names; with `--record`, the page's figures are replaced."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--file", action="append", choices=FILES)
    parser.add_argument("--mode", action="append", choices=[mode for mode in MODES if mode != "native"])
    parser.add_argument("--count-every", type=int, default=1, metavar="N", help="count bytecodes of one test in N")
    parser.add_argument("--causes", action="store_true", help="print the commonest errors and each test that fails")
    parser.add_argument("--record", action="store_true", help="write tools/cpython_tests/recorded.json")
    parser.add_argument("--resume", type=Path, metavar="LEDGER", help="go on where the run of this ledger stopped")
    given = parser.parse_args()
    if not are_installed():
        print("this Python is installed without its tests")
        return 0
    modes = given.mode or [mode for mode in MODES if mode != "native"]
    failing: list[tuple[str, str]] = []
    by_cpython: Counter[str] = Counter()
    for file in given.file or FILES:
        found = results(file, modes, given.count_every, given.resume)
        figures = report.figures(found)
        print(report.line(file, figures), flush=True)
        if given.record:
            report.record({file: figures}, given.count_every)
        failing += failures(file, found)
        by_cpython += natively(found)
    if given.causes:
        causes = Counter([cause for _, cause in failing])
        print(*[f"{count:4} {cause}" for cause, count in causes.most_common(60)], sep="\n")
        print(*[": ".join(each) for each in failing], sep="\n")
        print(
            "bytecodes that CPython ran:",
            *[f"{count:9} {what}" for what, count in by_cpython.most_common(30)],
            sep="\n",
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
