"""`rushlight tune`: search the fastest tiles of matrix products, and show what was found."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from rushlight import tune
from rushlight.cli.values import progress, whole_numbers
from rushlight.distributed.simulation.calibrating import measure_tables
from rushlight.distributed.simulation.costs import write_tables
from rushlight.ir.choice import Product
from rushlight.ir.gemm_tile import choose_tile, narrow_products
from rushlight.runtime import llvm
from rushlight.support import settings
from rushlight.support.errors import error, require
from rushlight.tune.exhaustive import SIZES, compare_with_all
from rushlight.tune.measure import Problem
from rushlight.tune.records import tile_text
from rushlight.tune.search import Trial

app = typer.Typer(help="Search the fastest tiles of matrix products, and show what was found.", no_args_is_help=True)

DTYPES = ("float32", "float64", "bfloat16", "int8")


@app.command()
def mm(
    rows: Annotated[int, typer.Argument(min=1)],
    columns: Annotated[int, typer.Argument(min=1)],
    inner: Annotated[int, typer.Argument(min=1)],
    dtype: Annotated[str, typer.Option(help=f"One of {', '.join(DTYPES)}.")] = "float32",
    budget: Annotated[int, typer.Option(min=0, help="Seconds for the search.")] = 10,
    explain: Annotated[bool, typer.Option("--explain", help="Print each tile that is tried, and a picture.")] = False,
) -> None:
    """Tune the product of two matrices that lie row by row; nothing is measured if it is known."""
    target = llvm.target_named(settings.get().target)
    valid = dtype in ("float32", "float64") or (dtype in DTYPES and dtype in narrow_products(target))
    require(valid, "A002", "tune: this machine has no product of that dtype", dtype=dtype)
    tile = choose_tile(dtype, target.vector_bytes, a_packed=False, b_packed=False)
    trials: list[Trial] = []

    def tell(problem: Problem, trial: Trial) -> None:
        trials.append(trial)
        _print(problem, trial)

    with settings.override(tuning_s=budget):
        tuner = tune.tuner_here(tell if explain else None)
    product = Product(tile, (1, rows, columns, inner), False)
    chosen = tuner.choose(product)
    if trials:
        typer.echo("\n".join(picture(trials)))
    record = tuner.records.get(tuner.machine, Problem.of(product).name)
    measured = "the model's choice: without a budget nothing is measured" if record is None else record.measured
    typer.echo(f"{tile_text(chosen)}  ({measured})")


@app.command()
def exhaustive(
    count: Annotated[int, typer.Option(min=1, help="Products, of twenty.")] = len(SIZES),
    budget: Annotated[int, typer.Option(min=0, help="Seconds for each search.")] = 10,
    bar: Annotated[float, typer.Option(min=1, help="What a chosen tile may take, as so many times the best.")] = 1.05,
) -> None:
    """Compare tiles that searches choose with the fastest of all. Records are not read or written."""
    target = llvm.target_named(settings.get().target)
    with settings.override(tuning_s=budget, cache=False):
        tuner = tune.tuner_here()
    worst = 1.0
    for rows, columns, inner in SIZES[:count]:
        tile = choose_tile("float32", target.vector_bytes, a_packed=False, b_packed=False, rows=rows)
        found = compare_with_all(tuner, Problem.of(Product(tile, (1, rows, columns, inner), False)))
        worst = max(worst, found.ratio)
        texts = f"{tile_text(found.chosen):40} {tile_text(found.best):40}"
        typer.echo(f"{rows}x{columns}x{inner:<6} {texts} {found.ratio:.3f} of {found.tried}")
    typer.echo(f"at most {worst:.3f} times the best of all")
    raise typer.Exit(0 if worst <= bar else 1)


@app.command()
def collectives(
    ranks: Annotated[str, typer.Option(help="Numbers of ranks, separated by commas.")] = "2,4",
) -> None:
    """Measure what collectives take between ranks of this machine, for simulations of jobs, and keep it."""
    counts = whole_numbers(ranks, "--ranks")
    require(min(counts) > 1, "A002", "tune: collectives are between at least two ranks", ranks=ranks)
    tables = measure_tables(counts, progress)
    for verb, by_ranks in tables.items():
        for count, table in by_ranks.items():
            times = " ".join([f"{size:.0f} B {1e6 * seconds:.0f} us," for size, seconds in table]).rstrip(",")
            typer.echo(f"{verb.value} of {count}: {times}")
    typer.echo(f"kept in {write_tables(tables)}")


@app.command()
def records() -> None:
    """Show what was found, and where it is kept."""
    kept = tune.shared_records()
    typer.echo("kept by this process alone" if kept.path is None else str(kept.path))
    for record in kept.all():
        typer.echo(str(record))


@app.command()
def merge(
    files: Annotated[list[Path], typer.Argument(help="Files of records, as `rushlight tune records` names.")],
) -> None:
    """Take the records of other files over; the last line about a kernel counts."""
    kept = tune.shared_records()
    for file in files:
        try:
            count = kept.merge(file)
        except (OSError, UnicodeDecodeError) as cause:
            raise error("A002", f"tune: {file} cannot be read", cause=str(cause)) from cause
        typer.echo(f"{count} records from {file}")


@app.command()
def export(file: Annotated[Path, typer.Argument(help="The file to write.")]) -> None:
    """Write what was found to a file that can be committed, and merged elsewhere."""
    found = tune.shared_records().all()
    try:
        file.write_text("".join([f"{record}\n" for record in sorted(map(str, found))]), encoding="utf-8")
    except OSError as cause:
        raise error("A002", f"tune: {file} cannot be written", cause=str(cause)) from cause
    typer.echo(f"{len(found)} records to {file}")


def picture(trials: Sequence[Trial]) -> list[str]:
    """The least time of each shape of a register tile, as a table: rows by `mr`, columns by vectors."""
    least: dict[tuple[int, int], float] = {}
    for trial in trials:
        if trial.seconds is not None:
            shape = (trial.tile.mr, trial.tile.vectors)
            least[shape] = min(trial.seconds, least.get(shape, math.inf))
    columns = sorted({vectors for _, vectors in least})
    lines = ["rows x vectors in registers, ms", "".join(["    ", *[f"{column:>9}" for column in columns]])]
    for row in sorted({rows for rows, _ in least}):
        cells = [f"{1e3 * least[row, column]:9.3f}" if (row, column) in least else " " * 9 for column in columns]
        lines.append("".join([f"{row:>4}", *cells]))
    return lines


def _print(problem: Problem, trial: Trial) -> None:
    if trial.seconds is None:
        typer.echo(f"{tile_text(trial.tile):45} gives other bits")
        return
    times = f"{1e3 * trial.seconds:10.3f} ms {1e3 * trial.best_seconds:10.3f} ms the best so far"
    typer.echo(f"{tile_text(trial.tile):45} {times}{'  taken' if trial.taken else ''}")
