"""`package`: writes an object file, a header, weights and a manifest."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Sequence
from pathlib import Path

from rushlight.codegen.llvm.interface.records import Interface
from rushlight.data.checkpoint import write_parts
from rushlight.data.safetensors_file import SafetensorsFile, safetensors_parts
from rushlight.data.source import Source
from rushlight.export.packaging.checking import Inputs, Run, run_of
from rushlight.export.packaging.example import example_text
from rushlight.export.packaging.example_script import script_text
from rushlight.export.packaging.header import header_text
from rushlight.export.packaging.interface import interface_of, states_of, weights_of
from rushlight.export.packaging.manifest import manifest_text
from rushlight.export.packaging.shared_library import shared_library
from rushlight.export.packaging.variants import PLATFORMS, WASM, Objects
from rushlight.export.program import ExportedProgram
from rushlight.runtime import llvm
from rushlight.support import garbage
from rushlight.support.errors import fail, require
from rushlight.support.frozen import frozen

_SHARED = "linux-x86_64"
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]*")


@frozen(eq=False)
class Package:
    """What `package` wrote: the paths of an object for each platform, and of the other files."""

    program: ExportedProgram
    name: str
    objects: dict[str, Path]
    library: Path | None
    header: Path
    example: Path
    manifest: Path
    weights: Path | None
    interface: Interface

    def __repr__(self) -> str:
        return f"Package({self.name!r} in {str(self.header.parent)!r}, for {', '.join(self.objects)})"

    def run(self, seed: int = 0, inputs: Inputs | None = None, spread: int = 32) -> Run:
        """A run of the program by Rushlight itself, on random values: what the package has to give, bit for bit.

        `inputs` gives arrays for sizes by name and the seed, where any integers of 0 and 1 will not do. Sizes are at
        most the least ones and `spread`.
        """
        return run_of(self.program, self.interface, seed, inputs, spread)


def package(
    program: ExportedProgram,
    folder: str | os.PathLike[str],
    *,
    name: str = "model",
    targets: Sequence[str] | None = None,
    embed: bool = False,
    shared: bool = False,
) -> Package:
    """Write an exported program as native code with a C header.

    The folder gets `name.o`, `name.h`, `name.json`, an example `name_main.c`, and the weights as `name.safetensors`.
    A C program includes the header and is linked with the object (and `-lm`); it passes sizes, pointers, memory for
    intermediate values and, if it likes, a function for parallel loops. The code inside is for x86-64-v2, v3 and v4,
    and the processor is asked at run time; it has no variables, so any threads may call it.

    `targets` are platforms: "linux-x86_64", "linux-aarch64", "windows-x86_64", "macos-x86_64", "macos-aarch64"; by
    default this machine's; also "wasm32", whose object is a module of WebAssembly, `name.wasm`, with a script for Node,
    `name.mjs`. Of several, each has a folder for its object. `embed` puts the weights into the object.
    `shared` adds `libname.so` for linux-x86_64, which needs no linker and no C library.
    Tensors that the program writes to (running statistics, the parameters of a training step) are arguments of the
    function, and their first values are in the weights' file.

    Equal programs give equal bytes. P010 where a part of the program needs Python; P011 for an unknown platform, or a
    name that C does not allow.

    >>> program = rl.export.export(model, (rl.ones(3, 8),))
    >>> rl.export.package(program, "build/", name="scorer")
    """
    require(isinstance(program, ExportedProgram), "A001", "package: this is no exported program", got=type(program))
    require(_NAME.fullmatch(name), "P011", "package: the name is no identifier of C", name=name)
    platforms = (_platform_here(),) if targets is None else tuple(targets)
    for target in platforms:
        known = ", ".join(PLATFORMS)
        require(
            target in PLATFORMS, "P011", "package: there is no such platform", target=target, hint=f"one of {known}"
        )
    require(platforms, "P011", "package: targets names no platform")
    with garbage.uncollected():
        return _Writer(program, Path(folder), name, platforms, embed, shared).written()


class _Writer:
    def __init__(
        self, program: ExportedProgram, folder: Path, name: str, platforms: Sequence[str], embed: bool, shared: bool
    ) -> None:
        self.program = program
        self.folder = folder
        self.name = name
        self.platforms = platforms
        self.embed = embed
        self.shared = shared
        self.states = states_of(program)
        weights = weights_of(program)
        parts = safetensors_parts({**weights, **self.states}, {})
        self.weights = b"".join(map(bytes, parts)) if weights or self.states else b""
        self.weights_file = f"{name}.safetensors"
        places = SafetensorsFile(Source(self.weights_file, self.weights)).places() if self.weights else {}
        self.interface = interface_of(program, name, {key: place[2] for key, place in places.items()})
        self.objects = Objects(program.graph, self.interface)

    def written(self) -> Package:
        """Writes all files."""
        embedded = self.embed and self.interface.has_weights
        objects: dict[str, Path] = {}
        messages: tuple[str, ...] = ()
        for platform in self.platforms:
            built = self.objects.build(PLATFORMS[platform], self.weights if embedded else None)
            messages = built.messages
            folder = self.folder if len(self.platforms) == 1 else self.folder / platform
            ending = "wasm" if platform == WASM else "o"
            objects[platform] = self.write(folder / f"{self.name}.{ending}", built.obj)
            if platform == WASM:
                self.write(folder / f"{self.name}.mjs", script_text(self.interface, self.outside(embedded)).encode())
        library = self.write_library(self.weights if embedded else None) if self.shared else None
        header = header_text(self.interface, messages, embedded, self.weights_file)
        keeps_file = bool(self.weights) and ((self.interface.has_weights and not embedded) or bool(self.states))
        weights = self.write(self.folder / self.weights_file, self.weights) if keeps_file else None
        manifest = manifest_text(self.program, self.interface, messages, self.platforms, self.weights_file, embedded)
        return Package(
            self.program,
            self.name,
            objects,
            library,
            self.write(self.folder / f"{self.name}.h", header.encode()),
            self.write(self.folder / f"{self.name}_main.c", self.example(embedded).encode()),
            self.write(self.folder / f"{self.name}.json", manifest.encode()),
            weights,
            self.interface,
        )

    def example(self, embedded: bool) -> str:
        """The text of the C program."""
        return example_text(self.interface, self.outside(embedded))

    def outside(self, embedded: bool) -> dict[str, int] | None:
        """The file of weights and its bytes; None where a caller passes none."""
        outside = self.interface.has_weights and not embedded
        return {self.weights_file: len(self.weights)} if outside else None

    def write_library(self, weights: bytes | None) -> Path:
        """Writes the shared library."""
        built = self.objects.build(PLATFORMS[_SHARED], weights, alone=True)
        file = f"lib{self.name}.so"
        exported = [f"{self.name}_{function}" for function in ("arena_size", "level", "run")]
        return self.write(self.folder / file, shared_library(built.obj, file, exported))

    def write(self, path: Path, data: bytes) -> Path:
        """Writes one file, whole or not at all."""
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as cause:
            fail("P003", f"package: {path.parent} could not be made: {cause.strerror}")
        write_parts((data,), path)
        return path


def _platform_here() -> str:
    system = {"linux": "linux", "win32": "windows", "darwin": "macos"}.get(sys.platform, "linux")
    return f"{system}-{llvm.baseline_target().architecture}"
