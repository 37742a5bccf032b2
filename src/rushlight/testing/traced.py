"""Programs traced without a size known, many in one graph, and the runs of that graph."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from rushlight import build
from rushlight.eager.execution.plan import KernelPlan
from rushlight.eager.handle import Handle, mark_required
from rushlight.eager.tensor_meta import form_of
from rushlight.eager.tracing import Tracer
from rushlight.ir.graph import Call, Graph, GraphBuilder, with_dense_outputs
from rushlight.ir.type import CPU, TensorType
from rushlight.ops.view.reshape import SHARED, STRIDES
from rushlight.support.errors import fail
from rushlight.support.frozen import frozen
from rushlight.sym import MEETING, RuntimeAssert, Scope, Size, SizeExpr, evaluate, free_symbols, is_symbol
from rushlight.testing.programs import (
    Dim,
    Input,
    Own,
    Program,
    Step,
    product_of,
    replaced_refs,
    strides_of,
)
from rushlight.testing.running import SEED, Outcome, applied

Place = tuple[int, str, int]  # a value, "shape" or "strides", and a dim
_REFUSALS = {MEETING: "met 1", STRIDES: "other strides", SHARED: "other strides"}
AGREED = ("equal", "raised", "other structure", *_REFUSALS.values())
"""What may become of a program: results, an error of eager's that is asserted, and refusals (see `fuzz`)."""


@frozen
class Traced:
    """A program in a graph: its values, its inputs' parameters, where its symbols are found, and what it asserts."""

    program: Program
    values: tuple[Any, ...]
    inputs: Mapping[int, Call]
    places: Mapping[SizeExpr, Place]
    asserts: tuple[RuntimeAssert, ...]

    @property
    def types(self) -> tuple[TensorType | None, ...]:
        """The values' types; None for a gradient that is not there."""
        return tuple([None if value is None else value.form.type for value in self.values])

    def results(self) -> list[int]:
        """The values that are compared: those that no call takes, and where tensors are written to, all of them."""
        used: set[int] = set()
        made: list[int] = []
        position = 0
        for part in self.program.parts:
            if isinstance(part, Step):
                replaced_refs(part.operands, used.add)
            if not isinstance(part, Input):
                made.extend(range(position, position + part.results))
            position += 1 if isinstance(part, Input) else part.results
        wanted = range(position) if self.program.writes else [at for at in made if at not in used]
        return [at for at in wanted if self.values[at] is not None]

    def judge(self, outcome: Outcome) -> str:
        """One of AGREED; or else what is wrong, after a word for its kind and a colon."""
        symbols = self._symbols(outcome.values)
        failed = [check for check in self.asserts if _is_about(check, symbols) and not check.condition.holds(symbols)]
        ranks = [None if value is None else len(value.form.type.shape) for value in outcome.values]
        structure = ranks == [None if type_ is None else type_.ndim for type_ in self.types[: len(ranks)]]
        if outcome.error is not None:
            agreed = bool(failed) or not structure
            return "raised" if agreed else f"accepted: eager raises {outcome.error}"
        structure = structure and len(ranks) == len(self.types)
        if not failed:
            return self._compared(outcome, symbols) if structure else "wrong: other dims or results than eager's"
        first = failed[0].message
        if first in _REFUSALS:  # what is asserted later may rest on that
            return _REFUSALS[first]
        said = ", ".join([f"{check.message} {check.condition}" for check in failed])
        return f"refused: {said}" if structure else "other structure"

    def _symbols(self, values: Sequence[Any]) -> dict[SizeExpr, int]:
        symbols: dict[SizeExpr, int] = {}
        for symbol, (value, word, dim) in self.places.items():
            if value < len(values) and values[value] is not None:
                symbols[symbol] = getattr(values[value].form.type, word)[dim]
        return symbols

    def _compared(self, outcome: Outcome, values: Mapping[SizeExpr, int]) -> str:
        for position, (value, type_) in enumerate(zip(outcome.values, self.types, strict=True)):
            if type_ is None:
                continue
            shape = tuple([evaluate(size, values) for size in type_.shape])
            if (
                shape != tuple(value.form.type.shape)
                or type_.dtype is not value.form.dtype
                or min(shape, default=0) < 0
            ):
                return f"wrong: v{position} is {type_.dtype.name}{list(shape)}, in eager {value.form.type}"
        return "equal"


def _is_about(check: RuntimeAssert, values: Mapping[SizeExpr, int]) -> bool:
    return all(symbol in values for symbol in free_symbols(check.condition.expr))


class Pool:
    """One graph of many programs: they have a scope and a compilation together."""

    def __init__(self) -> None:
        self.scope = Scope()
        self.builder = GraphBuilder("fuzz")
        self.ordinal = 0
        self.tracer = Tracer(self.builder, self.scope, self._lift, self._random_state)

    def _lift(self, tensor: Handle) -> TensorType:
        fail("X001", "fuzz: a program reads a tensor that it was not given", tensor=tensor)

    def _random_state(self, generator: object, count: int) -> tuple[int, int]:
        state = self.ordinal
        self.ordinal += count
        return SEED, state

    def trace(self, program: Program) -> Traced:
        """Adds a program's calls to the graph, all of its sizes symbols without hints."""
        self.ordinal = 0
        before = len(self.scope.asserts)
        inputs = _Inputs(self.scope)
        calls: dict[int, Call] = {}
        values: list[Any] = []
        with self.tracer.active():
            for part in program.parts:
                if isinstance(part, Input):
                    tensor = self.tracer.fake(inputs.type_of(part))
                    calls[len(values)] = self.tracer.node(tensor).call
                    if len(values) in program.leaves:  # before the trace, as an argument does
                        mark_required(tensor)
                    made: tuple[Any, ...] = (tensor,)
                else:
                    made = applied(part, values, inputs.size)
                values.extend(made)
                inputs.shapes.extend([() if element is None else tuple(element.form.type.shape) for element in made])
        return Traced(program, tuple(values), calls, inputs.places, tuple(self.scope.asserts[before:]))

    def graph(self, programs: Sequence[Traced]) -> Graph:
        """The programs' results as a graph, of inputs that something reads."""
        return self._graph(programs)[0]

    def compile(self, programs: Sequence[Traced], backend: str | None) -> Running:
        """The programs as an executable."""
        graph, inputs, results = self._graph(programs)
        return Running(build.compile_graph(build.with_index_asserts(graph), backend), inputs, results)

    def _graph(self, programs: Sequence[Traced]) -> tuple[Graph, list[tuple[int, int]], list[tuple[int, int]]]:
        results = [(row, position) for row, traced in enumerate(programs) for position in traced.results()]
        outputs = [self.tracer.node(programs[row].values[position]) for row, position in results]
        parameters = {
            id(call): (row, position) for row, traced in enumerate(programs) for position, call in traced.inputs.items()
        }
        whole = self.builder.graph(outputs)
        kept: tuple[Call, ...] = tuple([call for call in whole.parameters if id(call) in parameters])
        graph = with_dense_outputs(replace(whole, parameters=kept))
        return graph, [parameters[id(call)] for call in kept], results


class _Inputs:
    """Makes the types of one program's inputs."""

    def __init__(self, scope: Scope) -> None:
        self.scope = scope
        self.shapes: list[tuple[Size, ...]] = []
        self.places: dict[SizeExpr, Place] = {}
        self.owned: dict[int, SizeExpr] = {}

    def size(self, dim: Dim) -> Size:
        """The size of a dim."""
        if not isinstance(dim, Own):
            return dim if isinstance(dim, int) else product_of(dim, self.shapes)
        if dim.number not in self.owned:
            self.owned[dim.number] = self.scope.symbol()
        return self.owned[dim.number]

    def type_of(self, part: Input) -> TensorType:
        """The type of an input, each dim a symbol or 1."""
        value = len(self.shapes)
        shape: list[Size] = []
        for position, dim in enumerate(part.dims):
            size: Size = self.scope.symbol() if part.apart and not isinstance(dim, int) else self.size(dim)
            if isinstance(size, SizeExpr) and not is_symbol(size):
                size = self.scope.symbol()
            if isinstance(size, SizeExpr):
                self.places.setdefault(size, (value, "shape", position))
            shape.append(size)
        strides = strides_of(shape, part.layout)
        if part.layout == "spread":
            symbols = [self.scope.symbol() for _ in shape]
            self.places.update({symbol: (value, "strides", index) for index, symbol in enumerate(symbols)})
            strides = tuple(symbols)
        return TensorType(tuple(shape), part.dtype, CPU, strides)


class Running:
    """An executable of many programs; inputs and `results` are values of programs: (program, value)."""

    def __init__(
        self, executable: build.Executable, inputs: Sequence[tuple[int, int]], results: Sequence[tuple[int, int]]
    ) -> None:
        self._executable = executable
        self._inputs = tuple(inputs)
        self.results = tuple(results)

    def run(self, values: Callable[[int], Sequence[Any]]) -> Sequence[Handle]:
        """The results, with the inputs that `values` has of each program."""
        tensors = [values(row)[position] for row, position in self._inputs]
        forms = [tensor.form for tensor in tensors]
        layouts = self._executable.infer_outputs([tuple(form.shape) for form in forms])
        rows = zip(layouts, self._executable.output_types, strict=True)
        outputs = [form_of(shape, type_.dtype, CPU, strides) for (shape, strides), type_ in rows]
        words = [form.words for form in (*forms, *outputs)]
        return KernelPlan(self._executable, tensors, words, outputs).run(tensors)
