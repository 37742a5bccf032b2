"""One framework in an interpreter of its own: `python worker.py FRAMEWORK MODE THREADS`, driven over pipes.

`python worker.py` alone says which frameworks the interpreter has. This is a script: a peer's interpreter need not
have Rushlight. There the name `rushlight` means a package with our modules and the attributes of torch, or none.
"""

from __future__ import annotations

import importlib
import importlib.util
import json
import os
import sys
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from types import ModuleType
from typing import Any

PACKAGE = Path(__file__).resolve().parent.parent
# The modules that each framework needs; its version is that of the first.
FRAMEWORKS: dict[str, tuple[str, ...]] = {
    "torch": ("torch",),
    "jax": ("jax",),
    "onnxruntime": ("onnxruntime", "onnx"),
    "tinygrad": ("tinygrad",),
    "numpy": (),
}


class Namesake(ModuleType):
    """A module under Rushlight's name: our files, and the attributes of a peer that has our API."""

    def __init__(self, peer: Any) -> None:
        super().__init__("rushlight")
        self.__path__ = [str(PACKAGE)]
        self.peer = peer

    def __getattr__(self, name: str) -> Any:
        return getattr(self.peer, name)


def found() -> dict[str, str]:
    """Frameworks that can be imported, with their versions. Nothing can be measured without numpy."""
    needed = {name: ("numpy", *modules) for name, modules in FRAMEWORKS.items()}
    there = [name for name, modules in needed.items() if all(importlib.util.find_spec(module) for module in modules)]
    return {name: metadata.version(name) for name in there}


LOADERS: dict[str, Callable[[], Any]] = {
    "rushlight": lambda: importlib.import_module("rushlight.bench.host_pytorch"),
    "torch": lambda: importlib.import_module("rushlight.bench.host_pytorch"),
    "jax": lambda: importlib.import_module("rushlight.bench.host_jax"),
    "onnxruntime": lambda: importlib.import_module("rushlight.bench.host_onnx"),
    "tinygrad": lambda: importlib.import_module("rushlight.bench.host_tinygrad"),
    "numpy": lambda: importlib.import_module("rushlight.bench.host_numpy"),
}


def load_host(framework: str, mode: str, threads: int) -> Any:
    """The framework, imported, with our programs for it."""
    del sys.path[0]  # this script's folder: its modules are not top-level ones
    if framework == "rushlight":
        sys.path.insert(0, str(PACKAGE.parent))
    else:
        sys.modules["rushlight"] = Namesake(importlib.import_module("torch") if framework == "torch" else None)
    return LOADERS[framework]().make_host(framework, mode, threads)


def keep_processors(count: int) -> None:
    """Leaves this process `count` of its processors: what every library takes as the number of threads."""
    if sys.platform == "linux":
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:count])


def main() -> None:
    """Serves a framework, or lists those that are here."""
    if len(sys.argv) == 1:
        sys.stdout.write(json.dumps(found()) + "\n")
        return
    framework, mode, threads = sys.argv[1], sys.argv[2], int(sys.argv[3])
    keep_processors(threads)
    # What libraries print goes to standard error: standard output is for answers.
    with open(os.dup(1), "w", encoding="utf-8") as answers:
        os.dup2(2, 1)
        host = load_host(framework, mode, threads)
        importlib.import_module("rushlight.bench.serving").serve(host, sys.stdin, answers)


if __name__ == "__main__":
    main()
