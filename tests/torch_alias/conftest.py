"""Programs in processes of their own."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent


@pytest.fixture
def run(tmp_path: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Writes a program to a file and runs it as `python -m rushlight.torch script.py`, or as another command does."""

    def run(text: str, *arguments: str, command: tuple[str, ...] = ("rushlight.torch", "script.py")):
        (tmp_path / "script.py").write_text(text)
        environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
        return subprocess.run(
            [sys.executable, "-m", *command, *arguments],
            capture_output=True,
            text=True,
            cwd=tmp_path,
            env=environment,
            stdin=subprocess.DEVNULL,
        )

    return run
