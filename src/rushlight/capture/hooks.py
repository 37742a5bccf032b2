"""Guards on the hooks of leaves: hooks that ran during a trace are part of the program."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rushlight.capture.arguments import Arguments, Names
from rushlight.capture.guard import Guard
from rushlight.capture.source import ArgumentSource
from rushlight.eager.autograd.node import HOOK_CHANGES
from rushlight.eager.handle import Gradient, Handle

Found = tuple[tuple[object, ...], tuple[object, ...]]
NO_HOOKS: Found = (), ()


def hooks_of(record: Gradient | None) -> Found:
    """A leaf's hooks on its gradient, and those that run after its accumulation."""
    if record is None:
        return NO_HOOKS
    return tuple((record.hooks or {}).values()), tuple((record.accumulated or {}).values())


def share_hooks(record: Gradient, other: Gradient) -> None:
    """Gives what stands for a tensor the hooks that the tensor has as a leaf."""
    other.hooks, other.accumulated = record.hooks, record.accumulated


class HookGuard:
    """That some leaves have the hooks that they had. Asked only where a hook was added or removed since `seen`."""

    __slots__ = ("expected", "seen")

    def __init__(self, leaves: Iterable[Handle]) -> None:
        self.seen = HOOK_CHANGES[0]
        self.expected = [(leaf, hooks_of(leaf.gradient)) for leaf in leaves]

    def fails(self) -> bool:
        """Whether some leaf has other hooks."""
        now = HOOK_CHANGES[0]
        if any(hooks_of(leaf.gradient) != expected for leaf, expected in self.expected):
            return True
        self.seen = now
        return False


def hook_guards(hooked: Sequence[Handle | ArgumentSource], arguments: Arguments, names: Names) -> list[Guard]:
    """That leaves have the hooks that ran while a program was traced."""
    guards: list[Guard] = []
    leaves = [leaf for leaf in hooked if isinstance(leaf, Handle)]
    if leaves:
        guard = names(HookGuard(leaves))
        failed = f"{names(HOOK_CHANGES)}[0] != {guard}.seen and {guard}.fails()"
        guards.append(Guard("hooks", "parameters", "the same hooks", failed))
    for leaf in hooked:
        if isinstance(leaf, ArgumentSource):
            text, value = arguments.leaves[leaf.position]
            failed = f"{names(hooks_of)}({text}.gradient) != {names(hooks_of(value.gradient))}"
            guards.append(Guard("hooks", text, "the same hooks", failed))
    return guards
