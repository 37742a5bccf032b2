"""Hooks of leaves that ran while a program was traced are part of it: other hooks make another program."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from rushlight.eager.autograd.node import HOOK_CHANGES
from rushlight.eager.handle import Gradient, Handle

Found = tuple[tuple[Any, ...], tuple[Any, ...]]


def hooks_of(record: Gradient | None) -> Found:
    """A leaf's hooks on its gradient, and those that run after its accumulation."""
    if record is None:
        return (), ()
    return tuple((record.hooks or {}).values()), tuple((record.accumulated or {}).values())


class HookGuard:
    """That some leaves have the hooks that they had. Asked only where a hook was added or removed since `seen`."""

    __slots__ = ("_expected", "seen")

    def __init__(self, leaves: Iterable[Handle]) -> None:
        self.seen = HOOK_CHANGES[0]
        self._expected = [(leaf, hooks_of(leaf.gradient)) for leaf in leaves]

    def fails(self) -> bool:
        """Whether some leaf has other hooks."""
        now = HOOK_CHANGES[0]
        if any(hooks_of(leaf.gradient) != expected for leaf, expected in self._expected):
            return True
        self.seen = now
        return False
