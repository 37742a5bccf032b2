"""The table of operations: what carries out each instruction. The modules in `opcodes` fill it."""

from __future__ import annotations

from collections.abc import Callable

Operation = Callable[..., object]
"""Carries out an instruction on (interpreter, frame, operand). True where another frame may be on top afterwards."""
OPERATIONS: dict[str, Operation] = {}


def operation(*names: str) -> Callable[[Operation], Operation]:
    """Enters a function as what carries out the instructions of these names."""

    def enter(function: Operation) -> Operation:
        for name in names:
            OPERATIONS[name] = function
        return function

    return enter
