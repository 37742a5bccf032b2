"""Contestants: a process each, in an interpreter that has the framework, driven over pipes."""

from __future__ import annotations

import contextlib
import json
import os
import select
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote

from rushlight.bench import worker
from rushlight.bench.records import Record
from rushlight.support.errors import error, fail

FAREWELL = 10  # seconds that a worker has to end by itself


class Kind(NamedTuple):
    """A contestant: a framework, and how it is used."""

    name: str
    framework: str
    mode: str


KINDS: tuple[Kind, ...] = (
    Kind("rushlight", "rushlight", "compiled"),
    Kind("rushlight-eager", "rushlight", "eager"),
    Kind("torch", "torch", "eager"),
    Kind("torch.compile", "torch", "compiled"),
    Kind("jax.jit", "jax", "compiled"),
    Kind("onnxruntime", "onnxruntime", "compiled"),
    Kind("tinygrad", "tinygrad", "compiled"),
    Kind("numpy", "numpy", "eager"),
)
OURS = ("rushlight", "rushlight-eager")


def variables(framework: str, threads: int) -> dict[str, str]:
    """Environment variables that limit a framework's threads, and keep its compiler in its own process."""
    limits = {f"{library}_NUM_THREADS": str(threads) for library in ("OMP", "OPENBLAS", "MKL")}
    if framework == "torch":
        return {**limits, "TORCHINDUCTOR_COMPILE_THREADS": "1"}
    if framework == "tinygrad":
        return {**limits, "DEV": "CPU"}
    return limits


def command(python: str, *arguments: str, script: str = worker.__file__, **environment: str) -> list[str]:
    """The command line of a worker, of this checkout or of the one whose `script` it is."""
    return with_variables([python, script, *arguments], environment)


def with_variables(line: Sequence[str], environment: Mapping[str, str]) -> list[str]:
    """A command line, with variables of the environment set for it."""
    return ["env", *[f"{name}={value}" for name, value in environment.items()], *line]


def frameworks_of(python: str) -> dict[str, str]:
    """The frameworks that an interpreter has, with their versions."""
    try:
        return json.loads(subprocess.run(command(python), check=True, capture_output=True, text=True).stdout)
    except (OSError, subprocess.CalledProcessError, json.JSONDecodeError) as cause:
        raise error("A002", f"bench: {python} cannot be run as a Python interpreter", cause=str(cause)) from cause


class Field(NamedTuple):
    """Interpreters by contestant, in the order of `KINDS`, and why others are not there."""

    pythons: dict[Kind, str]
    missing: dict[str, str]


def find(pythons: Sequence[Path], wanted: Sequence[str] | None) -> Field:
    """The contestants that can run; each uses the first interpreter that has its framework."""
    names = [kind.name for kind in KINDS]
    for name in wanted or ():
        if name not in names:
            fail("A002", f"bench: there is no peer {name}", hint=f"one of {', '.join(names)}")
    places: dict[str, str] = {"rushlight": sys.executable}
    for python in (sys.executable, *map(str, pythons)):
        for framework in frameworks_of(python):
            places.setdefault(framework, python)
    asked = [kind for kind in KINDS if wanted is None or kind.name in wanted or kind.name == "rushlight"]
    absent = {kind.name: f"no interpreter here has {kind.framework}" for kind in asked if kind.framework not in places}
    return Field({kind: places[kind.framework] for kind in asked if kind.framework in places}, absent)


class Contestant:
    """A worker, started when it is first asked and again after it has died. Its output goes to `folder`."""

    def __init__(
        self,
        kind: Kind,
        python: str,
        threads: int,
        limit: float,
        folder: Path,
        words: Sequence[str] = (),
        environment: Mapping[str, str] | None = None,
        script: str = worker.__file__,
    ) -> None:
        self.kind = kind
        self.script = script
        self.name = kind.name
        self.words = words  # of the worker's command line, and variables of its environment
        self.environment = dict(environment or {})
        self.python = python
        self.threads = threads
        self.limit = limit
        self.version = ""
        self._process: subprocess.Popen[bytes] | None = None
        self._said = folder / f"{quote(kind.name, safe=' ,=')}.txt"

    def ask(self, do: str, **values: object) -> Record:
        """An answer: its `status` is "ready", or another with a `reason`. A worker that dies or is late is one too."""
        if self._process is None:
            greeting = self._start()
            if greeting["status"] != "ready":
                return greeting
            self.version = greeting["version"]
        return self._exchange({"do": do, **values})

    def close(self) -> None:
        """Ends the worker's process."""
        process, self._process = self._process, None
        if process is None:
            return
        assert process.stdin is not None and process.stdout is not None
        with contextlib.suppress(BrokenPipeError):  # of a worker that died with a question before it
            process.stdin.close()
        try:
            process.wait(FAREWELL)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        process.stdout.close()

    def _start(self) -> Record:
        arguments = (self.kind.framework, self.kind.mode, str(self.threads), *self.words)
        environment = {**variables(self.kind.framework, self.threads), **self.environment}
        line = command(self.python, *arguments, script=self.script, **environment)
        with self._said.open("wb") as errors:
            self._process = subprocess.Popen(
                line, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, bufsize=0
            )
        return self._exchange({"do": "hello"})

    def _exchange(self, question: dict[str, object]) -> Record:
        process = self._process
        assert process is not None and process.stdin is not None and process.stdout is not None
        try:
            process.stdin.write(json.dumps(question).encode() + b"\n")
            process.stdin.flush()
            line = read_line(process.stdout.fileno(), time.monotonic() + self.limit)
        except BrokenPipeError:
            line = b""
        except TimeoutError:
            process.kill()
            self.close()
            return {"status": "late", "reason": f"no answer to {question['do']} within {self.limit:g} s"}
        if line:
            return json.loads(line)
        status = process.wait()
        said = self._said.read_text(encoding="utf-8", errors="replace").strip()
        self.close()
        last = said.splitlines()[-1] if said else "it said nothing"
        return {"status": "dead", "reason": f"its process ended with status {status}: {last}", "trace": said[-4000:]}


def read_line(descriptor: int, deadline: float) -> bytes:
    """A line of a pipe without its end, or nothing where the pipe ends first. Raises TimeoutError at the deadline."""
    line = bytearray()
    while not line.endswith(b"\n"):
        if not select.select([descriptor], [], [], max(0.0, deadline - time.monotonic()))[0]:
            raise TimeoutError
        chunk = os.read(descriptor, 1 << 16)
        if not chunk:
            return b""
        line += chunk
    return bytes(line[:-1])
