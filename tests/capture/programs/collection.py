"""Finds the programs: functions `case_<what>(x, env)`, and those that a module's `cases()` makes of a table."""

import importlib
import types
import warnings
from pathlib import Path

from tests.capture.programs.comparison import Program

from tools.budgets import is_readable

HERE = Path(__file__).parent


def topics() -> list[str]:
    """Return the topics, as `slots/arithmetic`, that this Python can read: those of `py312_` need 3.12."""
    paths = sorted(path for path in HERE.glob("*/*.py") if is_readable(path))
    return [path.relative_to(HERE).with_suffix("").as_posix() for path in paths]


def programs(topic: str) -> dict[str, Program]:
    """Return the programs of a topic by name."""
    with warnings.catch_warnings():  # of text as an index, and of `return` in `finally`, which are what is asked
        warnings.simplefilter("ignore", SyntaxWarning)
        module = importlib.import_module(f"tests.capture.programs.{topic.replace('/', '.')}")
    found: dict[str, Program] = {}
    for name, value in vars(module).items():
        if name.startswith("case_") and isinstance(value, types.FunctionType):
            found[name.removeprefix("case_")] = value
    for name, program in module.cases() if hasattr(module, "cases") else ():
        assert name not in found, f"{topic}: two programs of name {name}"
        found[name] = program
    return found


def all_programs() -> dict[str, Program]:
    """Return every program by topic and name, as `slots/truth:length_decides`."""
    return {f"{topic}:{name}": program for topic in topics() for name, program in programs(topic).items()}
