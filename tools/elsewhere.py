"""Runs packages of models where they are meant to run: other processors by emulation, Node, and under valgrind.

    apt-get install -y qemu-user gcc-aarch64-linux-gnu valgrind nodejs
    python -m tools.elsewhere [MODEL...]    a line for each model and place: how many of 20 sizes give the same bits

Places whose programs are not installed are left out. The models are those of `rushlight.bench.models`, and a table of
8-bit rows.
"""

from __future__ import annotations

import argparse
import functools
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np

import rushlight as rl
from rushlight.bench.models import MODELS
from rushlight.export import Dim, ExportedProgram, Package, export, package
from rushlight.export.packaging.checking import Inputs

RUNS = 20
FLAGS = ("-std=c11", "-O1")


class Place(NamedTuple):
    """Where a package runs: its target, the compiler of the C program, and what stands before the program's name."""

    target: str
    compiler: str | None
    before: tuple[str, ...]
    runs: int = RUNS


PLACES: dict[str, Place] = {
    "this machine": Place("linux-x86_64", "cc", ()),
    "x86-64-v3 (qemu, Haswell)": Place("linux-x86_64", "cc", ("qemu-x86_64", "-cpu", "Haswell")),
    "x86-64-v2 (qemu, Nehalem)": Place("linux-x86_64", "cc", ("qemu-x86_64", "-cpu", "Nehalem")),
    "AArch64 (qemu)": Place("linux-aarch64", "aarch64-linux-gnu-gcc", ("qemu-aarch64", "-L", "/usr/aarch64-linux-gnu")),
    "WebAssembly (Node)": Place("wasm32", None, ("node",)),
    "valgrind": Place("linux-x86_64", "cc", ("valgrind", "-q", "--error-exitcode=9"), 2),
}


class Rows(rl.nn.Module):
    """An embedding of 8-bit rows with a scale and an offset each: the mean of the rows of some ids."""

    def __init__(self, rows: int = 5000, width: int = 64) -> None:
        super().__init__()
        rng = np.random.default_rng(0)
        self.register_buffer("codes", rl.from_numpy(rng.integers(0, 256, (rows, width), np.uint8)))
        self.register_buffer("scale", rl.from_numpy(rng.random((rows, 1), np.float32)))
        self.register_buffer("low", rl.from_numpy(rng.standard_normal((rows, 1), np.float32)))

    def forward(self, ids: rl.Tensor) -> rl.Tensor:
        """[count] of int64 to [64]."""
        return (self.codes[ids].float() * self.scale[ids] + self.low[ids]).mean(0)


def programs(dtype: rl.dtype = rl.float32) -> dict[str, Callable[[], ExportedProgram]]:
    """The programs by name, those of models with weights and inputs of a dtype."""
    made: dict[str, Callable[[], ExportedProgram]] = {name: lambda name=name: _exported(name, dtype) for name in MODELS}
    return made | {"8-bit rows": _rows}


def _exported(name: str, dtype: rl.dtype) -> ExportedProgram:
    rl.manual_seed(0)
    model = MODELS[name]
    starts = {size: _start(extent.least, extent.most) for size, extent in model.sizes.items()}
    inputs = tuple([one.to(dtype) if one.is_floating_point() else one for one in model.inputs(*starts.values())])
    dims = {size: Dim(size, min=extent.least, max=extent.most or 4096) for size, extent in model.sizes.items()}
    shapes = tuple([{at: dims[size] for at, size in enumerate(sizes) if size} for sizes in model.dims])
    return export(model.make().eval().to(dtype), inputs, dynamic_shapes=shapes)


def _start(least: int, most: int | None) -> int:
    return max(least, min(7, most or 7))


def _rows() -> ExportedProgram:
    return export(Rows(), (rl.arange(9),), dynamic_shapes=({0: Dim("count", max=4096)},))


def inputs_of(name: str) -> Inputs | None:
    """What makes the inputs of a model, None where any integers will do."""
    model = MODELS.get(name)
    if model is None:
        return None
    return lambda sizes, seed: [made.numpy() for made in model.inputs(*[sizes[size] for size in model.sizes], seed)]


def built(made: Package, place: Place, folder: Path) -> tuple[str, ...]:
    """The command that runs a package in a place, in a folder with what it reads."""
    folder.mkdir()
    if made.weights is not None:
        shutil.copy(made.weights, folder)
    if place.compiler is None:
        for ending in ("wasm", "mjs"):
            shutil.copy(made.header.with_suffix(f".{ending}"), folder)
        return (*place.before, f"{made.name}.mjs")
    command = [place.compiler, *FLAGS, str(made.example), str(next(iter(made.objects.values()))), "-lm", "-o", "main"]
    subprocess.run([*command, f"-I{made.header.parent}"], cwd=folder, check=True)
    return (*place.before, "./main")


def equal(
    made: Package, command: tuple[str, ...], folder: Path, runs: int, inputs: Inputs | None, spread: int
) -> Iterator[tuple[str, float]]:
    """For each run what is wrong with it, and the seconds that it took."""
    for seed in range(runs):
        run = made.run(seed, inputs, spread)
        run.write_inputs(folder)
        start = time.perf_counter()
        ended = subprocess.run(
            [*command, *map(str, run.sizes)], cwd=folder, capture_output=True, text=True, check=False
        )
        seconds = time.perf_counter() - start
        wrong = f"exit {ended.returncode}: {ended.stderr.strip()[:200]}" if ended.returncode else ""
        if not wrong and run.differing(folder):
            wrong = f"other bits for sizes {run.sizes}"
        yield wrong, seconds


def main() -> None:
    """Print a line for each model and place."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", metavar="MODEL")
    parser.add_argument("--runs", type=int, default=RUNS)
    parser.add_argument("--spread", type=int, default=32, help="the least sizes and how much more; few for emulation")
    parser.add_argument("--place", action="append", choices=PLACES)
    options = parser.parse_args()
    for name, make in programs().items():
        if options.models and name not in options.models:
            continue
        try:
            program = make()
        except rl.RushlightError as error:
            print(f"{name:12} {error.code}: {str(error).splitlines()[0]}", flush=True)
            continue
        with tempfile.TemporaryDirectory() as folder:
            for title, place in PLACES.items():
                if options.place and title not in options.place:
                    continue
                if place.before and shutil.which(place.before[0]) is None:
                    continue
                said = line(name, program, place, min(place.runs, options.runs), Path(folder), options.spread)
                print(f"{name:12} {title:28} {said}", flush=True)


@functools.lru_cache(maxsize=4)
def packaged(program: ExportedProgram, target: str, folder: Path) -> Package:
    """The package for a target, which several places run."""
    return package(program, folder / target, targets=[target])


def line(name: str, program: ExportedProgram, place: Place, runs: int, folder: Path, spread: int) -> str:
    """What a place says of a program."""
    try:
        made = packaged(program, place.target, folder)
        with tempfile.TemporaryDirectory() as here:
            inside = Path(here) / "inside"
            found = list(equal(made, built(made, place, inside), inside, runs, inputs_of(name), spread))
    except rl.RushlightError as error:
        return f"{error.code}: {str(error).splitlines()[0]}"
    wrong = [problem for problem, _ in found if problem]
    median = sorted([seconds for _, seconds in found])[len(found) // 2]
    shown = f"; {wrong[0]}" if wrong else ""
    return f"{len(found) - len(wrong)} of {len(found)}, {median * 1e3:.0f} ms a process{shown}"


if __name__ == "__main__":
    main()
