"""Runs the programs compiled in parts, three times each: `python -m tests.capture.programs_in_parts [TOPIC ...]`.

Prints each that does not do what Python does, or of which tracing fails for a reason of ours, and how many there were.
Then a table: of the programs with tensor operators, how many are one graph, and why graphs of the others end.
With `--forced` a graph ends after every instruction, and the function goes on from the state that it has built.
With `--resume LEDGER` each program is noted in a file as it ends, and those in the file are not run again.
"""

import argparse
import contextlib
import time
from collections import Counter
from collections.abc import Collection, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path

from tests.capture.programs.collection import programs, topics
from tests.capture.programs.comparison import Program, differences, native, outcome

import rushlight as rl
from rushlight.capture.resume.breaks import FAILED, RAISED
from rushlight.eager.interception import TorchDispatchMode
from rushlight.support import events, settings
from rushlight.testing import ledger

TURNS = 3  # the first traces, the others run what it made


def differing(topic: str, first: int = 0, step: int = 1, done: Collection[str] = ()) -> Iterator[tuple[str, list[str]]]:
    """Each program of a topic, from number `first` on by `step`, with how it differs when it is compiled in parts.

    Those whose names are `done` are left out.
    """
    for name, program in list(programs(topic).items())[first::step]:
        if f"{topic}:{name}" in done:
            continue
        expected = outcome(native, program)
        compiled = rl.compile(program, fullgraph=False, backend="eager" if settings.get().part_limit else None)
        found: list[str] = []
        events.reset()
        for turn in range(TURNS):
            try:
                found = differences(expected, outcome(native, compiled))
            except rl.RushlightError as error:  # a value of the trace is left where the comparison looks
                found = [str(error)]
            if found:
                found = [f"call {turn + 1}", *found]
                break
        failed = [str(event) for event in events.events("graph_break") if event.code == FAILED.code]
        yield f"{topic}:{name}", found or failed


class _OperatorCount(TorchDispatchMode):
    """Counts the operators that run."""

    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.count += 1
        return func(*args, **(kwargs or {}))


def has_operators(program: Program) -> bool:
    """Whether a program runs any tensor operator."""
    mode = _OperatorCount()

    def run(function, args, kwargs):
        with mode:
            return function(*args, **kwargs)

    with contextlib.suppress(rl.RushlightError):  # of the comparison
        outcome(run, program)
    return mode.count > 0


@dataclass
class Row:
    """How the programs of a folder are compiled."""

    programs: int = 0
    without_operators: int = 0
    one_graph: int = 0
    raising: int = 0  # one graph, and then an exception that leaves the program, which Python raises
    reasons: Counter[str] = field(default_factory=Counter)  # of the others, each code once for a program

    def add(self, codes: set[str], computes: bool) -> None:
        """Count one more program, whose graphs end for the reasons of these codes."""
        self.programs += 1
        if not computes:
            self.without_operators += 1
        elif not codes:
            self.one_graph += 1
        elif codes == {RAISED.code}:
            self.raising += 1
        else:
            self.reasons.update(codes)

    def text(self, folder: str) -> str:
        """The row of a table."""
        computing = self.programs - self.without_operators
        share = 100 * (self.one_graph + self.raising) / max(1, computing)
        why = ", ".join([f"{code} {count}" for code, count in self.reasons.most_common(5)])
        counts = f"{self.programs} | {computing} | {self.one_graph} | {self.raising} | {share:.0f} %"
        return f"| {folder} | {counts} | {why} |"


@dataclass
class Run:
    """How a program was run: in what it differs, the codes of its breaks, and seconds of processor time."""

    name: str
    found: list[str]
    codes: list[str]
    computes: bool
    seconds: float


def ran(topic: str, done: Collection[str]) -> Iterator[Run]:
    """Runs the programs of a topic that are not done."""
    start = time.process_time()
    for name, found in differing(topic, done=done):
        codes = sorted({event.code for event in events.events("graph_break")})
        seconds = time.process_time() - start
        yield Run(name, found[:3], codes, has_operators(programs(topic)[name.partition(":")[2]]), round(seconds, 2))
        start = time.process_time()


def noted(path: Path | None) -> dict[str, Run]:
    """The programs that a ledger has, by name."""
    return {} if path is None else {run.name: run for run in ledger.noted(path, Run)}


def report(runs: Collection[Run]) -> Iterator[str]:
    """The lines of the report: how many differ, which were slowest, and the table of graphs."""
    rows: dict[str, Row] = {}
    total = Row()
    for run in runs:
        for row in (rows.setdefault(run.name.partition("/")[0], Row()), total):
            row.add(set(run.codes), run.computes)
    yield f"{total.programs} programs, {sum([bool(run.found) for run in runs])} differ"
    slowest = sorted(runs, key=lambda run: -run.seconds)[:3]
    yield "slowest: " + ", ".join([f"{run.name} {run.seconds:.1f} s" for run in slowest])
    yield "| folder | programs | with operators | one graph | and then an exception | share | why others end |"
    yield "|---|---:|---:|---:|---:|---:|---|"
    yield from (row.text(folder) for folder, row in [*rows.items(), ("all", total)])


def main() -> None:
    """Prints what differs, and a table of graphs."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("topics", nargs="*", metavar="TOPIC")
    parser.add_argument("--forced", action="store_true", help="end a graph after every instruction")
    parser.add_argument("--resume", type=Path, metavar="LEDGER", help="note what was run, and go on from there")
    given = parser.parse_args()
    wanted = given.topics or topics()
    runs = noted(given.resume)
    with settings.override(part_limit=int(given.forced)):
        for topic in wanted:
            for run in ran(topic, runs):
                runs[run.name] = run
                if given.resume is not None:
                    ledger.note(given.resume, asdict(run))
                if run.found:
                    print(run.name, *run.found, sep="\n    ", flush=True)
    print(*report([run for run in runs.values() if run.name.partition(":")[0] in wanted]), sep="\n")


if __name__ == "__main__":
    main()
