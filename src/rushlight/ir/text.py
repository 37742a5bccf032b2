"""Graphs as text.

    graph(%x: f32[s0, 256], %w: f32[256, 64]) {
      %0 = matmul(%x, %w) : f32[s0, 64]
      return %0
    }

Names are canonical: values are numbered in order, symbols are renamed s0, s1, ... in order of appearance. Equal graphs print
equal, whatever scope or process they come from, so a digest of the text identifies a graph.
"""

from __future__ import annotations

from typing import Any

from rushlight.ir.dtype import SHORT_NAMES, DType
from rushlight.ir.graph import Call, Graph
from rushlight.ir.type import Device, TensorType, contiguous_strides
from rushlight.sym import Size, SizeExpr, format_size, free_symbols
from rushlight.term import format_value


class GraphPrinter:
    """Prints one graph; remembers the names it gave."""

    def __init__(self) -> None:
        self.symbols: dict[SizeExpr, str] = {}
        self.values: dict[int, str] = {}

    def format_atom(self, value: Any) -> str | None:
        """Text of what is no plain literal (see `term.Language`)."""
        if isinstance(value, SizeExpr):
            return f"`{self.size(value)}`"
        if isinstance(value, TensorType):
            return self.type(value)
        if isinstance(value, DType):
            return SHORT_NAMES[value]
        if isinstance(value, Device):
            return f"device {value.type} {-1 if value.index is None else value.index}"
        if isinstance(value, complex):
            return f"complex({value.real!r}, {value.imag!r})"
        if isinstance(value, slice):
            return f"slice[{', '.join([format_value(part, self) for part in (value.start, value.stop, value.step)])}]"
        return None

    def parse_atom(self, word: str, reader: Any) -> Any:
        """This printer does not parse."""
        raise NotImplementedError(word)

    def make(self, op: str, operands: tuple[Any, ...], attrs: Any, type: Any) -> Any:  # noqa: A002 - the protocol's name
        """This printer does not parse."""
        raise NotImplementedError(op)

    def size(self, size: Size) -> str:
        """A size, its symbols renamed."""
        if isinstance(size, int):
            return str(size)
        for symbol in free_symbols(size):
            self.symbols.setdefault(symbol, f"s{len(self.symbols)}")
        return format_size(size, self.symbols)

    def type(self, type_: TensorType) -> str:
        """`f32[s0, 4]`, with strides and device only where they are not the default ones."""
        text = f"{SHORT_NAMES[type_.dtype]}[{', '.join([self.size(size) for size in type_.shape])}]"
        if type_.strides != contiguous_strides(type_.shape):
            text += f" strides [{', '.join([self.size(size) for size in type_.strides])}]"
        if type_.device.type != "cpu" or type_.device.index is not None:
            text += f" on {type_.device}"
        return text + (" weak" if type_.weak else "")

    def graph(self, graph: Graph) -> list[str]:
        """The lines of a graph."""
        for call in graph.parameters:
            self.values[id(call)] = f"%{call.attr('name')}"
        header = ", ".join([f"{self.values[id(call)]}: {self.type(call.type)}" for call in graph.parameters])
        lines = [f"{graph.name}({header}) {{"]
        for position, call in enumerate(graph.calls):
            self.values[id(call)] = f"%{position}"
            lines.append(f"  {self.call(call)}")
        lines.append(f"  return {', '.join([self.values[id(call)] for call in graph.outputs])}")
        for position, value in graph.mutations:
            lines.append(f"  write {self.values[id(graph.parameters[position])]} <- {self.values[id(value)]}")
        for view in graph.views:
            sizes, strides = (f"[{', '.join([self.size(s) for s in item])}]" for item in (view.shape, view.strides))
            base = f"{view.base[0]} {view.base[1]}"
            lines.append(f"  view {view.output} of {base} {sizes} {strides} + {self.size(view.offset)}")
        lines.append("}")
        return lines

    def call(self, call: Call) -> str:
        """One call's line."""
        attrs = ", ".join([f"{name}={format_value(value, self)}" for name, value in call.attrs if value is not None])
        operands = ", ".join([self._operand(operand) for operand in call.operands])
        types = call.type if isinstance(call.type, tuple) else (call.type,)
        result = ", ".join([self.type(type_) for type_ in types])
        region = "" if call.region is None else f" @{call.region}"
        body = f" {{{attrs}}}" if attrs else ""
        return f"{self.values[id(call)]} = {call.op.name}({operands}){body}{region} : {result}"

    def _operand(self, operand: Any) -> str:
        if operand is None:
            return "none"
        if isinstance(operand, tuple):
            return f"[{', '.join([self.values[id(item)] for item in operand])}]"
        return self.values[id(operand)]


def format_graph(graph: Graph) -> str:
    """The text of a graph."""
    return "\n".join(GraphPrinter().graph(graph))
