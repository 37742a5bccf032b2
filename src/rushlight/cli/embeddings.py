"""`rushlight emb`: plans of embedding tables on ranks, and serving them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from rushlight.recsys.distributed.measuring import configurations, measured_steps
from rushlight.recsys.inference import Limits, PredictModule, Service, listening
from rushlight.recsys.inference import run as run_service
from rushlight.recsys.measuring import lookups, measure
from rushlight.recsys.planner import (
    EmbeddingShardingPlanner,
    EmbeddingStats,
    FixedPercentageStorageReservation,
    Plan,
    SearchSettings,
    Topology,
    Workload,
    calibrate,
    explain,
    rank_correlation,
)
from rushlight.recsys.planner.workload import constants_lines
from rushlight.recsys.quant import open_tables
from rushlight.support.errors import fail

app = typer.Typer(help="Embedding tables: plans of which rank holds what, and serving.", no_args_is_help=True)

Text = Annotated[Path, typer.Argument(help="A TOML text: docs/recsys-planner.md has an example.")]
Into = Annotated[Path | None, typer.Option("-o", "--output", help="Where the text is written; otherwise printed.")]


@app.command()
def plan(
    description: Text,
    output: Into = None,
    stats: Annotated[bool, typer.Option(help="Print statistics too.")] = False,
    effort: Annotated[int, typer.Option(min=1, help="Placements that the search tries.")] = 50_000,
    milp_nodes: Annotated[int, typer.Option(min=0, help="Nodes of a mixed integer programme; 0 for none.")] = 50,
    seed: Annotated[int, typer.Option(min=0, help="The seed of the search.")] = 0,
) -> None:
    """Make a plan for tables that a text describes."""
    workload = Workload.parse(_read(description))
    planner = EmbeddingShardingPlanner(
        workload.topology,
        workload.batch_size,
        constraints=workload.constraints,
        storage_reservation=FixedPercentageStorageReservation(workload.reserve),
        search=SearchSettings(effort=effort, milp_nodes=milp_nodes, seed=seed),
    )
    made = planner.plan(workload.tables)
    _write(made.text(), output)
    if stats:
        typer.echo(EmbeddingStats(made).text(), nl=False)


@app.command()
def stats(
    plan: Text,
    svg: Annotated[Path | None, typer.Option(help="Write a picture of the ranks to this file.")] = None,
    table: Annotated[str | None, typer.Option("--explain", help="Say why this table is where it is.")] = None,
) -> None:
    """Print what a plan costs, by rank and by table."""
    read = Plan.parse(_read(plan))
    figures = EmbeddingStats(read)
    typer.echo(explain(read, table) if table is not None else figures.text(), nl=False)
    if svg is not None:
        svg.write_text(figures.svg(), encoding="utf-8")


@app.command()
def check(
    plan: Text,
    description: Annotated[Path | None, typer.Argument(help="The text of the tables that the plan is for.")] = None,
) -> None:
    """Check that a plan covers its tables, fits into memory, and is for the tables of a text."""
    read = Plan.parse(_read(plan))
    if description is None:
        read.check()
    else:
        workload = Workload.parse(_read(description))
        room = FixedPercentageStorageReservation(workload.reserve).reserve(workload.topology, ())
        read.check(workload.tables, room)
    typer.echo(EmbeddingStats(read).summary())


@app.command("calibrate")
def calibrate_constants(
    output: Into = None,
    count: Annotated[int, typer.Option(min=8, help="How many lookups are measured.")] = 50,
    steps: Annotated[int, typer.Option(min=0, help="Steps of divided tables that are measured too, on 2 ranks.")] = 0,
) -> None:
    """Measure lookups on this machine, and write the constants of the estimator that fit them."""
    bandwidth = Topology(1).ddr_mem_bw
    measured = [measure(*lookup) for lookup in lookups(count)]
    fitted = calibrate(measured, bandwidth)
    _write("\n".join(constants_lines(fitted.constants, "[topology.constants]")[1:]) + "\n", output)
    typer.echo(
        f"# {count} lookups: rank correlation {fitted.rank_correlation:.3f}, median error {fitted.median_error:.0%}",
        err=output is None,
    )
    if steps:
        plans = configurations(steps, Topology(2, "cpu", constants=fitted.constants))
        correlation = rank_correlation([plan.bottleneck_ms for plan in plans], measured_steps(plans, 2))
        typer.echo(f"# {steps} steps on 2 ranks: rank correlation {correlation:.3f}", err=output is None)


@app.command()
def serve(
    tables: Annotated[Path, typer.Argument(help="A file that rushlight.recsys.quant.save_tables wrote.")],
    host: Annotated[str, typer.Option(help="The address to listen at; 127.0.0.1 is this machine alone.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="The port; 0 is a free one.")] = 8000,
    max_batch: Annotated[int, typer.Option(min=1, help="Examples that are answered together.")] = 512,
    max_delay_ms: Annotated[float, typer.Option(min=0, help="How long a request waits for others.")] = 1.0,
    max_request_bytes: Annotated[int, typer.Option(min=1, help="Bytes of a request.")] = 1 << 20,
    max_waiting: Annotated[int, typer.Option(min=1, help="Requests that wait; others are answered by 503.")] = 1024,
) -> None:
    """Answer HTTP requests for rows of embedding tables: docs/recsys-serving.md."""
    predict = PredictModule.of_tables(open_tables(tables))
    limits = Limits(request_bytes=max_request_bytes, waiting=max_waiting, batch=max_batch, delay=max_delay_ms / 1000)
    listener = listening(host, port)
    service = Service(predict, limits)
    typer.echo(f"serving {len(predict.inputs.features)} features at http://{host}:{listener.getsockname()[1]}")
    run_service(service, listener)


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as cause:
        fail("E023", f"{path} cannot be read: {cause}", hint="the path of a TOML text in UTF-8")


def _write(text: str, output: Path | None) -> None:
    if output is None:
        typer.echo(text, nl=False)
    else:
        output.write_text(text, encoding="utf-8")
