"""`rushlight shrink`, `bisect` and `diff`: scripts of compiled graphs, and what is wrong with them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from rushlight.repro.bisecting import bisect as bisected
from rushlight.repro.differing import differences
from rushlight.repro.given import Given
from rushlight.repro.running import by_calls, digest
from rushlight.repro.script import read, script_of
from rushlight.repro.shrinking import shrink as shrunk
from rushlight.support import settings

SCRIPT = "A script that the setting RUSHLIGHT_REPRO had written."


def shrink(
    script: Annotated[Path, typer.Argument(help=SCRIPT)],
    output: Annotated[Path | None, typer.Option("--output", "-o", help="Where the smaller script is written.")] = None,
) -> None:
    """Find the smallest part of a graph whose compiled code is wrong, and write its script.

    Wrong is what gives other bits than the calls of the graph one by one. The script's digest is that of the calls.
    """
    given = read(script)
    with settings.override(**dict(given.settings)):
        graph = given.parsed
        found = shrunk(graph, [each.array() for each in given.inputs])
        inputs = [
            Given.of(array, call.type.dtype, seed)
            for seed, (call, array) in enumerate(zip(found.graph.parameters, found.arrays, strict=True))
        ]
        right = digest(by_calls(found.graph, [each.array() for each in inputs]))
        text = script_of(found.graph, inputs, right).text()
    path = output or script.with_name(f"{script.stem}-shrunk.py")
    path.write_text(text, encoding="utf-8")
    typer.echo(f"{len(found.graph.calls)} of {len(graph.calls)} calls, {found.tried} parts tried: {path}")


def bisect(script: Annotated[Path, typer.Argument(help=SCRIPT)]) -> None:
    """Say which pass makes results differ from those of the calls one by one; exit with 1 if one does."""
    given = read(script)
    with settings.override(**dict(given.settings)):
        finding = bisected(given.parsed, [each.array() for each in given.inputs])
    typer.echo(str(finding) if finding else "every stage gives what the calls give")
    raise typer.Exit(1 if finding else 0)


def diff(
    one: Annotated[Path, typer.Argument(help=SCRIPT)], other: Annotated[Path, typer.Argument(help="Another one.")]
) -> None:
    """Print how two scripts differ, up to the first stage of their compilation; exit with 1 if they do."""
    lines = list(differences(read(one), read(other), (one.stem, other.stem)))
    for line in lines or ["no difference"]:
        typer.echo(line)
    raise typer.Exit(1 if lines else 0)
