"""The commands, and what all of them do with errors."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Annotated

import typer

from rushlight import __version__
from rushlight.cli import (
    benchmarks,
    caching,
    devices,
    embeddings,
    explaining,
    language,
    launching,
    machine,
    operator_benchmarks,
    operators,
    packaging,
    programs,
    reproducing,
    training,
    tuning,
)
from rushlight.support.errors import RushlightError

app = typer.Typer(
    name="rushlight",
    help="Rushlight: a tensor framework and compiler with PyTorch's API, in Python alone.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command("demo")(training.demo)
app.command("generate")(training.generate)
app.command("embed")(language.embed)
app.command("chat")(language.chat)
app.command("info")(machine.info)
app.command("doctor")(machine.doctor)
_SCRIPT = {"allow_extra_args": True, "ignore_unknown_options": True, "allow_interspersed_args": False}
app.command("explain", context_settings=_SCRIPT)(explaining.explain)
app.command("run", context_settings={**_SCRIPT, "help_option_names": []})(programs.run)
app.command("aot")(packaging.aot)
app.command("shrink")(reproducing.shrink)
app.command("bisect")(reproducing.bisect)
app.command("diff")(reproducing.diff)
app.command("launch", context_settings=_SCRIPT)(launching.launch)
app.command("opbench")(operator_benchmarks.opbench)
app.add_typer(caching.app, name="cache")
app.add_typer(operators.app, name="ops")
app.add_typer(operators.dispatch_app, name="dispatch")
app.add_typer(devices.app, name="device")
app.add_typer(embeddings.app, name="emb")
app.add_typer(tuning.app, name="tune")
app.add_typer(benchmarks.app, name="bench")


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"rushlight {__version__}")
        raise typer.Exit


@app.callback()
def rushlight(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Rushlight: a tensor framework and compiler with PyTorch's API, in Python alone."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Runs a command and ends the process: 0, or 1 for a registered error, 2 for a wrong call, 130 for Ctrl-C."""
    try:
        app(None if arguments is None else list(arguments), prog_name="rushlight")
    except RushlightError as problem:
        typer.echo(describe(problem), err=True)
        sys.exit(1)


def describe(problem: RushlightError) -> str:
    """An error for people at a terminal: code, message, values and hint, without a line of a program."""
    lines = [f"error {problem.code}: {problem.message}"]
    lines += [f"    {name}: {value}" for name, value in problem.values.items()]
    if problem.hint:
        lines.append(f"  hint: {problem.hint}")
    return "\n".join([*lines, *getattr(problem, "__notes__", ())])
