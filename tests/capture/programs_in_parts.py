"""Runs the programs compiled in parts, three times each: `python -m tests.capture.programs_in_parts [TOPIC ...]`.

Prints each that does not do what Python does, or of which tracing fails for a reason of ours, and how many there were.
Then a table: of the programs with tensor operators, how many are one graph, and why graphs of the others end.
With `--forced` a graph ends after every instruction, and the function goes on from the state that it has built.
"""

import argparse
import contextlib
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from tests.capture.programs.collection import programs, topics
from tests.capture.programs.comparison import Program, differences, native, outcome

import rushlight as rl
from rushlight.capture.resume.breaks import FAILED, RAISED
from rushlight.eager.interception import TorchDispatchMode
from rushlight.support import events, settings

TURNS = 3  # the first traces, the others run what it made


def differing(topic: str, first: int = 0, step: int = 1) -> Iterator[tuple[str, list[str]]]:
    """Each program of a topic, from number `first` on by `step`, with how it differs when it is compiled in parts."""
    for name, program in list(programs(topic).items())[first::step]:
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


def main() -> None:
    """Prints what differs, and a table of graphs."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("topics", nargs="*", metavar="TOPIC")
    parser.add_argument("--forced", action="store_true", help="end a graph after every instruction")
    given = parser.parse_args()
    wrong = 0
    rows: dict[str, Row] = {}
    total = Row()
    with settings.override(part_limit=int(given.forced)):
        for topic in given.topics or topics():
            row = rows.setdefault(topic.partition("/")[0], Row())
            for name, found in differing(topic):
                codes = {event.code for event in events.events("graph_break")}
                computes = has_operators(programs(topic)[name.partition(":")[2]])
                row.add(codes, computes)
                total.add(codes, computes)
                if found:
                    wrong += 1
                    print(name, *found[:3], sep="\n    ", flush=True)
    print(f"{total.programs} programs, {wrong} differ")
    print("| folder | programs | with operators | one graph | and then an exception | share | why others end |")
    print("|---|---:|---:|---:|---:|---:|---|")
    for folder, row in [*rows.items(), ("all", total)]:
        print(row.text(folder))


if __name__ == "__main__":
    main()
