"""Golden cases of registered errors: every code is raised by a real cause in some `tests/errors/cases_*.py`.

    @triggers("S003")
    def inner_sizes_differ():
        rl.ones(8, 16) @ rl.ones(32, 4)

A case is called with the fixtures that its parameters name. It must raise the error, or give the warning, of its code,
and the text must show a line of the case as the user's line. The text is compared with `golden/S003.txt`; a second case
of a code has a name of its own, `@triggers("S003", "vector")`, and the text `golden/S003-vector.txt`.
"""

import importlib.util
import inspect
import re
import sys
import warnings
from collections.abc import Callable
from pathlib import Path

import pytest

from rushlight.support.errors import RushlightError, RushlightWarning, forget_warnings


class Case:
    """One way to cause an error: `code`, the golden text's `name`, and the function that does it."""

    def __init__(self, code: str, name: str, function: Callable[..., object], users_line: bool) -> None:
        self.code = code
        self.name = name
        self.function = function
        self.users_line = users_line

    def report(self, request: pytest.FixtureRequest) -> RushlightError | RushlightWarning:
        """Run the case and return the error or the warning of its code."""
        arguments = {name: request.getfixturevalue(name) for name in inspect.signature(self.function).parameters}
        forget_warnings()
        with warnings.catch_warnings(record=True) as given:
            warnings.simplefilter("always")
            try:
                self.function(**arguments)
            except RushlightError as error:
                assert error.code == self.code, f"expected {self.code}, got:\n{error.render()}"
                return error
        ours = [warning.message for warning in given if isinstance(warning.message, RushlightWarning)]
        assert [warning.code for warning in ours] == [self.code], f"expected one {self.code}, got {ours} and no error"
        return ours[0]


CASES: list[Case] = []


def triggers(code: str, variant: str = "", *, users_line: bool = True) -> Callable[[Callable[..., object]], object]:
    """Register the decorated function as a cause of `code`. `users_line=False` where no line of a user is involved."""

    def register(function: Callable[..., object]) -> object:
        name = f"{code}-{variant}" if variant else code
        assert all(case.name != name for case in CASES), f"two cases named {name}: give one a variant"
        CASES.append(Case(code, name, function, users_line))
        return function

    return register


def load_cases(folder: Path) -> list[Case]:
    """Import every `cases_*.py` of a folder and return the cases, by name."""
    for path in sorted(folder.glob("cases_*.py")):
        name = f"error_{path.stem}"
        if name not in sys.modules:
            spec = importlib.util.spec_from_file_location(name, path)
            assert spec is not None and spec.loader is not None
            sys.modules[name] = module = importlib.util.module_from_spec(spec)
            spec.loader.exec_module(module)
    return sorted(CASES, key=lambda case: case.name)


def stable(text: str, folders: dict[str, str]) -> str:
    """Return a text without what differs from run to run: line numbers, folders, cache entries, addresses, memory."""
    for path, name in folders.items():
        text = text.replace(path, name)
    text = re.sub(r"(cases_\w+\.py):\d+ in", r"\1:<line> in", text)
    text = re.sub(r"(available: )\d+", r"\1<bytes>", text)
    # A long folder's name leaves no room for the whole of the entry's.
    text = re.sub(r"/[0-9a-f]+(\.rlo'|…)", "/<entry>.rlo'", text)
    return re.sub(r"\b0x[0-9a-f]{6,}\b", "<address>", text)
