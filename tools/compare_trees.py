"""Says which benchmarks a change has made slower: `python -m tools.compare_trees OLD NEW [--cases PART]... [options]`.

OLD and NEW are checkouts. For each case a process of each is made ready, and they take samples in turns, on one thread.
A sample is the processor time of the process: on a busy machine the clock on the wall counts what others do. Printed
are the median of the ratios NEW / OLD of the same round, and the ratio of the fastest samples: a case is slower where
both are above 1.03. `--pairs 3` repeats each case with two new processes, whose memory lies elsewhere. What has been
measured of these commits is a line of the ledger, and is not measured again.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from rushlight.bench.catalog import CASES
from rushlight.bench.checking import reference
from rushlight.bench.contestants import Contestant, Kind
from rushlight.bench.records import Case, Record
from rushlight.bench.results import prepare_all
from rushlight.bench.timing import Turn, ratio, rounds_within, take_turns
from rushlight.testing.ledger import note, noted

FAMILIES = ("ops", "models", "overhead")
HOSTS = {"compiled": "rushlight", "eager": "rushlight-eager"}
SLOWER = 1.03
ROUNDS, BUDGET, LIMIT = 15, 60.0, 600.0


class Clocked(Contestant):
    """A worker whose samples are processor time of its process, per call."""

    def ask(self, do: str, **values: Any) -> Record:
        """An answer; that to a question for a sample has other seconds."""
        if do != "sample" or self._process is None:
            return super().ask(do, **values)
        clock = ~self._process.pid << 3 | 2  # Linux: the clock of all threads of a process
        started = time.clock_gettime(clock)
        answer = super().ask(do, **values)
        if answer["status"] == "ready":
            answer["seconds"] = (time.clock_gettime(clock) - started) / (values["repeat"] + values["warm"])
        return answer


@dataclass(frozen=True)
class Tree:
    """A checkout, and the interpreter that runs it."""

    path: Path
    python: str

    @property
    def commit(self) -> str:
        """The commit that it is at, marked where files differ from it."""
        line = ("git", "-C", str(self.path), "describe", "--always", "--dirty", "--exclude=*")
        return subprocess.run(line, check=True, capture_output=True, text=True).stdout.strip()

    def worker(self, name: str, mode: str, folder: Path) -> Clocked:
        """A worker of this checkout."""
        script = str(self.path.resolve() / "src/rushlight/bench/worker.py")
        return Clocked(Kind(name, "rushlight", mode), self.python, 1, LIMIT, folder, script=script)


@dataclass(frozen=True)
class Compared:
    """Samples of a case by two trees, in turns; or why there are none."""

    case: str
    mode: str
    pair: int
    trees: tuple[str, str]
    old: list[float] = field(default_factory=list)
    new: list[float] = field(default_factory=list)
    reason: str = ""


@dataclass(frozen=True)
class Row:
    """A case in a mode: all its pairs together."""

    name: str
    seconds: float
    ratio: float
    fastest: float

    @property
    def slower(self) -> bool:
        """Is the new tree slower by the median and by the fastest sample?"""
        return min(self.ratio, self.fastest) > SLOWER


def compare(case: Case, mode: str, pair: int, trees: Sequence[Tree], arguments: argparse.Namespace) -> Compared:
    """Starts a worker of each tree, checks their results, and times them in turns."""
    with tempfile.TemporaryDirectory(prefix="rushlight-trees-") as folder, contextlib.ExitStack() as stack:
        named = zip(("old", "new"), trees, strict=True)
        workers = [tree.worker(name, mode, Path(folder)) for name, tree in named]
        for worker in workers:
            stack.callback(worker.close)
        inputs = case.inputs()
        answers = prepare_all(case.name, workers, inputs, reference(case, inputs), lambda _: None)
        turns = [Turn(one, answers[one.name]["call_s"]) for one in workers if "call_s" in answers[one.name]]
        seconds, failed = {}, answers
        if len(turns) == 2:
            # Both make as many calls in a sample as the shorter call asks for.
            turns = [turn._replace(call_s=min(one.call_s for one in turns)) for turn in turns]
            seconds, failed = take_turns(turns, rounds_within(turns, arguments.rounds, arguments.budget))
    reason = " / ".join(f"{name}: {one['reason']}" for name, one in failed.items() if "reason" in one)
    commits = (trees[0].commit, trees[1].commit)
    return Compared(case.name, mode, pair, commits, seconds.get("old", []), seconds.get("new", []), reason)


def jobs(parts: Sequence[str], modes: Sequence[str], pairs: int) -> Iterator[tuple[Case, str, int]]:
    """Cases whose names have one of the parts, in each mode that they take part in, `pairs` times."""
    for pair, case, mode in itertools.product(range(pairs), CASES.values(), modes):
        asked = any(part in case.name for part in parts) if parts else case.family in FAMILIES
        if asked and (not case.contestants or HOSTS[mode] in case.contestants):
            yield case, mode, pair


def rows_of(runs: Sequence[Compared]) -> list[Row]:
    """A row for each case and mode that both trees have run, in the order of the first pair."""
    measured: dict[str, list[Compared]] = {}
    for run in runs:
        if not run.reason:
            measured.setdefault(f"{run.case} {run.mode}", []).append(run)
    rows: list[Row] = []
    for name, pairs in measured.items():
        old, new = [one for run in pairs for one in run.old], [one for run in pairs for one in run.new]
        rows.append(Row(name, statistics.median(new), ratio(new, old), min(new) / min(old)))
    return rows


def report(runs: Sequence[Compared]) -> int:
    """Prints the table, the median of all, and what is slower; how many cases are."""
    rows = rows_of(runs)
    print("| case | new, ms | median of ratios | of fastest |", "|---|---:|---:|---:|", sep="\n")
    for row in rows:
        print(f"| {row.name} | {row.seconds * 1e3:.4g} | {row.ratio:.2f} | {row.fastest:.2f} |")
    for run in runs:
        if run.reason:
            print(f"not measured: {run.case} {run.mode}: {run.reason}")
    if rows:
        print(f"median of all: {statistics.median([row.ratio for row in rows]):.3f} ({len(rows)} rows)")
    slower = [row for row in rows if row.slower]
    print(*(f"slower: {row.name}, {row.ratio:.2f}, fastest {row.fastest:.2f}" for row in slower), sep="\n")
    return len(slower)


def parse(words: Sequence[str] | None) -> argparse.Namespace:
    """The options."""
    parser = argparse.ArgumentParser(prog="python -m tools.compare_trees", description=__doc__)
    parser.add_argument("trees", nargs=2, type=Path, metavar="TREE")
    parser.add_argument("--python", nargs=2, default=[sys.executable] * 2, help="interpreters of the trees: this one")
    parser.add_argument("--cases", action="append", default=[], metavar="PART", help="part of a case's name")
    parser.add_argument("--modes", default="compiled,eager", type=lambda text: text.split(","))
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--pairs", type=int, default=1, help="pairs of processes for each case")
    parser.add_argument("--budget", type=float, default=BUDGET, help="seconds of sampling for a pair")
    parser.add_argument("--ledger", type=Path, help="file to go on from")
    return parser.parse_args(words)


def main(words: Sequence[str] | None = None) -> int:
    """Measures what the ledger does not have yet, and reports all; 1 where a case is slower."""
    arguments = parse(words)
    trees = [Tree(path, python) for path, python in zip(arguments.trees, arguments.python, strict=True)]
    commits = tuple(tree.commit for tree in trees)
    known = {
        (run.case, run.mode, run.pair): run
        for run in (noted(arguments.ledger, Compared) if arguments.ledger else ())
        if tuple(run.trees) == commits
    }
    runs: list[Compared] = []
    for case, mode, pair in jobs(arguments.cases, arguments.modes, arguments.pairs):
        run = known.get((case.name, mode, pair))
        if run is None:
            run = compare(case, mode, pair, trees, arguments)
            if arguments.ledger:
                note(arguments.ledger, asdict(run))
            print(f"{case.name} {mode}: {run.reason or f'{ratio(run.new, run.old):.3f}'}", file=sys.stderr, flush=True)
        runs.append(run)
    return int(report(runs) > 0)


if __name__ == "__main__":
    sys.exit(main())
