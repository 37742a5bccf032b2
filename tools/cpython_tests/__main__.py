"""Runs CPython's own tests, natively and with their bodies interpreted and compiled.

`python -m tools.cpython_tests [--file dict ...] [--mode interpreted ...] [--jobs 2] [--causes] [--record]`. Each file
and mode has processes of their own, so that a test that hangs or crashes is a row and not the end.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from typing import Any

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


def results(file: str, modes: list[str], every: int) -> Row:
    """The rows of a file by mode; only tests that pass natively are run in the other modes."""
    native = rows_of("native", file, None)
    passed = [name for name, row in native.items() if row["outcome"] == "passed"]
    return {"native": native} | {mode: rows_of(mode, file, passed, every) for mode in modes}


def main() -> int:
    """Runs the files that the command line names; with `--record`, the page's figures are replaced."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--file", action="append", choices=FILES)
    parser.add_argument("--mode", action="append", choices=[mode for mode in MODES if mode != "native"])
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--count-every", type=int, default=1, metavar="N", help="count bytecodes of one test in N")
    parser.add_argument("--causes", action="store_true", help="print the commonest errors and each test that fails")
    parser.add_argument("--record", action="store_true", help="write tools/cpython_tests/recorded.json")
    given = parser.parse_args()
    if not are_installed():
        print("this Python is installed without its tests")
        return 0
    modes = given.mode or [mode for mode in MODES if mode != "native"]
    causes: Counter[str] = Counter()
    natively: Counter[str] = Counter()
    failing: list[str] = []
    with ThreadPoolExecutor(given.jobs) as pool:
        files = given.file or list(FILES)
        for file, found in zip(
            files, pool.map(lambda file: results(file, modes, given.count_every), files), strict=True
        ):
            figures = report.figures(found)
            print(report.line(file, figures), flush=True)
            if given.record:
                report.record({file: figures}, given.count_every)
            for mode in modes:
                for name, row in found[mode].items():
                    for what, count in row.get("by", {}).items():
                        natively[f"{mode}: {what}"] += count
                    if row["outcome"] != "passed":
                        cause = report.cause(row["text"])
                        causes[f"{mode}: {cause}"] += 1
                        failing.append(f"{file} {name} {mode}: {row['outcome']}: {cause}")
    if given.causes:
        print(*[f"{count:4} {cause}" for cause, count in causes.most_common(60)], sep="\n")
        print(*failing, sep="\n")
        print(
            "bytecodes that CPython ran:", *[f"{count:9} {what}" for what, count in natively.most_common(30)], sep="\n"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
