"""The command line as a whole: help, version, and how it looks when something is wrong."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from tests.cli.conftest import ROOT, start

import rushlight as rl
from rushlight.cli.app import describe
from rushlight.support.errors import error

COMMANDS = ("chat", "demo", "embed", "generate", "info", "doctor", "explain", "cache", "ops", "dispatch", "bench")


def test_help_lists_the_commands(rushlight: Callable):
    ended = rushlight("--help")
    assert ended.status == 0
    assert all(command in ended.out for command in COMMANDS)
    for command in COMMANDS:
        assert rushlight(command, "-h").status == 0


def test_the_version(rushlight: Callable):
    assert rushlight("--version").out == f"rushlight {rl.__version__}\n"


def test_the_package_is_the_command():
    command = [sys.executable, "-m", "rushlight", "--version"]
    ended = subprocess.run(command, env={"PYTHONPATH": str(ROOT / "src")}, capture_output=True, text=True)
    assert (ended.returncode, ended.stdout) == (0, f"rushlight {rl.__version__}\n"), ended.stderr


def test_a_wrong_command_suggests_the_right_one(rushlight: Callable):
    ended = rushlight("dmeo")
    assert ended.status == 2
    assert "demo" in ended.err


def test_errors_are_described_without_a_line_of_a_program():
    problem = error("P001", "load: there is no file x", hint="look elsewhere", path="x")
    problem.add_note("while resuming")
    text = "error P001: load: there is no file x\n    path: x\n  hint: look elsewhere\nwhile resuming"
    assert describe(problem).replace("'x'", "x") == text


def test_the_command_line_starts_quickly_and_without_what_it_does_not_need(tmp_path: Path):
    start("--version", folder=tmp_path).communicate(timeout=60)
    started = sum(os.times()[2:4])
    out, err = start("--version", folder=tmp_path).communicate(timeout=60)
    assert out.startswith("rushlight "), err
    assert sum(os.times()[2:4]) - started < 3, "the processor's seconds"
    program = "import rushlight.cli.app, sys; print(*[name for name in sys.modules if '.' not in name])"
    loaded = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout.split()
    assert not {"llvmlite", "matplotlib", "networkx", "torch"} & set(loaded)
