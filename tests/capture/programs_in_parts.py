"""Runs the programs compiled in parts, three times each: `python -m tests.capture.programs_in_parts [TOPIC ...]`.

Prints each that does not do what Python does, or of which tracing fails for a reason of ours, and how many there were.
With `--forced` a graph ends after every instruction, and the function goes on from the state that it has built.
"""

import argparse
from collections import Counter
from collections.abc import Iterator

from tests.capture.programs.collection import programs, topics
from tests.capture.programs.comparison import differences, native, outcome

import rushlight as rl
from rushlight.capture.resume.breaks import FAILED
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


def main() -> None:
    """Prints what differs."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("topics", nargs="*", metavar="TOPIC")
    parser.add_argument("--forced", action="store_true", help="end a graph after every instruction")
    given = parser.parse_args()
    count = wrong = whole = 0
    reasons: Counter[str] = Counter()
    with settings.override(part_limit=int(given.forced)):
        for topic in given.topics or topics():
            for name, found in differing(topic):
                count += 1
                codes = {event.code for event in events.events("graph_break")}
                whole += not codes
                reasons.update(codes)
                if found:
                    wrong += 1
                    print(name, *found[:3], sep="\n    ", flush=True)
    print(f"{count} programs, {wrong} differ")
    print(f"{whole} are one graph ({100 * whole / count:.1f} %); others by why graphs end:", *reasons.most_common())


if __name__ == "__main__":
    main()
