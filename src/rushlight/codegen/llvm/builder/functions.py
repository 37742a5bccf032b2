"""The functions of a module: those whose texts differ in nothing but their own name are one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

_SELF = "SELF"


@dataclass(frozen=True, slots=True)
class KernelFunction:
    """The names of a kernel's function, and of that which counts the tiles of a matrix product."""

    name: str
    tiles: str = ""


class Functions:
    """Functions in the order in which they were added.

    LLVM takes by far the longest of a first call, and models have many kernels whose names and buffers differ, but
    whose code does not.
    """

    def __init__(self) -> None:
        self.texts: list[str] = []
        self._names: dict[str, str] = {}

    def add(self, stem: str, emit: Callable[[str], str]) -> str:
        """The name of the function that `emit` gives the text of; it is told the name, and may add others.

        Names that begin with the function's own are its own too.
        """
        text = emit(_SELF)
        name = self._names.get(text)
        if name is None:
            name = self._names[text] = f"{stem}_{len(self._names)}"
            self.texts.append(text.replace(f"@{_SELF}", f"@{name}"))
        return name


def function_text(header: str, allocations: Sequence[str], lines: Sequence[str]) -> str:
    """The text of a function: its scratch memory, then a scope's lines, which begin in the block `start` and return."""
    return "\n".join([f"{header} {{", *allocations, "  br label %start", "start:", *lines, "}", ""])
