"""Runs the programs compiled in parts, three times each: `python -m tests.capture.programs_in_parts [TOPIC ...]`.

Prints each that does not do what Python does, or of which tracing fails for a reason of ours, and how many there were.
"""

import sys
from collections.abc import Iterator

from tests.capture.programs.collection import programs, topics
from tests.capture.programs.comparison import differences, native, outcome

import rushlight as rl
from rushlight.capture.resume.breaks import FAILED
from rushlight.support import events

TURNS = 3  # the first traces, the others run what it made


def differing(topic: str, first: int = 0, step: int = 1) -> Iterator[tuple[str, list[str]]]:
    """Each program of a topic, from number `first` on by `step`, with how it differs when it is compiled in parts."""
    for name, program in list(programs(topic).items())[first::step]:
        expected = outcome(native, program)
        compiled = rl.compile(program, fullgraph=False)
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


def main(chosen: list[str]) -> None:
    """Prints what differs."""
    count = wrong = 0
    for topic in chosen or topics():
        for name, found in differing(topic):
            count += 1
            if found:
                wrong += 1
                print(name, *found[:3], sep="\n    ", flush=True)
    print(f"{count} programs, {wrong} differ")


if __name__ == "__main__":
    main(sys.argv[1:])
