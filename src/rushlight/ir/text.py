"""Graphs as text; `ir.graph_parse` reads it back.

    graph(%x: f32[s0, 256], %w: f32[256, 64]) {
      size s0 = 128
      given s0 - 1 != 0
      %0 = matmul(%x, %w) : f32[s0, 64]
      %1 = mul(%0, 0.5) : f32[s0, 64]
      return %1
    }

Names are canonical: values are numbered in order, symbols are renamed s0, s1, ... in order of appearance; Python
numbers stand where they are used. A parameter that is frozen says so before its type. A graph that a call runs stands
before the call, with braces of its own; in the call's attributes it is @0, @1, ... Equal graphs print equal, whatever
scope or process they come from: a digest of the text and its conditions identifies a graph. The lines `size` and
`given` are printed on demand: hints and what is known of each symbol, and the conditions that tracing guarded.
"""

from __future__ import annotations

from rushlight.ir.dtype import SHORT_NAMES, DType
from rushlight.ir.graph import NUMBER, Call, Graph, Inner, OutputView, inner_of
from rushlight.ir.type import Device, TensorType, contiguous_strides
from rushlight.sym import Condition, RuntimeAssert, Size, SizeExpr, format_size, free_symbols, scopes_of
from rushlight.term import format_value

_FLIPPED = {"==": "==", "!=": "!=", "<=": ">=", ">=": "<="}


class GraphPrinter:
    """Prints one graph; remembers the names it gave."""

    def __init__(self, outer: GraphPrinter | None = None) -> None:
        self.symbols: dict[SizeExpr, str] = {} if outer is None else outer.symbols
        self.types: dict[TensorType, str] = {} if outer is None else outer.types
        self.values: dict[int, str] = {}
        self.inner: list[Inner] = []
        self.count = 0

    def format_atom(self, value: object) -> str | None:
        """Text of what is no plain literal (see `term.FormatsAtoms`)."""
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
        if isinstance(value, Inner):
            return f"@{self.inner.index(value)}"
        if isinstance(value, slice):
            return f"slice[{', '.join([format_value(part, self) for part in (value.start, value.stop, value.step)])}]"
        return None

    def size(self, size: Size) -> str:
        """A size, its symbols renamed."""
        if isinstance(size, int):
            return str(size)
        for symbol in free_symbols(size):
            self.symbols.setdefault(symbol, f"s{len(self.symbols)}")
        return format_size(size, self.symbols)

    def type(self, type_: TensorType) -> str:
        """`f32[s0, 4]`, with strides and device only where they are not the default ones."""
        text = self.types.get(type_)
        if text is None:
            text = self.types[type_] = self._type(type_)
        return text

    def _type(self, type_: TensorType) -> str:
        text = f"{SHORT_NAMES[type_.dtype]}[{', '.join([self.size(size) for size in type_.shape])}]"
        if type_.strides != contiguous_strides(type_.shape):
            text += f" strides [{', '.join([self.size(size) for size in type_.strides])}]"
        if type_.device.type != "cpu" or type_.device.index is not None:
            text += f" on {type_.device}"
        return text + (" weak" if type_.weak else "")

    def graph(self, graph: Graph, facts: bool = False) -> list[str]:
        """The lines of a graph."""
        for call in graph.parameters:
            self.values[id(call)] = f"%{call.attr('name')}"
        words = ["frozen " if index in graph.frozen else "" for index in range(len(graph.parameters))]
        pairs = zip(words, graph.parameters, strict=True)
        header = ", ".join([f"{self.values[id(call)]}: {word}{self.type(call.type)}" for word, call in pairs])
        body: list[str] = []
        for call in graph.calls:
            if self.name(call).startswith("%"):
                for inner in inner_of(call):
                    body += self._inner(inner)
                body.append(self.call(call))
        body.append(f"return {', '.join([self.values[id(call)] for call in graph.outputs])}".rstrip())
        for position, value in graph.mutations:
            body.append(f"write {self.values[id(graph.parameters[position])]} <- {self.values[id(value)]}")
        body.extend([self.view(view) for view in graph.views])
        body.extend([f"assert not {self.values[id(check.fails)]}: {check.code}" for check in graph.asserts])
        if graph.sizes:
            body.append(f"sizes [{', '.join([self.size(size) for size in graph.sizes])}]")
        if facts:
            body[:0] = self.facts()
        return [f"{graph.name}({header}) {{", *[f"  {line}" for line in body], "}"]

    def _inner(self, inner: Inner) -> list[str]:
        """The lines of a graph that a call runs; what is asserted in it stands in it."""
        self.inner.append(inner)
        printer = type(self)(self)
        header, *lines = printer.graph(inner.graph)
        checks = [f"  {self.check(check)}" for check in inner.branch.asserts]
        return [f"@{len(self.inner) - 1} {header}", *checks, *lines]

    def name(self, call: Call) -> str:
        """What stands for a call from now on: the next number after %, or the Python number that it is."""
        if call.op is NUMBER:
            text = format_value(call.attr("value"), self)
        else:
            text = f"%{self.count}"
            self.count += 1
        self.values[id(call)] = text
        return text

    def view(self, view: OutputView) -> str:
        """The line of an output that is a view."""
        sizes, strides = (f"[{', '.join([self.size(s) for s in row])}]" for row in (view.shape, view.strides))
        return f"view {view.output} of {view.base[0]} {view.base[1]} {sizes} {strides} + {self.size(view.offset)}"

    def facts(self) -> list[str]:
        """What is known of the symbols that were printed: one line each, then the guards and checks of their scopes."""
        conditions = self.conditions()
        return [*[_symbol_line(symbol, name) for symbol, name in self.symbols.items()], *conditions]

    def conditions(self) -> list[str]:
        """The guards and checks of the scopes of the symbols that were printed."""
        scopes = scopes_of(self.symbols)
        guards = [f"given {self.condition(guard.condition)}" for scope in scopes for guard in scope.guards]
        return [*guards, *[self.check(check) for scope in scopes for check in scope.asserts]]

    def check(self, check: RuntimeAssert) -> str:
        """The line of a run-time assert."""
        return f"check {self.condition(check.condition)}"

    def condition(self, condition: Condition) -> str:
        """A condition, its symbols renamed. Of its two forms, which differ in sign, names decide, not symbols' ages."""
        one = f"{self.size(condition.expr)} {condition.relation} 0"
        other = f"{self.size(-1 * condition.expr)} {_FLIPPED[condition.relation]} 0"
        return min(one, other, key=lambda text: (text.startswith("-"), text))

    def call(self, call: Call) -> str:
        """One call's line."""
        attrs = ", ".join([f"{name}={format_value(value, self)}" for name, value in call.attrs if value is not None])
        operands = ", ".join([self._operand(operand) for operand in call.operands])
        several = isinstance(call.type, tuple)
        result = f"({', '.join([self.type(type_) for type_ in call.type])})" if several else self.type(call.type)
        region = "" if call.region is None else f" @{call.region}"
        body = f" {{{attrs}}}" if attrs else ""
        return f"{self.values[id(call)]} = {call.op.name}({operands}){body}{region}{self.place(call)} : {result}"

    def place(self, call: Call) -> str:
        """What is said of the user's lines that a call stands in: nothing, as equal graphs print equal."""
        return ""

    def _operand(self, operand: object) -> str:
        if operand is None:
            return "none"
        if isinstance(operand, tuple):
            return f"[{', '.join([self.values[id(part)] for part in operand])}]"
        return self.values[id(operand)]


def _symbol_line(symbol: SizeExpr, name: str) -> str:
    declared = symbol.facts
    text = f"size {name}"
    if declared.hint is not None:
        text += f" = {declared.hint}"
    elif declared.preferred is not None:
        text += f" about {declared.preferred}"
    return text + _bounds_text(symbol)


def _bounds_text(symbol: SizeExpr, name: str = "") -> str:
    declared = symbol.facts
    text = ""
    if declared.lower != 0:
        text += f" from {'-inf' if declared.lower is None else declared.lower}"
    if declared.upper is not None:
        text += f" to {declared.upper}"
    if declared.multiple_of != 1:
        text += f" step {declared.multiple_of}"
    return name + text if text else ""


def format_graph(graph: Graph, *, facts: bool = False) -> str:
    """The text of a graph; with `facts`, of its sizes' hints and conditions too, so that nothing is lost."""
    return "\n".join(GraphPrinter().graph(graph, facts))


def identity_of(graph: Graph) -> str:
    """The text of a graph and the conditions under which it was traced, without hints: equal where code may be shared.

    Operators are taken apart, and sizes resolved, by what was guarded, which types need not show.
    """
    printer = GraphPrinter()
    lines = [*printer.graph(graph, False), *printer.conditions()]
    bounds = [_bounds_text(symbol, name) for symbol, name in printer.symbols.items()]
    return "\n".join([*lines, *[text for text in bounds if text]])
