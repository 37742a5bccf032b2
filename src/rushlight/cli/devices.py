"""`rushlight device`: the devices that are installed, and a new one's package."""

from __future__ import annotations

import keyword
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

import rushlight as rl
from rushlight.support.errors import RushlightError, fail, require

app = typer.Typer(help="Devices beside the CPU.", no_args_is_help=True)

_PROJECT = """\
[build-system]
requires = ["hatchling>=1.27"]
build-backend = "hatchling.build"

[project]
name = "rushlight-{name}"
version = "0.1.0"
description = "The device {name} for Rushlight"
requires-python = ">=3.11"
dependencies = ["rushlight"]

[project.entry-points."rushlight.backends"]
{name} = "{name}:{cls}"

[tool.hatch.build.targets.wheel]
packages = ["src/{name}"]
"""

_MODULE = '''\
"""{name}: a device for Rushlight. It has memory of its own and one kernel; what it lacks the CPU does, on copies.

    pip install -e .
    pytest -p rushlight.testing.device --device {name} --tier memory

Its memory is arrays of the host by number, which stand for the device's own: replace `allocate`, `free`, `write` and
`read` by what your driver does. Then add kernels, or `compile`, and ask the next tier.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

import rushlight as rl
from rushlight.backends import Region

_SHIFT = 40  # an address is the number of an array, and a place in it


class {cls}(rl.backends.Backend):
    """The device."""

    name = "{name}"

    def __init__(self) -> None:
        self._arrays: dict[int, NDArray[np.uint8]] = {{}}
        self._made = 0
        self.kernels = {{"neg": self._neg}}

    # Memory.

    def allocate(self, nbytes: int) -> int | None:
        """Return the address of fresh memory; None if there is not that much."""
        self._made += 1
        self._arrays[self._made] = np.empty(nbytes, np.uint8)
        return self._made << _SHIFT

    def free(self, address: int) -> None:
        """Take memory back."""
        del self._arrays[address >> _SHIFT]

    def write(self, address: int, data: NDArray[np.uint8]) -> None:
        """Copy bytes of the host to the device."""
        self._at(address, data.size)[:] = data

    def read(self, address: int, data: NDArray[np.uint8]) -> None:
        """Copy bytes of the device to the host."""
        data[:] = self._at(address, data.size)

    def _at(self, address: int, nbytes: int) -> NDArray[np.uint8]:
        start = address & ((1 << _SHIFT) - 1)
        return self._arrays[address >> _SHIFT][start : start + nbytes]

    # Kernels, by name of the operator: `rushlight ops list` has the names, `rushlight ops coverage` what answers them.

    def _neg(self, results: Sequence[Region], operands: Sequence[object], attrs: Mapping[str, object]) -> object:
        (x,) = operands
        if not isinstance(x, Region) or x.dtype is not rl.float32:
            return NotImplemented  # the next way is tried: in parts, by `compile`, on the CPU
        source = x.shown(self._at(x.address, x.nbytes))
        results[0].shown(self._at(results[0].address, results[0].nbytes))[...] = -source
        return None
'''


@app.command("list")
def list_devices() -> None:
    """Print the devices, what each brings, and what it lacks here."""
    table = Table("device", "operators by", "here")
    table.add_row("cpu", "its code generator", "works")
    table.add_row("meta", "shapes alone", "works")
    for name in rl.backends.installed():
        table.add_row(name, *_described(name))
    Console().print(table)


def _described(name: str) -> tuple[str, str]:
    try:
        backend = rl.backends.get(name)
    except RushlightError as problem:
        return "", f"{problem.code}: {problem.message}"
    ways = [f"{len(backend.kernels)} kernels"] if backend.kernels else []
    if backend.compiles:
        ways.append("its code generator")
    return " and ".join(ways) or "the CPU", "; ".join(backend.lacks()) or "works"


@app.command()
def new(
    name: Annotated[str, typer.Argument(help="The name of the device.")],
    into: Annotated[Path, typer.Option(help="The folder in which the package's folder is made.")] = Path(),
) -> None:
    """Write the package of a new device, which passes tier 0 of the questions that devices are asked."""
    valid = name.isidentifier() and name.islower() and not keyword.iskeyword(name)
    hint = "such as slate"
    require(valid, "A002", "device new: a name is a lower-case identifier", given=name, hint=hint)
    if name in ("cpu", "meta", *rl.backends.installed()):
        fail("A002", f"device new: there already is a device {name}", hint="take another name")
    folder = into / f"rushlight-{name}"
    if folder.exists():
        fail("A002", f"device new: {folder} is there already", hint="take another name, or another --into")
    source = folder / "src" / name
    source.mkdir(parents=True)
    names = {"name": name, "cls": name.title().replace("_", "")}
    (folder / "pyproject.toml").write_text(_PROJECT.format(**names), encoding="utf-8")
    (source / "__init__.py").write_text(_MODULE.format(**names), encoding="utf-8")
    typer.echo(f"{folder}: pip install -e {folder}")
    typer.echo(f"then: pytest -p rushlight.testing.device --device {name} --tier memory")
