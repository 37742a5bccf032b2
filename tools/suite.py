"""Runs the tests under a setting, a file at a time: `python -m tools.suite --resume LEDGER [FOLDER ...]`.

The setting is RUSHLIGHT_COMPILE_TESTS=1, which compiles the bodies of tests, or another one, as `--setting
RUSHLIGHT_EAGER_CALLS=python`; a ledger is of one setting. Each file has a process of its own, and a line in the ledger
when it has ended, so that a run goes on where another one stopped; `--again` repeats the files with failures. The files
come in an order that `--seed` draws, so what has been run is a sample of all. With `--sample N` at most N tests of each
file are run. Prints each test that fails, and at the end the table of folders; `--report` prints what the ledger has,
and runs nothing.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Collection, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from random import Random

from rushlight.testing import ledger

ROOT = Path(__file__).resolve().parents[1]
COMPILED = "RUSHLIGHT_COMPILE_TESTS=1"
UNCOMPILED = ROOT / "tests" / "uncompiled.txt"
_ENDED = re.compile(r"^(tests/\S+?::.+?) (PASSED|FAILED|ERROR|SKIPPED|XFAIL)\b")
_SAID = re.compile(r"^(?:FAILED|ERROR) (tests/\S+?::.+?) - (.*)$")


@dataclass(frozen=True)
class FileRun:
    """How the tests of a file ended. `sample`: at most so many were run; None: all. `failed` has what pytest says."""

    file: str
    sample: int | None
    outcomes: dict[str, int]
    failed: dict[str, str]
    finished: bool
    seconds: float


def files(folders: Collection[str], seed: int, setting: str = COMPILED) -> list[str]:
    """The files of tests, but for folders that the setting does not concern; all, if no folder or file is named."""
    lines = UNCOMPILED.read_text(encoding="utf-8").splitlines() if setting == COMPILED else ()
    left_out = {line.partition("  ")[0] for line in lines}
    paths = [path.relative_to(ROOT).as_posix() for path in sorted((ROOT / "tests").rglob("test_*.py"))]
    inside = [path for path in paths if not folders or any(f"{path}/".startswith(f"tests/{each}/") for each in folders)]
    found = [path for path in inside if not any(path.startswith(each) for each in left_out if each.endswith("/"))]
    Random(seed).shuffle(found)
    return found


def run(file: str, sample: int | None, seed: int, limit: float, setting: str = COMPILED) -> FileRun:
    """Runs the tests of a file. One that takes more than `limit` seconds is not finished; without pytest all ends."""
    line = [sys.executable, "-m", "pytest", "-v", "-n", "0", "-p", "no:cacheprovider", "--tb=line", file]
    drawn = [] if sample is None else ["--sample", str(sample), "--sample-seed", str(seed)]
    start = time.monotonic()
    name, _, value = setting.partition("=")
    environment = os.environ | {name: value, "COLUMNS": "400"}
    with subprocess.Popen(
        [*line, *drawn], cwd=ROOT, env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    ) as process:
        try:
            text, _ = process.communicate(timeout=limit)
        except subprocess.TimeoutExpired:
            process.kill()
            text, _ = process.communicate()
            return read(file, sample, text, False, time.monotonic() - start)
    found = read(file, sample, text, process.returncode in (0, 1, 5), time.monotonic() - start)
    if process.returncode == 1 and not found.outcomes:
        sys.exit(f"{file}: pytest ran no test\n{text}")
    return found


def read(file: str, sample: int | None, text: str, finished: bool, seconds: float) -> FileRun:
    """What pytest's lines say of the tests of a file."""
    lines = text.splitlines()
    ended = {found[1]: found[2] for line in lines if (found := _ENDED.match(line))}
    said = {found[1]: found[2] for line in lines if (found := _SAID.match(line))}
    failed = {name: said.get(name, "") for name, how in ended.items() if how in ("FAILED", "ERROR")}
    return FileRun(file, sample, dict(Counter(ended.values())), failed, finished, round(seconds, 1))


def table(runs: Collection[FileRun]) -> Iterator[str]:
    """A row for each folder."""
    folders: dict[str, list[FileRun]] = {}
    for each in runs:
        folders.setdefault(each.file.split("/")[1], []).append(each)
    yield "| folder | files | tests | passed | failed | skipped | files not finished |"
    yield "|---|---:|---:|---:|---:|---:|---:|"
    for folder, inside in [*sorted(folders.items()), ("all", list(runs))]:
        total = sum([Counter(each.outcomes) for each in inside], Counter[str]())
        wrong = total["FAILED"] + total["ERROR"]
        skipped = total["SKIPPED"] + total["XFAIL"]
        counts = (
            len(inside),
            total.total(),
            total["PASSED"],
            wrong,
            skipped,
            sum([not each.finished for each in inside]),
        )
        yield f"| {folder} | {' | '.join(map(str, counts))} |"


def _is_due(before: FileRun | None, sample: int | None, again: bool) -> bool:
    """Whether a file is run after what the ledger has of it."""
    if before is None or (again and (before.failed or not before.finished)):
        return True
    return before.sample is not None and (sample is None or sample > before.sample)


def main() -> None:
    """Runs what the ledger does not have, and prints the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folders", nargs="*", metavar="FOLDER")
    parser.add_argument("--resume", type=Path, required=True, metavar="LEDGER")
    parser.add_argument(
        "--setting", default=COMPILED, metavar="NAME=VALUE", help="the setting; compiled bodies if not given"
    )
    parser.add_argument("--sample", type=int, metavar="N", help="run at most N tests of each file")
    parser.add_argument("--seed", type=int, default=0, help="of the order and the sample")
    parser.add_argument("--limit", type=float, default=600, help="seconds for a file")
    parser.add_argument("--again", action="store_true", help="run files with failures again")
    parser.add_argument("--report", action="store_true", help="print what the ledger has")
    given = parser.parse_args()
    runs = {found.file: found for found in ledger.noted(given.resume, FileRun)}
    for file in () if given.report else files(given.folders, given.seed, given.setting):
        if _is_due(runs.get(file), given.sample, given.again):
            found = runs[file] = run(file, given.sample, given.seed, given.limit, given.setting)
            ledger.note(given.resume, asdict(found))
            for name, said in found.failed.items():
                print(name, said, sep="\n    ", flush=True)
    print(*table(runs.values()), sep="\n")


if __name__ == "__main__":
    main()
