"""Times code in a process of its own: `python -m rushlight.tune.worker THREADS IDLE_S`.

It reads questions from standard input, a line of JSON each, and writes an answer to each. A question names a folder
with a graph and operands, and files of object code for two choices. After `IDLE_S` seconds without one it ends.
"""

from __future__ import annotations

import json
import os
import select
import sys
from pathlib import Path
from typing import Any

import numpy as np

from rushlight.build.executable import Summary
from rushlight.build.native import load_code
from rushlight.ir.graph_parse import parse_graph
from rushlight.ops.record import OPERATORS
from rushlight.runtime import pool
from rushlight.support import settings
from rushlight.tune.measure import Runner, compare, written_by

MOST_FOLDERS = 8  # whose operands and code are kept
GRAPH, SETTINGS, CODE, SUMMARY = "graph.txt", "settings.json", "o", "json"


class Bench:
    """The graph and operands of a folder, and the code that has been loaded for them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.graph = parse_graph((folder / GRAPH).read_text(encoding="utf-8"), OPERATORS)
        self.operands = [np.load(folder / f"{number}.npy") for number in range(len(self.graph.parameters))]
        self.settings = json.loads((folder / SETTINGS).read_text(encoding="utf-8"))
        self.runners: dict[str, Runner] = {}

    def runner(self, name: str) -> Runner:
        """The code of a choice, which has run once."""
        if name not in self.runners:
            code, facts = ((self.folder / f"{name}.{kind}").read_bytes() for kind in (CODE, SUMMARY))
            executable = load_code(self.graph, code, Summary.from_json(facts))
            self.runners[name] = Runner(executable, self.operands, written_by(self.graph))
        return self.runners[name]


def answer(question: dict[str, str], benches: dict[str, Bench]) -> dict[str, Any]:
    """The seconds of both choices, under the settings of who asks."""
    folder = question["folder"]
    bench = benches.pop(folder, None) or Bench(Path(folder))
    benches[folder] = bench
    while len(benches) > MOST_FOLDERS:
        benches.pop(next(iter(benches)))
    with settings.override(**bench.settings):
        mine, best = compare(bench.runner(question["choice"]), bench.runner(question["best"]))
    return {"seconds": mine, "best_seconds": best}


def main() -> None:
    """Answers until there are no more questions."""
    pool.set_num_threads(int(sys.argv[1]))
    idle = float(sys.argv[2])
    # What other code writes to standard output does not reach who asks.
    with os.fdopen(os.dup(1), "w", encoding="utf-8") as out:
        os.dup2(2, 1)
        benches: dict[str, Bench] = {}
        while select.select([sys.stdin], [], [], idle)[0]:
            line = sys.stdin.readline()
            if not line:
                return
            out.write(json.dumps(answer(json.loads(line), benches)) + "\n")
            out.flush()


if __name__ == "__main__":
    main()
