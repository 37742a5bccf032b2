"""Where a run is written: a folder with its config, log, loss curve and checkpoint."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path

import rushlight as rl
from rushlight.demo.config import Config
from rushlight.support.errors import RushlightError, error, fail, require
from rushlight.support.frozen import frozen

RUNS = Path("runs")
PROGRAM = "rushlight demo"
FORMAT = 1
CHECKPOINT = "checkpoint.safetensors"
_FIELDS = {"program", "format", "config", "step", "model", "optimizer", "generator"}


@frozen
class RunFolder:
    """One run's folder. Files in it appear whole or not at all, and the log a line at a time."""

    path: Path

    @property
    def checkpoint(self) -> Path:
        """Model, optimizer, step and generator, as of the last time they were saved."""
        return self.path / CHECKPOINT

    @property
    def log(self) -> Path:
        """One line of JSON a step: step, loss, tokens_per_s, seconds; with held_out where it was estimated."""
        return self.path / "log.jsonl"

    @property
    def curve(self) -> Path:
        """The picture of the losses."""
        return self.path / "loss.svg"

    def write_json(self, name: str, content: Mapping[str, object]) -> None:
        """Writes a small file of facts about the run."""
        self.write_text(name, json.dumps(content, indent=2) + "\n")

    def write_text(self, name: str, text: str) -> None:
        """Writes a file beside its target and renames it; P003 when it cannot be written."""
        path = self.path / name
        partial = path.with_name(f".{name}.part")
        with writing(path):
            partial.write_text(text, encoding="utf-8")
            os.replace(partial, path)

    def save(self, config: Config, step: int, state: Mapping[str, object]) -> None:
        """Replaces the checkpoint; P003 when it cannot be written, and the earlier one is untouched."""
        head = {"program": PROGRAM, "format": FORMAT, "config": config.to_dict(), "step": step}
        rl.save({**head, **state}, self.checkpoint)

    def lines(self) -> list[dict[str, float]]:
        """The log's whole lines, without a line that a crash cut short."""
        return list(_read_lines(self.log)) if self.log.exists() else []

    @contextmanager
    def logging(self, kept: list[dict[str, float]]) -> Generator[Callable[[dict[str, float]], None]]:
        """Gives the function that appends a line to the log, which starts with the lines `kept`."""
        self.write_text(self.log.name, "".join([json.dumps(line) + "\n" for line in kept]))
        with writing(self.log):
            file = self.log.open("ab", buffering=0)

        def append(line: dict[str, float]) -> None:
            data = (json.dumps(line, allow_nan=False) + "\n").encode()
            with writing(self.log):
                if file.write(data) < len(data):
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

        with file:
            yield append


def new_run(out: Path | None = None) -> RunFolder:
    """A new folder: `out`, or the next free number in `runs`. P007 when something is there already."""
    if out is None:
        return _next_run()
    with writing(out):
        if out.exists() and (not out.is_dir() or any(out.iterdir())):
            fail("P007", "demo: there is something at --out already", out=str(out))
        out.mkdir(parents=True, exist_ok=True)
    return RunFolder(out)


def _next_run() -> RunFolder:
    with writing(RUNS):
        RUNS.mkdir(exist_ok=True)
        for number in count(1):
            path = RUNS / f"demo-{number:03d}"
            with suppress(FileExistsError):
                path.mkdir()
                return RunFolder(path)
    raise AssertionError("numbers do not end")


def find_run(path: Path) -> RunFolder:
    """The run that a folder, or the checkpoint in it, belongs to."""
    return RunFolder(path.parent if path.name == CHECKPOINT else path)


def load_checkpoint(run: RunFolder) -> tuple[Config, int, dict[str, object]]:
    """Config, step and the rest of a run's checkpoint.

    P001 when there is none, P002 when it is damaged, P005 when it is another program's. Nothing is changed.
    """
    state = rl.load(run.checkpoint)
    ours = isinstance(state, dict) and set(state) == _FIELDS and state["program"] == PROGRAM
    require(ours, "P005", f"demo: {run.checkpoint} is not a checkpoint of this demo")
    require(state["format"] == FORMAT, "P005", f"demo: {run.checkpoint} is of another version", format=state["format"])
    require(type(state["step"]) is int, "P005", f"demo: {run.checkpoint} has no step")
    return Config.from_dict(state["config"]), state["step"], state


@contextmanager
def writing(path: Path) -> Generator[None]:
    """Makes the system's refusal to write below a path the registered error P003."""
    try:
        yield
    except RushlightError:
        raise
    except OSError as cause:
        raise error("P003", f"demo: {path} could not be written: {cause.strerror or cause}") from cause


def _read_lines(path: Path) -> Iterator[dict[str, float]]:
    for line in path.read_text(encoding="utf-8").splitlines():
        try:
            yield json.loads(line)
        except ValueError:
            return
