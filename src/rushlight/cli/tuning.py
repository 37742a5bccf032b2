"""`rushlight tune`: search the fastest tiles of matrix products, and show what was found."""

from __future__ import annotations

from typing import Annotated

import typer

from rushlight import tune
from rushlight.ir.choice import Product
from rushlight.ir.gemm_tile import choose_tile, narrow_products
from rushlight.runtime import llvm
from rushlight.support import settings
from rushlight.support.errors import require
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
    explain: Annotated[bool, typer.Option("--explain", help="Print each tile that is tried.")] = False,
) -> None:
    """Tune the product of two matrices that lie row by row; nothing is measured if it is known."""
    target = llvm.target_named(settings.get().target)
    valid = dtype in ("float32", "float64") or (dtype in DTYPES and dtype in narrow_products(target))
    require(valid, "A002", "tune: this machine has no product of that dtype", dtype=dtype)
    tile = choose_tile(dtype, target.vector_bytes, a_packed=False, b_packed=False)
    with settings.override(tuning_s=budget):
        tuner = tune.tuner_here(_print if explain else None)
    product = Product(tile, (1, rows, columns, inner), False)
    chosen = tuner.choose(product)
    record = tuner.records.get(tuner.machine, Problem.of(product).name)
    typer.echo(f"{tile_text(chosen)}  ({'' if record is None else record.measured})")


@app.command()
def records() -> None:
    """Show what was found, and where it is kept."""
    kept = tune.shared_records()
    typer.echo("kept by this process alone" if kept.path is None else str(kept.path))
    for record in kept.all():
        typer.echo(str(record))


def _print(problem: Problem, trial: Trial) -> None:
    if trial.seconds is None:
        typer.echo(f"{tile_text(trial.tile):45} gives other bits")
        return
    times = f"{1e3 * trial.seconds:10.3f} ms {1e3 * trial.best_seconds:10.3f} ms the best so far"
    typer.echo(f"{tile_text(trial.tile):45} {times}{'  taken' if trial.taken else ''}")
