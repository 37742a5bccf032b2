"""The command of a matrix: asks all operators, those named, or each n-th with `--every n`, and counts what is wrong."""

import sys
import time
import traceback
import warnings
from collections import Counter

from matrix_cases import ASKED


def told(error):
    """An exception in a line, with the place that raised it."""
    frame = traceback.extract_tb(error.__traceback__)[-1]
    return f"{type(error).__name__}: {str(error).splitlines()[0]} ({frame.filename}:{frame.lineno})"


def ask_all(failures):
    """Ask operators by `failures(name, counts)`, which gives texts, and end the process: with status 1 if any is."""
    warnings.simplefilter("error")
    arguments = sys.argv[1:]
    every = int(arguments[1]) if arguments[:1] == ["--every"] else 1
    names = arguments if arguments and every == 1 else ASKED[::every]
    counts, start, wrong = Counter(), time.process_time(), 0
    for name in names:
        for text in failures(name, counts):
            wrong += 1
            print(text, flush=True)
    print(f"{dict(counts)}, {wrong} wrong, {time.process_time() - start:.0f} s")
    sys.exit(1 if wrong else 0)
