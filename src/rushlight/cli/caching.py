"""`rushlight cache ls|clear|verify|pack|import`."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from rushlight.build.cache_archive import pack as write_archive
from rushlight.build.cache_archive import unpack
from rushlight.runtime import objects

app = typer.Typer(help="Look at, empty, check or carry the cache of compiled code.", no_args_is_help=True)


@app.command()
def ls() -> None:
    """List what is in the cache, the most recently used first."""
    cache = objects.shared()
    entries = cache.ls()
    table = Table(box=None, pad_edge=False)
    table.add_column("key", no_wrap=True)
    table.add_column("size", justify="right")
    table.add_column("last used", justify="right")
    for entry in entries:
        table.add_row((entry.key or "corrupt")[:24], size_text(entry.size_bytes), age_text(time.time() - entry.used))
    console = Console()
    if entries:
        console.print(table)
    total = size_text(sum([entry.size_bytes for entry in entries]))
    limit = size_text(cache.limit_bytes)
    console.print(
        f"{len(entries)} entries, {total} of at most {limit}, in {cache.directory}", highlight=False, soft_wrap=True
    )


@app.command()
def clear() -> None:
    """Remove everything from the cache."""
    cache = objects.shared()
    size = size_text(cache.size_bytes())
    typer.echo(f"removed {cache.clear()} entries, {size}, from {cache.directory}")


@app.command()
def verify() -> None:
    """Check every entry; exit with 1 if one is corrupt."""
    cache = objects.shared()
    (count, _), corrupt = cache.usage(), cache.verify()
    for path in corrupt:
        typer.echo(f"corrupt: {path}")
    typer.echo(f"{count} entries, {len(corrupt)} corrupt")
    if corrupt:
        typer.echo("they are ignored when met; `rushlight cache clear` removes them")
        raise typer.Exit(1)


@app.command()
def pack(file: Annotated[Path, typer.Argument(help="the archive to write")]) -> None:
    """Write the cache to an archive that machines with the same processor and versions import."""
    count = write_archive(objects.shared(), file)
    typer.echo(f"{count} entries in {file}, {size_text(file.stat().st_size)}")


@app.command(name="import")
def import_archive(
    file: Annotated[Path, typer.Argument(help="an archive of `rushlight cache pack`")],
    adopt: Annotated[
        bool, typer.Option("--adopt", help="take code of another processor whose features this one has")
    ] = False,
) -> None:
    """Put the entries of an archive into the cache."""
    cache = objects.shared()
    typer.echo(f"{unpack(file, cache, adopt)} entries of {file} in {cache.directory}")


def size_text(size_bytes: float) -> str:
    """A size for people."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if size_bytes < 1024 or unit == "GiB":
            return f"{size_bytes:.0f} {unit}" if unit == "B" else f"{size_bytes:.1f} {unit}"
        size_bytes /= 1024
    return ""


def age_text(seconds: float) -> str:
    """A time ago for people."""
    for unit, length in (("days", 86_400), ("hours", 3_600), ("minutes", 60)):
        if seconds >= 2 * length:
            return f"{seconds / length:.0f} {unit} ago"
    return "just now"
