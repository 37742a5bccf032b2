"""`rushlight aot`: native packages of exported programs."""

from __future__ import annotations

import runpy
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

import rushlight as rl
from rushlight.support.errors import fail, require


def aot(
    program: Annotated[str, typer.Argument(help="A file that rl.export.save wrote, or SCRIPT.py[:NAME].")],
    output: Annotated[Path, typer.Option("--output", "-o", help="The folder to write to.")] = Path("build"),
    name: Annotated[str, typer.Option(help="What the C functions' names begin with.")] = "model",
    target: Annotated[list[str] | None, typer.Option(help="A platform; may be given several times.")] = None,
    embed: Annotated[bool, typer.Option("--embed", help="Put the weights into the object.")] = False,
    shared: Annotated[bool, typer.Option("--shared", help="Write a shared library too.")] = False,
    check: Annotated[bool, typer.Option("--check", help="Compile the C example with cc, and compare.")] = False,
) -> None:
    """Write an exported program as an object file with a C header: it runs without Python."""
    console = Console(soft_wrap=True, highlight=False)
    exported = _program(program)
    made = rl.export.package(exported, output, name=name, targets=target, embed=embed, shared=shared)
    paths = [*made.objects.values(), made.library, made.header, made.example, made.manifest, made.weights]
    for path in paths:
        if path is not None:
            console.print(f"{path}  [dim]{path.stat().st_size:,} bytes[/dim]")
    if check:
        _check(made, console)


def _program(text: str) -> rl.export.ExportedProgram:
    """The program of a saved file, or of a script's global variable."""
    file, _, variable = text.partition(":")
    require(Path(file).is_file(), "A001", f"aot: there is no file {file}")
    if not file.endswith(".py"):
        return rl.export.load(text)
    space = runpy.run_path(file, run_name="__aot__")
    found = {key: value for key, value in space.items() if isinstance(value, rl.export.ExportedProgram)}
    if variable:
        require(variable in found, "A001", f"aot: {file} has no exported program {variable}", programs=list(found))
        return found[variable]
    if len(found) != 1:
        fail("A001", f"aot: {file} has {len(found)} exported programs", programs=list(found), hint="SCRIPT.py:NAME")
    return next(iter(found.values()))


def _check(made: rl.export.Package, console: Console) -> None:
    """Compiles the example, runs it on the inputs of a run, and compares the bytes of all results."""
    compiler = shutil.which("cc") or fail("A006", "aot: --check needs a C compiler named cc on PATH")
    run = made.run()
    obj = next((path for path in made.objects.values() if path.parent == made.header.parent), None)
    require(obj is not None, "A001", "aot: --check is for this machine's object alone", hint="leave --target out")
    with tempfile.TemporaryDirectory() as folder:
        binary = Path(folder) / made.name
        built = subprocess.run(
            [compiler, "-O1", str(made.example), str(obj), f"-I{made.header.parent}", "-lm", "-o", str(binary)],
            capture_output=True,
            text=True,
            check=False,
        )
        require(built.returncode == 0, "A006", f"aot: cc failed: {built.stderr.strip()[:500]}")
        if made.weights is not None:
            shutil.copy(made.weights, folder)
        run.write_inputs(Path(folder))
        ended = subprocess.run(
            [str(binary), *map(str, run.sizes)], cwd=folder, capture_output=True, text=True, check=False
        )
        require(
            ended.returncode == 0, "X001", f"aot: the example ended with {ended.returncode}: {ended.stderr.strip()}"
        )
        for title in run.differing(Path(folder)):
            fail("X001", f"aot: the example's {title} has other bits")
    sizes = ", ".join(f"{size.name}={value}" for size, value in zip(made.interface.sizes, run.sizes, strict=True))
    console.print(f"[green]cc and Rushlight agree to the bit[/green] ({sizes or 'no open sizes'})")
