"""Compiled functions: whole, in parts, or for specifications."""

from rushlight.capture.function.parts import ResumingFunction
from rushlight.capture.function.whole import (
    CompiledFunction,
    SpecifiedFunction,
    WholeFunction,
    compiled_functions,
    graph_count,
    is_whole,
    reset,
)

__all__ = [
    "CompiledFunction",
    "ResumingFunction",
    "SpecifiedFunction",
    "WholeFunction",
    "compiled_functions",
    "graph_count",
    "is_whole",
    "reset",
]
