"""Asks all of ONNX's node tests: `python -m tools.onnx_nodes [--only TEXT] [--record] [--tinygrad PYTHON]`.

Prints how many pass of each operator, and of those that ONNX Runtime passes; then what fails, by reason. `--record`
writes docs/onnx-nodes.md. `--tinygrad` is an interpreter that has tinygrad and the library `onnx`.
"""

from __future__ import annotations

import argparse
import importlib
import subprocess
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from tools.onnx_nodes.agreeing import collected
from tools.onnx_nodes.cases import operator_of, outcome, peer_outcome

PAGE = Path(__file__).resolve().parents[2] / "docs" / "onnx-nodes.md"
_OPENING = """<!-- written by `python -m tools.onnx_nodes --record` -->

# ONNX's node tests

The library `onnx` generates tests of each operator: a model, inputs, outputs and tolerances. [onnx.md](onnx.md) tells
how models are loaded.
"""


def main() -> None:
    """Ask the tests, print what was found, and keep it if that is asked for."""
    parser = argparse.ArgumentParser(description="Asks ONNX's node tests.")
    parser.add_argument("--only", default="", help="tests whose name has this text")
    parser.add_argument("--record", action="store_true", help="write docs/onnx-nodes.md")
    parser.add_argument("--tinygrad", help="a Python that has tinygrad and onnx")
    options = parser.parse_args()
    rows: list[tuple[str, str, str, str]] = []
    for case in collected():
        if options.only in case.name:
            rows.append((case.name, operator_of(case), outcome(case), peer_outcome(case)))
    told = [] if options.tinygrad is None else [_tinygrad(options.tinygrad, options.only), ""]
    text = "\n".join([*told, *_lines(rows)])
    print(text)
    if options.record:
        PAGE.write_text(f"{_OPENING}\n{text}\n", encoding="utf-8")


def _tinygrad(python: str, only: str) -> str:
    """What tinygrad passes, in an interpreter of its own."""
    command = [python, "-m", "tools.onnx_nodes.tinygrad_peer", only]
    done = subprocess.run(command, cwd=PAGE.parents[1], capture_output=True, text=True, check=True)
    return done.stdout.splitlines()[-1]


def _lines(rows: list[tuple[str, str, str, str]]) -> Iterator[str]:
    theirs = [row for row in rows if row[3] == "pass"]
    both = sum(row[2] == "pass" for row in theirs)
    versions = [importlib.import_module(name).__version__ for name in ("onnx", "onnxruntime")]
    yield (
        f"Of {len(rows):,} tests of onnx {versions[0]}, {sum(row[2] == 'pass' for row in rows):,} pass. ONNX Runtime "
        f"{versions[1]} passes {len(theirs):,}"
    )
    yield f"on the CPU; of these {both:,} pass here ({100 * both / max(len(theirs), 1):.1f} %)."
    yield ""
    yield "| operator | tests | pass | ONNX Runtime |"
    yield "|---|---:|---:|---:|"
    counts = Counter(row[1] for row in rows)
    ours = Counter(row[1] for row in rows if row[2] == "pass")
    peers = Counter(row[1] for row in theirs)
    for name in sorted(counts, key=str.lower):
        yield f"| `{name}` | {counts[name]} | {ours[name]} | {peers[name]} |"
    yield ""
    yield "What fails, by reason:"
    yield ""
    reasons: dict[str, list[str]] = {}
    for name, _, result, _ in rows:
        if result != "pass":
            reasons.setdefault(result, []).append(name.removeprefix("test_"))
    yield "| reason | tests | some |"
    yield "|---|---:|---|"
    for reason, names in sorted(reasons.items(), key=lambda item: -len(item[1])):
        yield f"| {reason.replace('|', '/')} | {len(names)} | {', '.join(names[:4])} |"


if __name__ == "__main__":
    main()
