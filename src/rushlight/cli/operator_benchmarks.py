"""`rushlight opbench`: variants of operators beside each other."""

from __future__ import annotations

import contextlib
import json
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, NamedTuple

import typer

import rushlight as rl
from rushlight.bench.contestants import find
from rushlight.bench.operators import metrics
from rushlight.bench.operators.catalog import BENCHMARKS
from rushlight.bench.operators.measuring import Effort, Running, Side, measure, side_of
from rushlight.bench.operators.record import BASELINE, FORWARD, MODES, ON_REQUEST, Benchmark, Problem, Shape
from rushlight.bench.records import Record
from rushlight.bench.reports.page import as_html
from rushlight.bench.reports.tables import aligned, machine_line, markdown_of
from rushlight.bench.results import ceilings_of, machine_record
from rushlight.cli.benchmarks import PeerPython
from rushlight.cli.values import known, names_in, progress, whole_numbers, write
from rushlight.support.errors import fail

ALL = "all"


class Wanted(NamedTuple):
    """What a call asks for, beside operators."""

    modes: Sequence[str]
    shapes: str
    shape: Shape | None
    only: Sequence[str]
    sides: Sequence[str]


def opbench(
    names: Annotated[list[str] | None, typer.Argument(help="Operators; `all` for every one.")] = None,
    listed: Annotated[
        bool, typer.Option("--list", help="Print operators with their sizes, sets and variants.")
    ] = False,
    only: Annotated[str | None, typer.Option(help="Variants, separated by commas.")] = None,
    mode: Annotated[str, typer.Option(help=f"{', '.join(MODES)}, separated by commas; or `all` there are.")] = FORWARD,
    show: Annotated[
        str, typer.Option("--metrics", help=f"Of {', '.join(metrics.METRICS)}, separated by commas.")
    ] = ",".join(metrics.DEFAULT),
    shapes: Annotated[
        str, typer.Option(help="A set of shapes: `small`, `default`, and others that --list names.")
    ] = "",
    splitk: Annotated[bool, typer.Option("--splitk", help="Products with long sums and few results.")] = False,
    shape: Annotated[str | None, typer.Option(help="One shape, as 512,512,512.")] = None,
    side_a: Annotated[str | None, typer.Option(help="A variant, with settings: compiled,NAME=VALUE.")] = None,
    side_b: Annotated[str | None, typer.Option(help="The same, to compare with the other side.")] = None,
    warm: Annotated[bool, typer.Option("--warm", help="Leave caches as calls leave them.")] = False,
    rounds: Annotated[int, typer.Option(min=1, help="Samples of each, taken in turns.")] = 15,
    budget: Annotated[float, typer.Option(min=0, help="Seconds of sampling for each shape.")] = 20.0,
    limit: Annotated[float, typer.Option(min=1, help="Seconds for an answer of a variant.")] = 300.0,
    threads: Annotated[int, typer.Option(min=0, help="Threads; 0 for all processors.")] = 0,
    peer_python: PeerPython = None,
    out: Annotated[Path | None, typer.Option("--json", help="Write all samples to this file.")] = None,
    table: Annotated[Path | None, typer.Option("--csv", help="Write all metrics to this file.")] = None,
    html: Annotated[Path | None, typer.Option(help="Write a page with charts to this file.")] = None,
    markdown: Annotated[bool, typer.Option("--markdown", help="Print tables in Markdown.")] = False,
) -> None:
    """Check variants of operators against float64, and time them in turns. Ends with 1 where one is wrong."""
    chosen = _benchmarks(names or ())
    if listed:
        typer.echo("\n".join([line for one in chosen for line in _described(one)]))
        return
    columns = known(show.split(","), metrics.METRICS, "opbench: there is no metric {}")
    modes = MODES if mode == ALL else known(mode.split(","), MODES, "opbench: there is no mode {}")
    sides = [text for text in (side_a, side_b) if text]
    if len(sides) == 1:
        raise typer.BadParameter("an A/B run has two sides", param_hint="--side-a, --side-b")
    sized = None if shape is None else tuple(whole_numbers(shape, "--shape"))
    asked = Wanted(modes, "splitk" if splitk else shapes, sized, names_in(only), sides)
    count = threads or rl.get_num_threads()
    sampled = any(metrics.METRICS[name].sampled for name in columns)
    effort = Effort(rounds if sampled else 0, budget, not warm)
    record = _run(chosen, asked, effort, peer_python or (), (count, limit))
    tables = metrics.tables_of(record, columns)
    lines = [line for one in tables for line in ["", one.title, *(markdown_of(one) if markdown else aligned(one))]]
    typer.echo("\n".join([machine_line(record), *lines]))
    write(out, json.dumps(record, indent=2) + "\n")
    write(table, metrics.as_csv([record]))
    write(html, as_html([record], lambda one: metrics.tables_of(one, columns)))
    raise typer.Exit(0 if metrics.accurate(record) else 1)


def _benchmarks(names: Sequence[str]) -> list[Benchmark]:
    """Those that are named; all if none is."""
    wanted = [part for name in names for part in name.split(",")]
    if not wanted or wanted == [ALL]:
        return list(BENCHMARKS.values())
    return [BENCHMARKS[name] for name in known(wanted, BENCHMARKS, "opbench: there is no operator {}")]


def _described(benchmark: Benchmark) -> Iterator[str]:
    """What `--list` prints of an operator."""
    yield f"{benchmark.name}({', '.join(benchmark.sizes)}): {benchmark.about}"
    yield f"    modes {', '.join(benchmark.modes())}; shapes {', '.join(benchmark.shapes)}"
    names = [one.name for one in benchmark.contenders()]
    gated = [f"{name} (needs {one.needs})" for name, one in benchmark.variants.items() if one.needs]
    yield f"    variants {', '.join([*names, *gated])}"


def _shapes_of(benchmark: Benchmark, asked: Wanted) -> Sequence[Shape]:
    """The shapes of an operator that a call asks for."""
    if asked.shape is not None:
        if len(asked.shape) != len(benchmark.sizes):
            hint = f"a shape of {benchmark.name} is {','.join(benchmark.sizes)}"
            fail("A002", f"opbench: {benchmark.name} has {len(benchmark.sizes)} sizes", shape=asked.shape, hint=hint)
        return [asked.shape]
    (name,) = known([asked.shapes or "default"], benchmark.shapes, f"opbench: {benchmark.name} has no shapes {{}}")
    return benchmark.shapes[name]


def _sides_of(benchmark: Benchmark, asked: Wanted) -> list[Side]:
    """Who runs an operator. Ends with status 2 for a variant that needs other hardware."""
    contenders = list(benchmark.contenders())
    for name in [*asked.only, *[side.split(",")[0] for side in asked.sides]]:
        gated = benchmark.variants.get(name)
        if gated is not None and gated.needs:
            raise typer.BadParameter(f"{benchmark.name}: {name} needs {gated.needs}, which is not here")
    if asked.sides:
        sides = [side_of(text, contenders, f"{label}: ") for label, text in zip("AB", asked.sides, strict=True)]
        if None in sides:
            raise typer.BadParameter("a side is VARIANT,NAME=VALUE,…, with a variant that --list names")
        return [side for side in sides if side is not None]
    if asked.only:
        message = f"opbench: there is no variant of {benchmark.name}, {{}}"
        wanted = [BASELINE, *known(asked.only, [one.name for one in contenders], message)]
    else:
        wanted = [one.name for one in contenders if one.name not in ON_REQUEST]
    return [Side(one.name, one, {}) for one in contenders if one.name in wanted]


def _run(
    benchmarks: Sequence[Benchmark], asked: Wanted, effort: Effort, pythons: Sequence[Path], process: tuple[int, float]
) -> Record:
    """Measures operators. Processes are kept from one operator to the next."""
    count, limit = process
    field = find(pythons, ("torch", "torch.compile") if pythons else ())
    places = {kind.framework: python for kind, python in field.pythons.items()}
    ceilings = ceilings_of(count) if effort.rounds else None
    problems = _problems(benchmarks, asked)
    cases: list[Record] = []
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="rushlight-opbench-")))
        running: dict[str, Running] = {}
        for problem in problems:
            entrants: list[Running] = []
            for side in _sides_of(problem.benchmark, asked):
                if side.contender.framework not in places:
                    continue
                if side.label not in running:
                    running[side.label] = Running(side, places[side.contender.framework], count, limit, folder)
                    stack.callback(running[side.label].close)
                entrants.append(running[side.label])
            cases.append(measure(problem, entrants, ceilings, effort, progress))
        who = {one.name: {"version": one.version, "interpreter": one.python} for one in running.values()}
    record = {"machine": machine_record(count), "contestants": who, "missing": field.missing, "cases": cases}
    return record if ceilings is None else {**record, "ceilings": ceilings.to_record()}


def _problems(benchmarks: Sequence[Benchmark], asked: Wanted) -> list[Problem]:
    """Operators at shapes in modes; an operator without gradients has one mode."""
    return [
        Problem(one, shape, mode)
        for one in benchmarks
        for mode in asked.modes
        if mode in one.modes()
        for shape in _shapes_of(one, asked)
    ]
