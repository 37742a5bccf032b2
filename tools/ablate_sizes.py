"""What each technique of the engine for sizes saves: a program with many of them is traced with one switched off.

    python -m tools.ablate_sizes --iters 40 --batch 32 --rounds 3

The program is that of `rushlight bench unbind-split-flip-cat`. Each run is a process of its own that replaces parts of
`rushlight.sym` before it traces; the product has no switch for that. Results must be equal to the last bit. That equal
sizes are one object cannot be switched off: all else relies on it.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import hashlib
import json
import statistics
import subprocess
import sys
from collections.abc import Callable, Sequence
from typing import Any

from rushlight.bench.cases_tracing import unbind_split_flip_cat
from rushlight.bench.hosts import pytorch as host_pytorch
from rushlight.bench.reports.tables import Table, aligned, duration
from rushlight.ops import split
from rushlight.ops.view.part import slice_
from rushlight.support import clock, garbage
from rushlight.sym import condition, expr, knowledge, memo, query
from rushlight.sym.equalities import Equalities
from rushlight.sym.hints import Hints
from rushlight.sym.knowledge import Knowledge

UNBOUNDED = 1 << 60
LATE = "late"


def replace_everywhere(name: str, old: Any, new: Any) -> None:
    """Replaces what modules have imported under a name."""
    modules = [module for path, module in sys.modules.items() if path.startswith("rushlight.")]
    found = [module for module in modules if vars(module).get(name) is old]
    assert found, name
    for module in found:
        setattr(module, name, new)


def before(owner: type, method: str, forget: Callable[[Any], None]) -> None:
    """Makes a method's calls begin with `forget(self)`."""
    kept = getattr(owner, method)

    @functools.wraps(kept)
    def forgetting(self: Any, *arguments: Any) -> Any:
        forget(self)
        return kept(self, *arguments)

    setattr(owner, method, forgetting)


def forget_what_was_read(found: Any) -> None:
    """Empties the memos of a knowledge."""
    found._bounds.clear()
    found.equalities._resolved.clear()


def forget_arithmetic() -> None:
    """Tables of sums, products and quotients are emptied at each new entry."""
    assert memo._LIMIT > 0
    memo._LIMIT = 0


def forget_symbols() -> None:
    """Each question for the symbols of an expression goes through all of it."""

    def symbols_of(e: Any) -> frozenset[Any]:
        return frozenset() if isinstance(e, int) else frozenset([n for n in query.bottom_up(e) if n.op is expr.SYMBOL])

    replace_everywhere("symbols_of", query.symbols_of, symbols_of)


def visit_all_for_scope() -> None:
    """The scope of an expression is that of its oldest symbol."""
    first = condition.first_scoped_symbol

    def oldest(e: Any) -> Any:
        return next((symbol for symbol in query.free_symbols(e) if first(symbol) is not None), None)

    replace_everywhere("first_scoped_symbol", first, oldest)


def clamp_parts() -> None:
    """Parts of a tensor are slices, whose ends are clamped to the dim."""

    def part(tensor: Any, dim: int, start: Any, length: Any) -> Any:
        return slice_(tensor, dim, start, start + length)

    replace_everywhere("part", split.part, part)


def solve_hints_at_once() -> None:
    """Values of all sizes are worked out whenever one has a new bound."""
    assert callable(Hints._is_bound_of_new_symbol)
    Hints._is_bound_of_new_symbol = lambda self, e: False


TECHNIQUES: dict[str, Callable[[], Any]] = {
    "sums and products are remembered": forget_arithmetic,
    "long sums are balanced trees": lambda: replace_everywhere("LEAF", expr.LEAF, UNBOUNDED),
    "answers are remembered until a fact is learned": lambda: before(
        Knowledge, "known", lambda it: it._answers.clear()
    ),
    "bounds are remembered on shared parts": lambda: before(Knowledge, "bounds", lambda it: it._bounds.clear()),
    "equalities are remembered on shared parts": lambda: before(Equalities, "resolve", lambda it: it._resolved.clear()),
    "facts empty only memos that read their symbols": lambda: before(Knowledge, "_take", forget_what_was_read),
    "symbols of short sums are remembered": forget_symbols,
    "comparisons with a number have a short way": lambda: replace_everywhere(
        "_is_short_and_linear", knowledge._is_short_and_linear, lambda e: False
    ),
    "only short sums are proved": lambda: replace_everywhere("_SHORT", knowledge._SHORT, UNBOUNDED),
    "a bound of a new size needs no new hints": solve_hints_at_once,
    "the scope is found without visiting a sum": visit_all_for_scope,
    "parts of known place are not clamped": clamp_parts,
    "no garbage is looked for while tracing": lambda: setattr(garbage, "uncollected", contextlib.nullcontext),
}


def trace(names: Sequence[str], iters: int, batch: int) -> dict[str, Any]:
    """Seconds of tracing without these techniques, and a digest of the program's result."""
    for name in names:
        TECHNIQUES[name]()
    host = host_pytorch.make_host("rushlight", "traced", 1)
    case = unbind_split_flip_cat(iters, batch)
    work = host.prepare(case, case.inputs())
    clock.reset()
    (result,) = host.arrays(work())
    return {"seconds": clock.spent_ms()["capture"] / 1e3, "digest": hashlib.sha256(result.tobytes()).hexdigest()}


def ask(names: Sequence[str], arguments: argparse.Namespace) -> dict[str, Any]:
    """`trace` in a process of its own; `LATE` for a digest where that takes too long."""
    line = [sys.executable, "-m", "tools.ablate_sizes", f"--iters={arguments.iters}", f"--batch={arguments.batch}"]
    try:
        limit = arguments.limit
        done = subprocess.run([*line, "--inside", *names], check=True, capture_output=True, text=True, timeout=limit)
    except subprocess.TimeoutExpired:
        return {"seconds": arguments.limit, "digest": LATE}
    return json.loads(done.stdout.splitlines()[-1])


def measure(arguments: argparse.Namespace) -> Table:
    """A row for each technique: the time without it, and the median of the ratios to the time with all of them."""
    rows = [["without", "tracing", "ratio"]]
    found: dict[str, list[tuple[float, float]]] = {name: [] for name in TECHNIQUES}
    late: set[str] = set()
    for _ in range(arguments.rounds):
        for name, times in found.items():
            if name in late:
                continue
            whole, part = ask([], arguments), ask([name], arguments)
            if part["digest"] == LATE:
                late.add(name)
            elif part["digest"] != whole["digest"]:
                raise AssertionError(f"another result without this: {name}")
            times.append((part["seconds"], whole["seconds"]))
    everything = statistics.median([whole for times in found.values() for _, whole in times])
    rows.append(["nothing", duration(everything), "1.00"])
    for name, times in found.items():
        text, ratio = duration(statistics.median([a for a, _ in times])), statistics.median([a / b for a, b in times])
        rows.append([name, *([f"> {text}", f"> {ratio:.0f}"] if name in late else [text, f"{ratio:.2f}"])])
    return Table("ablation", rows, [])


def main() -> None:
    """Measures, or traces in the process that measuring has started."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--iters", type=int, default=40)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--limit", type=float, default=120.0, help="seconds for a process")
    parser.add_argument("--inside", nargs="*", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.inside is not None:
        print(json.dumps(trace(arguments.inside, arguments.iters, arguments.batch)))
    else:
        print("\n".join(aligned(measure(arguments))))


if __name__ == "__main__":
    main()
