"""Programs in processes of their own, and the alias in this one."""

import importlib
import os
import subprocess
import sys
from collections.abc import Callable, Generator
from pathlib import Path
from types import ModuleType

import pytest

import rushlight.torch as alias

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


@pytest.fixture
def torch() -> Generator[ModuleType]:
    """`torch` as the alias gives it; another torch that is imported is put away and back."""
    before = {name: module for name, module in sys.modules.items() if name.partition(".")[0] == "torch"}
    for name in before:
        del sys.modules[name]
    alias.install()
    yield importlib.import_module("torch")
    alias.uninstall()
    assert not [name for name in sys.modules if name.partition(".")[0] == "torch"]
    sys.modules.update(before)
