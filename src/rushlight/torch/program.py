"""Runs a script or a module as Python does, with the alias in place."""

from __future__ import annotations

import os
import runpy
import sys
from collections.abc import Sequence
from types import TracebackType
from typing import Any, NoReturn

from rushlight.distributed.launch import note_exit, prepare
from rushlight.torch.finder import ROOTS, install
from rushlight.torch.targets import Target, targets_of

USAGE = "usage: rushlight run [-m MODULE | SCRIPT] [ARGUMENT]..."
_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep


def main(arguments: Sequence[str]) -> NoReturn:
    """Install the alias, run a program, and end the process as Python would: `script.py ARG…` or `-m module ARG…`."""
    as_module = arguments[:1] == ["-m"]
    program = list(arguments[1:] if as_module else arguments)
    if not program or program[0].startswith("-"):
        sys.stderr.write(f"{USAGE}\n")
        sys.exit(0 if program and program[0] in ("-h", "--help") else 2)
    if not as_module and not os.path.exists(program[0]):
        sys.stderr.write(f"rushlight run: can't open file {program[0]!r}: there is no such file\n")
        sys.exit(2)
    if not sys.flags.safe_path:
        del sys.path[0]  # Python's own entry, for the command
    install()
    prepare()
    try:
        run_module(program) if as_module else run_script(program)
    except SystemExit as ended:
        note_exit(ended)
        raise
    except BaseException as problem:  # noqa: BLE001 - the process ends as Python ends it
        show(problem)
        sys.exit(130 if isinstance(problem, KeyboardInterrupt) else 1)
    sys.exit(0)


def run_script(program: Sequence[str]) -> dict[str, Any]:
    """Run a script, or a folder with `__main__`, given with its arguments; returns its globals."""
    before = sys.argv, sys.path[:]
    sys.argv = list(program)
    if os.path.isfile(program[0]):
        sys.path.insert(0, os.path.dirname(os.path.realpath(program[0])))
    try:
        return runpy.run_path(program[0], run_name="__main__")
    finally:
        sys.argv, sys.path = before


def run_module(program: Sequence[str]) -> dict[str, Any]:
    """Run a module by its name, given with its arguments; returns its globals."""
    sys.argv = list(program)
    sys.path.insert(0, os.getcwd())
    commands = [vars(target)["main"] for target in _targets(program[0]) if "main" in vars(target)]
    if commands:  # of the alias, as torch.distributed.run
        sys.exit(commands[0](list(program[1:])))
    return runpy.run_module(program[0], run_name="__main__", alter_sys=True)


def _targets(name: str) -> tuple[Target, ...]:
    """What answers for a module of the alias."""
    return targets_of(name) if name.partition(".")[0] in ROOTS else ()


def show(problem: BaseException) -> None:
    """Print an exception's traceback, from the program's first line on."""
    shown = problem.with_traceback(_from_program(problem.__traceback__))
    sys.excepthook(type(shown), shown, shown.__traceback__)


def _from_program(traceback: TracebackType | None) -> TracebackType | None:
    while traceback is not None:
        filename = traceback.tb_frame.f_code.co_filename
        if not filename.startswith(("<frozen ", _PACKAGE, runpy.__file__)):
            break
        traceback = traceback.tb_next
    return traceback
