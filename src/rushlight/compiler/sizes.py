"""What compiled functions know and ask of sizes: a report of each of their graphs."""

from __future__ import annotations

from textwrap import indent

from rushlight.capture import CompiledFunction, CompiledModule, explain_entries
from rushlight.compiler.report import is_compiled
from rushlight.support.frozen import frozen
from rushlight.sym.report import GraphShapes


@frozen
class FunctionShapes:
    """The graphs of one compiled function, the oldest first."""

    name: str
    graphs: tuple[GraphShapes, ...]

    def __str__(self) -> str:
        lines = [f"{self.name}:" if self.graphs else f"{self.name}: no graphs"]
        for number, graph in enumerate(self.graphs, 1):
            lines += [f"  graph {number}", *indent(str(graph), " " * 4).splitlines()]
        return "\n".join(lines)


@frozen
class ShapeReport:
    """What some compiled functions know and ask of sizes."""

    functions: tuple[FunctionShapes, ...]

    def __str__(self) -> str:
        return "\n".join([str(function) for function in self.functions])


def shape_report(*functions: object) -> ShapeReport:
    """The sizes behind compiled functions and modules; others are left out."""
    return ShapeReport(tuple([_function(function) for function in functions if is_compiled(function)]))


def _function(function: CompiledFunction | CompiledModule) -> FunctionShapes:
    compiled = function._compiled if isinstance(function, CompiledModule) else function
    return FunctionShapes(compiled.name, tuple([entry.shapes() for entry in reversed(explain_entries(function))]))
