"""Counts the instructions of each stage of a compilation, with valgrind's callgrind: they do not depend on the load.

    python -m tools.count_instructions            compare with tools/instruction_counts.json; exits with 1 beyond 3 %
    python -m tools.count_instructions --accept   write what is counted now

What is compiled is the demo's training step with two layers, for x86-64-v3. Counts depend on the versions of Python,
numpy and llvmlite, so those of others are not compared.
"""

from __future__ import annotations

import contextlib
import functools
import json
import platform
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from importlib import metadata
from pathlib import Path
from typing import Any

import rushlight as rl
from rushlight import build
from rushlight.bench.prtime.counting import callgrind, totals
from rushlight.bench.prtime.opcodes import Gate
from rushlight.build.pipeline import PIPELINE, PassContext
from rushlight.capture.function import whole as compiled_function
from rushlight.demo.model import GPT
from rushlight.demo.training import make_optimizer, make_step
from rushlight.ir.choice import BLOCKS, by_model
from rushlight.runtime import llvm
from rushlight.support import settings

EXPECTED = Path(__file__).with_name("instruction_counts.json")
TOLERANCE = 0.03
LEAST = 0.01  # of all: stages below that are too small to compare
LAYERS, HEADS, WIDTH, CONTEXT, BATCH = 2, 4, 64, 32, 2


class Counter:
    """Runs functions inside callgrind's gate, and remembers their names in order."""

    def __init__(self) -> None:
        self.names: list[str] = []
        self.gate = Gate()

    def count(self, name: str, function: Callable[[], Any]) -> Any:
        """The function's result."""
        self.names.append(name)
        results: list[Any] = []
        self.gate.count(lambda: results.append(function()))
        return results[0]


class Stopped(Exception):
    """A capture that has come to its graph, which would be compiled next."""


class Captures:
    """Makes captures stop at the graph of the step; what runs eagerly on the way is compiled as ever.

    Then the graph is compiled, which a capture does before it ends: what was remembered of sizes is kept for that.
    """

    def __init__(self) -> None:
        self.graph: Any = None
        self._compile_graph = build.compile_graph
        build.compile_graph = self.stop
        compiled_function.forgetting = contextlib.nullcontext

    def stop(self, graph: Any, *others: Any) -> Any:
        """Stands in for `build.compile_graph`."""
        if graph.name != "step":
            return self._compile_graph(graph, *others)
        self.graph = graph
        raise Stopped

    def prepare(self, layers: int, width: int) -> Callable[[], None]:
        """A capture of the demo's step, ready to run."""
        model = GPT(layers, HEADS, width, CONTEXT)
        step = rl.compile(make_step(model, make_optimizer(model, 1e-3, 0.1)))
        windows = rl.randint(0, 256, (BATCH, CONTEXT + 1))

        def capture() -> None:
            with contextlib.suppress(Stopped):
                step(windows)

        return capture


def compile_stages(counter: Counter) -> None:
    """Captures and compiles the demo's step, each stage counted, after a smaller one has loaded what it needs."""
    captures = Captures()
    captures.prepare(1, WIDTH // 2)()
    capture = captures.prepare(LAYERS, WIDTH)
    counter.count("capture", capture)
    target = llvm.target_named(settings.get().target)
    making = PassContext(target, by_model, BLOCKS)
    value = captures.graph
    for stage in PIPELINE[1:]:
        value = counter.count(stage.name, functools.partial(stage.run, value, making))
    counter.count("LLVM", functools.partial(llvm.compile_object, value.text, target))


def measure() -> dict[str, int]:
    """Instructions by stage."""
    with tempfile.TemporaryDirectory() as folder:
        profile = Path(folder) / "profile"
        line = [
            *("env", "PYTHONHASHSEED=0", "RUSHLIGHT_TARGET=x86-64-v3", "RUSHLIGHT_NUM_THREADS=1"),
            *(f"RUSHLIGHT_CACHE_DIR={folder}/cache", "OPENBLAS_NUM_THREADS=1"),
            *(*callgrind(profile), sys.executable, "-m", "tools.count_instructions", "--inside"),
        ]
        done = subprocess.run(line, check=True, capture_output=True, text=True)
        names = json.loads(done.stdout.splitlines()[-1])
        return totals(profile, names)


def versions() -> dict[str, str]:
    """What counts depend on besides our own source."""
    return {"python": platform.python_version(), **{name: metadata.version(name) for name in ("numpy", "llvmlite")}}


def compare(found: Mapping[str, int], expected: Mapping[str, int]) -> list[str]:
    """A line for each stage that is missing, or whose count is off by more than the tolerance in either direction."""
    total = sum(expected.values())
    lines: list[str] = []
    for name in dict.fromkeys([*expected, *found]):
        if name not in found or name not in expected:
            lines.append(f"{name}: only {'expected' if name in expected else 'found'}")
        elif max(found[name], expected[name]) >= LEAST * total:
            change = found[name] / expected[name] - 1
            if abs(change) > TOLERANCE:
                lines.append(f"{name}: {found[name] / 1e6:.1f} million instructions, {change:+.1%}")
    return lines


def main() -> int:
    """Counts, and compares or writes."""
    if sys.argv[1:] == ["--inside"]:
        counter = Counter()
        compile_stages(counter)
        print(json.dumps(counter.names))
        return 0
    counts, made_with = measure(), versions()
    total = sum(counts.values())
    for name, count in counts.items():
        print(f"{name:<20}{count / 1e6:>12.1f} million {count / total:>6.1%}")
    print(f"{'all':<20}{total / 1e6:>12.1f} million")
    if sys.argv[1:] == ["--accept"]:
        record = {"versions": made_with, "instructions": counts}
        EXPECTED.write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")
        return 0
    expected = json.loads(EXPECTED.read_text(encoding="utf-8"))
    if expected["versions"] != made_with:
        print(f"not comparable: the expected counts are of {expected['versions']}, these of {made_with}")
        return 2
    found = compare(counts, expected["instructions"])
    print(*found or ["all within 3 %"], sep="\n")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
