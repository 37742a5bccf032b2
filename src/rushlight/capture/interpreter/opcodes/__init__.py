"""What carries out each instruction, by family. Operands are looked at first and taken from the stack last."""

from rushlight.capture.interpreter.opcodes import (
    arithmetic,
    calls,
    containers,
    exceptions,
    intrinsics,
    jumps,
    patterns,
    suspension,
    variables,
)

__all__ = [
    "arithmetic",
    "calls",
    "containers",
    "exceptions",
    "intrinsics",
    "jumps",
    "patterns",
    "suspension",
    "variables",
]
