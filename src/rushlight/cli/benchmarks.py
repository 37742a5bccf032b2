"""`rushlight bench ops|models`."""

from __future__ import annotations

import json
import platform
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

import rushlight as rl
from rushlight.bench.cases import CASES
from rushlight.bench.contestants import Peer, Rushlight
from rushlight.bench.peak import FmaPeak
from rushlight.bench.startup import first_steps, import_seconds, peer_first_step
from rushlight.bench.timing import Contestant, Samples, take_turns
from rushlight.runtime import llvm
from rushlight.support.errors import error, fail

app = typer.Typer(help="Measure, alone or beside torch in another interpreter.", no_args_is_help=True)

PeerPython = Annotated[Path | None, typer.Option(help="An interpreter that has torch, to measure beside.")]
Rounds = Annotated[int, typer.Option(min=1, help="Samples of each, taken in turns.")]
Threads = Annotated[int, typer.Option(min=0, help="Threads for each contestant; 0 for all processors.")]
Json = Annotated[Path | None, typer.Option("--json", help="Write all samples to this file.")]
Only = Annotated[list[str] | None, typer.Argument(help="Cases; all by default.")]


@app.command()
def ops(
    only: Only = None, peer_python: PeerPython = None, rounds: Rounds = 15, threads: Threads = 0, out: Json = None
) -> None:
    """Time single operators; matrix products also as a share of the processor's peak, measured in the same run."""
    contestants = _contestants(peer_python)
    count = threads or rl.get_num_threads()
    peak = FmaPeak()
    peaks: list[float] = []
    found: list[Samples] = []
    for name in _cases("ops", only):
        peaks += [peak.sample(count) for _ in range(3)]
        found.append(_measure(name, contestants, rounds, count))
    peaks += [peak.sample(count) for _ in range(3)]
    _close(contestants)
    _print(found, count, max(peaks))
    _write(out, {**_machine(contestants, count), "peak_gflop_per_s": peaks, "cases": [one.to_dict() for one in found]})


@app.command()
def models(
    only: Only = None, peer_python: PeerPython = None, rounds: Rounds = 15, threads: Threads = 0, out: Json = None
) -> None:
    """Time the demo's training step, the import, and the first step with an empty and with a warm cache."""
    contestants = _contestants(peer_python)
    count = threads or rl.get_num_threads()
    found = [_measure(name, contestants, rounds, count) for name in _cases("models", only)]
    _close(contestants)
    _print(found, count, None)
    cold, warm = first_steps(min(rounds, 5))
    imports = import_seconds(rounds)
    starts: dict[str, float] = {
        "import, best": min(imports),
        "import, median": statistics.median(imports),
        "first step, empty cache": cold.seconds,
        "first step, warm cache": warm.seconds,
        "first step, warm cache, beyond import": warm.beyond_import,
    }
    if peer_python is not None:
        starts["first step of torch.compile, empty cache"] = peer_first_step(peer_python)
    for name, seconds in starts.items():
        typer.echo(f"{name:<42}{seconds * 1e3:>10.1f} ms")
    _write(out, {**_machine(contestants, count), "start_s": starts, "cases": [one.to_dict() for one in found]})


def _contestants(peer_python: Path | None) -> list[Contestant]:
    return [Rushlight(), *([Peer(peer_python)] if peer_python is not None else [])]


def _close(contestants: Sequence[Contestant]) -> None:
    for contestant in contestants:
        if isinstance(contestant, Peer):
            contestant.close()


def _cases(family: str, only: Sequence[str] | None) -> list[str]:
    names = [case.name for case in CASES.values() if case.family == family]
    for name in only or ():
        if name not in names:
            fail("A002", f"bench: there is no case {name}", hint=f"one of {', '.join(names)}")
    return list(only or names)


def _measure(name: str, contestants: Sequence[Contestant], rounds: int, threads: int) -> Samples:
    case = CASES[name]
    return take_turns(name, case.flops, case.bytes, case.repeat, contestants, rounds, threads)


def _print(found: Sequence[Samples], threads: int, peak: float | None) -> None:
    """A row for each case: milliseconds and rates of each contestant, the share of the peak, and the ratio of times."""
    names = list(found[0].seconds)
    head = ["case", *[column for name in names for column in (f"{name} ms", "GFLOP/s", "GB/s")]]
    head += ["of peak"] * (peak is not None) + ["ratio"] * (len(names) > 1)
    rows = [head]
    for one in found:
        cells = [one.case]
        for name in names:
            seconds = one.median(name)
            cells += [f"{seconds * 1e3:.3f}", f"{one.flops / seconds / 1e9:.1f}", f"{one.bytes / seconds / 1e9:.1f}"]
        if peak is not None:
            cells.append(f"{one.flops / one.median(names[0]) / 1e9 / peak:.0%}")
        if len(names) > 1:
            cells.append(f"{one.ratio(names[0], names[1]):.3f}")
        rows.append(cells)
    widths = [max([len(row[column]) for row in rows]) for column in range(len(head))]
    typer.echo(f"{threads} threads" + (f", peak {peak:.0f} GFLOP/s of multiply-adds" if peak else ""))
    for row in rows:
        first, *rest = [(text.ljust if not column else text.rjust)(widths[column]) for column, text in enumerate(row)]
        typer.echo("  ".join([first, *rest]))


def _machine(contestants: Sequence[Contestant], threads: int) -> dict[str, Any]:
    versions = {"rushlight": rl.__version__, "python": platform.python_version()}
    versions |= {one.name: one.version for one in contestants if isinstance(one, Peer)}
    return {"versions": versions, "processor": llvm.host_target().cpu, "threads": threads}


def _write(out: Path | None, content: dict[str, Any]) -> None:
    if out is None:
        return
    try:
        out.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")
    except OSError as cause:
        raise error("P003", f"bench: {out} could not be written: {cause.strerror}") from cause
