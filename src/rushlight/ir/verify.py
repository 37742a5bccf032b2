"""Whether a graph is one: what every pass may rely on, checked.

Tests check every graph that is compiled, and `RUSHLIGHT_VERIFY=1` does so anywhere. For kernels and plans there is
`ir.verify_kernel`.
"""

from __future__ import annotations

from typing import Any, NoReturn

from rushlight.ir.graph import NUMBER, PARAMETER, RELAYOUT, RESULT, Call, Graph, inner_of, number_dtype, type_of
from rushlight.ir.text import GraphPrinter
from rushlight.ir.type import CPU, TensorType, row_major
from rushlight.support.errors import RushlightError, fail
from rushlight.sym import Size, eq, format_size, simplify, statically_known

OUTPUT, PARAMETER_BASE = "output", "parameter"  # what an output may be a view of


def verify_graph(graph: Graph) -> None:
    """Checks a graph: values are defined before their use, types are what operators infer, the alias table fits.

    Errors: C015.
    """
    _Verifier(graph).run()


class _Verifier:
    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.printer = GraphPrinter()
        self.defined: set[int] = set()

    def run(self) -> None:
        """Checks everything, in the order of the text."""
        names: set[str] = set()
        for position, call in enumerate(self.graph.parameters):
            name = call.attr("name") if call.op is PARAMETER else None
            if name is None or name in names:
                self.fail(f"parameter {position} is none, or a second one of its name", parameter=name)
            if not isinstance(call.type, TensorType):
                self.fail(f"parameter {name} has no tensor type")
            names.add(name)
            self._define(call, f"%{name}")
        for call in self.graph.calls:
            self._call(call)
        for call in self.graph.outputs:
            if id(call) not in self.defined or not isinstance(call.type, TensorType):
                self.fail("an output is no tensor of the graph", output=call.op.name)
        for check in self.graph.asserts:
            type_: object = check.fails.type
            if id(check.fails) not in self.defined or not isinstance(type_, TensorType) or type_.shape:
                self.fail("what is asserted is no value of the graph without dims", value=check.fails.op.name)
        self._mutations()
        self._views()

    def fail(self, message: str, /, **values: object) -> NoReturn:
        """Raises C015."""
        broken(self.graph.name, message, **values)

    def _define(self, call: Call, name: str) -> None:
        if id(call) in self.defined:
            self.fail(f"{name} stands in the graph twice")
        self.defined.add(id(call))
        self.printer.values[id(call)] = name

    def _call(self, call: Call) -> None:
        name = self.printer.name(call)
        for operand in call.inputs():
            if id(operand) not in self.defined:
                self.fail(f"{name} = {call.op.name}(...) uses a value that no earlier call defines", operand=operand.op)
        self._define(call, name)
        for inner in inner_of(call):
            with inner.branch.scope.within(inner.branch):
                verify_graph(inner.graph)
            self.printer.inner.append(inner)
        line = self.printer.call(call) if name.startswith("%") else name
        if call.op is PARAMETER:
            self.fail("a parameter stands among the calls", call=line)
        inferred = self._inferred(call, line)
        types = call.type if isinstance(call.type, tuple) else (call.type,)
        expected = inferred if isinstance(inferred, tuple) else (inferred,)
        if isinstance(inferred, tuple) is not isinstance(call.type, tuple) or len(types) != len(expected):
            self.fail("the number of results is wrong", call=line)
        for type_, other in zip(types, expected, strict=True):
            difference = difference_of(type_, other)
            if difference and getattr(call.op, "shares_rule", None) is not None:
                difference = difference_of(type_, row_major(other))  # a copy, by what was known when it was traced
            if difference:
                self.fail(f"the type is not the one that the operator infers: {difference}", call=line, inferred=other)

    def _inferred(self, call: Call, line: str) -> TensorType | tuple[TensorType, ...]:
        if call.op is NUMBER:
            return TensorType((), number_dtype(call.attr("value")), call.type.device, weak=True)
        if call.op is RESULT:
            types, index = call.operands[0].type, call.attr("index")
            if not isinstance(types, tuple) or not 0 <= index < len(types):
                self.fail("there is no such result", call=line)
            return types[index]
        if call.op is RELAYOUT:
            base: TensorType = call.operands[0].type
            device = base.device if base.shape or base.device != CPU else call.type.device  # numbers go along
            return TensorType(base.shape, base.dtype, device, call.type.strides, base.weak)
        for operand in call.inputs():
            if isinstance(operand.type, tuple):
                self.fail("an operand is several values: take one with `result`", call=line)
        types = tuple([type_of(operand) for operand in call.operands])
        op: Any = call.op
        try:
            return op.infer(types, dict(call.attrs))
        except RushlightError as cause:
            cause.add_note(f"while checking {line}")
            raise

    def _mutations(self) -> None:
        seen = set(self.graph.frozen)
        if not seen.issubset(range(len(self.graph.parameters))):
            self.fail("what is frozen is no parameter", frozen=self.graph.frozen)
        for position, value in self.graph.mutations:
            if not 0 <= position < len(self.graph.parameters) or position in seen:
                self.fail("a write is to no parameter or a frozen one, or the second one to it", parameter=position)
            seen.add(position)
            if id(value) not in self.defined or not isinstance(value.type, TensorType):
                self.fail("what is written is no tensor of the graph", value=value.op.name)
            target: TensorType = self.graph.parameters[position].type
            written = TensorType(value.type.shape, value.type.dtype, target.device, target.strides, target.weak)
            difference = difference_of(written, target)
            if difference:
                self.fail(f"a parameter is overwritten by a value of another type: {difference}", parameter=target)

    def _views(self) -> None:
        bases = {OUTPUT: len(self.graph.outputs), PARAMETER_BASE: len(self.graph.parameters)}
        for view in self.graph.views:
            kind, position = view.base
            fits = 0 <= view.output < len(self.graph.outputs) and 0 <= position < bases.get(kind, 0)
            if not fits or view.base == (OUTPUT, view.output) or len(view.shape) != len(view.strides):
                self.fail("an output is a view of what is not there", view=self.printer.view(view))


def broken(where: str, problem: str, /, **values: object) -> NoReturn:
    """Raises C015: a rule of the IR does not hold."""
    shown: dict[str, Any] = {name: value if isinstance(value, int) else str(value) for name, value in values.items()}
    fail("C015", f"{where}: {problem}", **shown)


def difference_of(one: TensorType, other: TensorType) -> str:
    """In what two types differ, for all that is known of their sizes; the empty string if they do not."""
    if one.dtype is not other.dtype:
        return f"dtypes {one.dtype.name} and {other.dtype.name}"
    if one.device != other.device:
        return f"devices {one.device} and {other.device}"
    if one.weak is not other.weak:
        return "only one is weak"
    if len(one.shape) != len(other.shape):
        return f"{len(one.shape)} and {len(other.shape)} dims"
    for word, first, second in (("sizes", one.shape, other.shape), ("strides", one.strides, other.strides)):
        for dim, (a, b) in enumerate(zip(first, second, strict=True)):
            if not same_size(a, b) and (word == "sizes" or _has_steps(one, dim)):
                return f"{word} {format_size(a)} and {format_size(b)} of dim {dim}"
    return ""


def _has_steps(type_: TensorType, dim: int) -> bool:
    """Whether an element may be a step along a dim away from another."""
    return not same_size(type_.shape[dim], 1) and not any(same_size(size, 0) for size in type_.shape)


def same_size(a: Size, b: Size) -> bool:
    """Whether two sizes are known to be equal."""
    return a is b or statically_known(eq(a, b)) or statically_known(eq(simplify(a), simplify(b)))
