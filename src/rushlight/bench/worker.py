"""One framework in an interpreter of its own: `python worker.py FRAMEWORK MODE THREADS`, driven over pipes.

With a case and the folder of its inputs as further arguments it makes one call and says how long that took; with the
word `capture`, a program and a size it says what capture costs; with `operators` it runs variants of operators.

`python worker.py` alone says which frameworks the interpreter has. This is a script: a peer's interpreter need not
have Rushlight. There the name `rushlight` means a package with our modules and the peer's attributes.
"""

from __future__ import annotations

import importlib
import importlib.util
import json
import os
import select
import sys
import threading
import time
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from types import ModuleType
from typing import Any

OPERATORS = "operators"
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
    """A module under Rushlight's name: our files, and the attributes of a peer, which may have our API."""

    def __init__(self, peer: object) -> None:
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


IMPORTS: dict[str, Callable[[], ModuleType]] = {
    "rushlight": lambda: importlib.import_module("rushlight"),
    "torch": lambda: importlib.import_module("torch"),
    "jax": lambda: importlib.import_module("jax"),
    "onnxruntime": lambda: importlib.import_module("onnxruntime"),
    "tinygrad": lambda: importlib.import_module("tinygrad"),
    "numpy": lambda: importlib.import_module("numpy"),
}
HOSTS: dict[str, Callable[[], ModuleType]] = {
    "rushlight": lambda: importlib.import_module("rushlight.bench.hosts.pytorch"),
    "torch": lambda: importlib.import_module("rushlight.bench.hosts.pytorch"),
    "jax": lambda: importlib.import_module("rushlight.bench.hosts.jax"),
    "onnxruntime": lambda: importlib.import_module("rushlight.bench.hosts.onnx"),
    "tinygrad": lambda: importlib.import_module("rushlight.bench.hosts.tinygrad"),
    "numpy": lambda: importlib.import_module("rushlight.bench.hosts.numpy"),
}
CAPTURERS: dict[str, Callable[[], ModuleType]] = {
    "rushlight": lambda: importlib.import_module("rushlight.bench.hosts.capturing"),
    "torch": lambda: importlib.import_module("rushlight.bench.hosts.dynamo"),
}


def make_server(framework: str, host: Any, words: list[str]) -> Any:
    """What answers: about cases, or about variants of operators."""
    if words != [OPERATORS]:
        return importlib.import_module("rushlight.bench.serving").Server(host)
    serving = importlib.import_module("rushlight.bench.operators.serving")
    ours = framework == "rushlight"
    inside = importlib.import_module("rushlight.bench.operators.ours").Ours() if ours else serving.Unknown()
    return serving.OperatorServer(host, inside)


def import_framework(name: str) -> None:
    """Imports the framework, and gives our programs its API under Rushlight's name."""
    del sys.path[0]  # this script's folder: its modules are not top-level ones
    if name == "rushlight":
        sys.path.insert(0, str(PACKAGE.parent))
    module = IMPORTS[name]()
    if name != "rushlight":
        sys.modules["rushlight"] = Namesake(module)


def keep_processors(count: int) -> None:
    """Leaves this process `count` processors: every library takes their number as its number of threads."""
    if sys.platform == "linux":
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:count])


def first_call(framework: str, mode: str, threads: int, case: str, folder: str) -> dict[str, Any]:
    """Seconds from the start of the framework's import to its end, and to the end of the first call."""
    with importlib.import_module("numpy").load(Path(folder) / "inputs.npz") as stored:
        inputs = {name: stored[name] for name in stored.files}
    cpu, started = time.process_time(), time.perf_counter()
    import_framework(framework)
    imported = time.perf_counter()
    host = HOSTS[framework]().make_host(framework, mode, threads)
    answer = importlib.import_module("rushlight.bench.serving").first(host, case, inputs)
    times = {"import_s": imported - started, "wall_s": time.perf_counter() - started, "cpu_before_s": cpu}
    return {**answer, **times}


def end_with_the_harness() -> None:
    """Ends this process when the harness is gone: its work would disturb the next measurement."""
    if hasattr(select, "poll"):
        gone = select.poll()
        gone.register(sys.stdin.fileno(), 0)  # the end of the pipe is told without being asked for
        gone.poll()
        os._exit(0)


def main() -> None:
    """Serves a framework, or lists the frameworks of this interpreter."""
    if len(sys.argv) == 1:
        sys.stdout.write(json.dumps(found()) + "\n")
        return
    framework, mode, threads = sys.argv[1], sys.argv[2], int(sys.argv[3])
    keep_processors(threads)
    # What libraries print goes to standard error: standard output is for answers.
    with open(os.dup(1), "w", encoding="utf-8") as answers:
        os.dup2(2, 1)
        if sys.argv[4:5] == ["capture"]:
            import_framework(framework)
            program, size = sys.argv[5:]
            answers.write(json.dumps(CAPTURERS[framework]().make_answer(mode, program, int(size))) + "\n")
            return
        if sys.argv[4:] not in ([], [OPERATORS]):
            answers.write(json.dumps(first_call(framework, mode, threads, *sys.argv[4:])) + "\n")
            return
        threading.Thread(target=end_with_the_harness, daemon=True).start()
        import_framework(framework)
        host = HOSTS[framework]().make_host(framework, mode, threads)
        server = make_server(framework, host, sys.argv[4:])
        importlib.import_module("rushlight.bench.serving").serve(server, sys.stdin, answers)


if __name__ == "__main__":
    main()
