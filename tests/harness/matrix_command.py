"""The command of a matrix: asks all operators, those named, or each n-th, and counts what is wrong.

With `--resume LEDGER` it notes each operator that it has asked, and goes on after those that the ledger has.
"""

import argparse
import sys
import time
import traceback
import warnings
from collections import Counter
from dataclasses import asdict, dataclass
from pathlib import Path

from matrix_cases import ASKED
from rushlight.testing import ledger


@dataclass
class Run:
    """What asking one operator has told, in so many seconds of a processor."""

    name: str
    counts: dict[str, int]
    wrong: list[str]
    seconds: float


def told(error):
    """An exception in a line, with the place that raised it."""
    frame = traceback.extract_tb(error.__traceback__)[-1]
    return f"{type(error).__name__}: {str(error).splitlines()[0]} ({frame.filename}:{frame.lineno})"


def ask_all(failures):
    """Ask operators by `failures(name, counts)`, which gives texts, and end the process: with status 1 if any is."""
    warnings.simplefilter("error")
    parser = argparse.ArgumentParser()
    parser.add_argument("names", nargs="*", help="operators; all without")
    parser.add_argument("--every", type=int, default=1, metavar="N", help="each N-th operator")
    parser.add_argument("--resume", type=Path, metavar="LEDGER", help="note who was asked, and leave those out")
    given = parser.parse_args()
    names = given.names or ASKED[:: given.every]
    runs = {} if given.resume is None else {run.name: run for run in ledger.noted(given.resume, Run)}
    for name in [name for name in names if name not in runs]:
        counts, start = Counter(), time.process_time()
        texts = list(failures(name, counts))
        runs[name] = Run(name, {str(key): count for key, count in counts.items()}, texts, time.process_time() - start)
        if given.resume is not None:
            ledger.note(given.resume, asdict(runs[name]))
        for text in texts:
            print(text, flush=True)
    asked = [runs[name] for name in names]
    counts = sum([Counter(run.counts) for run in asked], Counter())
    wrong = sum([len(run.wrong) for run in asked])
    print(f"{len(asked)} operators: {dict(counts)}, {wrong} wrong, {sum([run.seconds for run in asked]):.0f} s")
    sys.exit(1 if wrong else 0)
