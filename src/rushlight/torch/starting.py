"""Processes that `multiprocessing` starts anew see the alias if the one that starts them does."""

from __future__ import annotations

from collections.abc import Callable
from multiprocessing import spawn
from typing import Any

_original: list[Callable[[str], dict[str, Any]]] = []


class _Alias:
    """Installs the alias where it is unpickled, which is before a process imports the program."""

    def __init__(self, install: Callable[[], object]) -> None:
        self._install = install

    def __reduce__(self) -> Any:
        return self._install, ()


def hand_on(install: Callable[[], object]) -> None:
    """Let processes that are started from now on install the alias first."""
    make = spawn.get_preparation_data
    _original.append(make)

    def with_alias(name: str) -> dict[str, Any]:
        return {"rushlight": _Alias(install), **make(name)}

    spawn.get_preparation_data = with_alias


def stop() -> None:
    """Undo `hand_on`."""
    spawn.get_preparation_data = _original.pop()
