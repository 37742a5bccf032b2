"""Running commands in this process, and in one of their own."""

import os
import subprocess
import sys
from collections.abc import Callable, Generator
from pathlib import Path
from typing import NamedTuple

import pytest

import rushlight as rl
from rushlight.cli.app import main
from rushlight.support import settings

ROOT = Path(__file__).resolve().parent.parent.parent
TINY = {
    "layers": 1,
    "heads": 2,
    "width": 32,
    "context": 16,
    "batch": 4,
    "warm_up": 2,
    "evaluate_every": 2,
    "save_every": 2,
    "held_out_windows": 6,
    "final_windows": 8,
}
TINY_DEMO = ["demo", *[part for name, value in TINY.items() for part in ("--set", f"{name}={value}")]]


class Ended(NamedTuple):
    """How a command ended."""

    status: int
    out: str
    err: str


@pytest.fixture
def rushlight(capsys: pytest.CaptureFixture[str]) -> Callable[..., Ended]:
    """Runs `rushlight` with arguments in this process."""

    def run(*arguments: str) -> Ended:
        with pytest.raises(SystemExit) as end:
            main(arguments)
            sys.exit(0)
        said = capsys.readouterr()
        return Ended(int(end.value.code or 0), said.out, said.err)

    return run


@pytest.fixture(autouse=True)
def _threads_as_before() -> Generator[None]:
    """Commands set the threads of their process, which here is not theirs."""
    before = rl.get_num_threads()
    yield
    rl.set_num_threads(before)


@pytest.fixture
def cache(tmp_path: Path) -> Generator[Path]:
    """A cache of its own."""
    with settings.override(cache_dir=tmp_path / "cache"):
        yield tmp_path / "cache"


def start(*arguments: str, folder: Path, **variables: str) -> subprocess.Popen[str]:
    """Starts `rushlight` in a process of its own, in some folder."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "PYTHONUNBUFFERED": "1", **variables}
    command = [sys.executable, "-m", "rushlight.cli", *arguments]
    return subprocess.Popen(
        command, cwd=folder, env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
