"""Counts of programs, each in a process of its own, and what is expected of them."""

from __future__ import annotations

import json
import platform
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from importlib import metadata
from pathlib import Path
from typing import NamedTuple

import rushlight as rl
from rushlight.bench.contestants import with_variables
from rushlight.bench.prtime import inside, opcodes
from rushlight.bench.prtime.programs import IMPORT, PROGRAMS
from rushlight.bench.reports.tables import Table
from rushlight.support.errors import error, fail

TOLERANCE = 0.01
NAMES = (*PROGRAMS, IMPORT)
# Callgrind counts while this function of Python's runs: it is what `a @= b` calls, and nobody else uses that.
GATE = "PyNumber_InPlaceMatrixMultiply"
# Counts are those of one thread without anything from runs before, for a processor that valgrind knows.
SETTINGS = {
    "PYTHONHASHSEED": "0",
    "RUSHLIGHT_TARGET": "x86-64-v3",
    "RUSHLIGHT_NUM_THREADS": "1",
    "RUSHLIGHT_CACHE": "0",
    "OPENBLAS_NUM_THREADS": "1",
}
SOURCE = Path(rl.__file__).parent.parent


def callgrind(profile: Path) -> list[str]:
    """The words before a command that make callgrind write a file for each passage of the gate."""
    gate = [f"--toggle-collect={GATE}", f"--dump-after={GATE}"]
    return ["valgrind", "--tool=callgrind", *gate, f"--callgrind-out-file={profile}"]


def total_of(profile: Path) -> int:
    """The sum of a profile."""
    for line in profile.read_text(encoding="utf-8").splitlines():
        if line.startswith(("totals:", "summary:")):
            return int(line.split()[1])
    raise ValueError(f"{profile} has no total")


def totals(profile: Path, names: Iterable[str]) -> dict[str, int]:
    """The sums of the files that callgrind has written, one for each name in order."""
    return {name: total_of(Path(f"{profile}.{number}")) for number, name in enumerate(names, 1)}


def import_program(counter: str) -> list[str]:
    """The words of an interpreter that counts the import of Rushlight, before which it has nothing of it."""
    text = Path(opcodes.__file__).read_text(encoding="utf-8")
    counted = f"{IMPORT!r}: COUNTERS[{counter!r}]().count(lambda: __import__('rushlight'))"
    return ["-c", f"{text}\nimport json\nprint(json.dumps({{{counted}}}))"]


def run(counter: str, words: Sequence[str]) -> dict[str, int]:
    """The counts that an interpreter prints; by callgrind those of its files, in their order."""
    settings = {**SETTINGS, "PYTHONPATH": str(SOURCE)}
    with tempfile.TemporaryDirectory(prefix="rushlight-prtime-") as folder:
        profile = Path(folder) / "profile"
        before = callgrind(profile) if counter == "callgrind" else []
        line = with_variables([*before, sys.executable, *words], settings)
        done = subprocess.run(line, check=False, capture_output=True, text=True)
        if done.returncode:
            said = done.stderr.strip().splitlines() or ["it said nothing"]
            fail("A002", f"bench: counting ended with status {done.returncode}", said=said[-1])
        found: dict[str, int] = json.loads(done.stdout.splitlines()[-1])
        return totals(profile, found) if counter == "callgrind" else found


def count_programs(names: Sequence[str], counter: str, extra: float = 0.0) -> dict[str, int]:
    """The count of each program, in a process of its own: what ran before changes which words are known.

    `extra` is a share of work to add to all but the import.
    """
    found: dict[str, int] = {}
    for name in names:
        here = ["-m", inside.__name__, counter, str(extra), name]
        found |= run(counter, import_program(counter) if name == IMPORT else here)
    return found


class Change(NamedTuple):
    """A program's count where another is expected."""

    name: str
    found: int
    expected: int

    @property
    def share(self) -> float:
        """How far it is off: above 0 it has grown."""
        return self.found / self.expected - 1


def versions() -> dict[str, str]:
    """What counts depend on besides our own source."""
    return {"python": platform.python_version(), "numpy": metadata.version("numpy")}


def read(path: Path, counter: str) -> Mapping[str, int]:
    """The expected counts of a file. Errors: A002 for another file, or other versions."""
    try:
        record = json.loads(path.read_text(encoding="utf-8"))[counter]
        made_with, counts = record["versions"], record["counts"]
    except (OSError, ValueError, KeyError, TypeError) as cause:
        raise error("A002", f"bench: {path} has no expected counts of {counter}", cause=str(cause)) from cause
    if made_with != versions():
        fail("A002", "bench: counts of other versions are not comparable", expected=made_with, here=versions())
    return counts


def updated(path: Path, counter: str, counts: Mapping[str, int]) -> str:
    """The text of a file of expected counts, with these in place of what it has of them."""
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        record = {}
    known = record.get(counter, {})
    kept = known.get("counts", {}) if known.get("versions") == versions() else {}
    record[counter] = {"versions": versions(), "counts": {**kept, **counts}}
    return json.dumps(record, indent=2) + "\n"


def changes(found: Mapping[str, int], expected: Mapping[str, int], tolerance: float) -> list[Change]:
    """Programs that are off by more than the tolerance, in either direction. One that is not expected is no change."""
    known = [Change(name, number, expected[name]) for name, number in found.items() if name in expected]
    return [one for one in known if abs(one.share) > tolerance]


def as_table(rounds: Sequence[Mapping[str, int]], expected: Mapping[str, int], tolerance: float) -> Table:
    """A row for each program: the counts of the last round, how far rounds differ, what was expected."""
    rows = [["program", "", "count", "spread", "expected", "change"]]
    off = {one.name for one in changes(rounds[-1], expected, tolerance)}
    for name, count in rounds[-1].items():
        taken = [one[name] for one in rounds]
        about = PROGRAMS[name].about if name in PROGRAMS else "the import of rushlight"
        row = [name, about, f"{count:,}", f"{max(taken) / min(taken) - 1:.2%}" if len(taken) > 1 else ""]
        if name in expected:
            change = count / expected[name] - 1
            row += [f"{expected[name]:,}", f"{change:+.2%}{' !' if name in off else ''}"]
        rows.append(row + [""] * (len(rows[0]) - len(row)))
    return Table("counts", rows, [])
