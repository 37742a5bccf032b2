"""Programs of several native calls: between them are calls on the host, and sizes that only values tell."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from rushlight.build import with_index_asserts
from rushlight.build.inlining import inlined
from rushlight.build.segments import (
    HostStep,
    NativeStep,
    UnbackedOutput,
    cut_at_unbacked_outputs,
    is_segmented,
    verify_steps,
)
from rushlight.capture.control import DRIVERS, Body
from rushlight.capture.launching import Launching, evaluated
from rushlight.eager.autograd.modes import no_grad
from rushlight.eager.composite.sequences import empty_strided
from rushlight.eager.dispatch import dispatch
from rushlight.eager.handle import Handle
from rushlight.eager.memory import array_of
from rushlight.eager.mutation import COPY
from rushlight.eager.tensor_meta import form_of
from rushlight.ir.graph import NUMBER, Call, Graph, Inner, with_dense_outputs
from rushlight.ir.sizes import with_hidden_sizes
from rushlight.ir.type import TensorType, row_major
from rushlight.ir.value import map_operands
from rushlight.ops.record import OPERATORS, Fact
from rushlight.runtime import native
from rushlight.support import settings
from rushlight.support.errors import fail
from rushlight.support.frozen import frozen
from rushlight.sym import Branch, RuntimeAssert, SizeExpr, evaluate, free_symbols, is_symbol

if TYPE_CHECKING:
    from rushlight.build import Executable
    from rushlight.build.executable import Commit

Compile = Callable[[Graph], "Executable"]
Values = dict[int, Any]
"""Tensors, and numbers among the inputs, by the identity of the call in the graph."""
Runner = Callable[[Values, dict[SizeExpr, int]], None]


@frozen
class Ran:
    """The outputs of a run, and the values of all symbols, those that were born in it included."""

    outputs: list[Handle]
    values: dict[SizeExpr, int]


class Runs(Protocol):
    """What runs a graph on tensors and numbers."""

    def bound(self, inputs: Sequence[object], sizes: Mapping[SizeExpr, int]) -> Body:
        """A function of inputs of these forms to the outputs. `sizes` are the values of symbols from outside."""
        ...


class Segmented:
    """A graph as a list of steps. Run-time asserts are checked as soon as their sizes are known."""

    def __init__(self, graph: Graph, compile_graph: Compile, asserts: Sequence[RuntimeAssert] | None = None) -> None:
        self.input_types = tuple([call.type for call in graph.parameters])
        self.output_types = tuple([call.type for call in graph.outputs])
        self.launchings: list[Launching] = []
        graph = with_index_asserts(graph)
        self._parameters = [id(call) for call in graph.parameters]
        self._outputs = [id(call) for call in graph.outputs]
        steps = cut_at_unbacked_outputs(graph)
        if settings.get().verify:
            verify_steps(graph, steps)
        self._ends_natively = bool(steps) and isinstance(steps[-1], NativeStep)
        places = {step.symbol: position for position, step in enumerate(steps, 1) if isinstance(step, UnbackedOutput)}
        ready: list[list[RuntimeAssert]] = [[] for _ in range(len(steps) + 1)]
        for check in _asserts(graph) if asserts is None else asserts:
            ready[max([places.get(symbol, 0) for symbol in free_symbols(check.condition.expr)], default=0)].append(
                check
            )
        self._first = ready[0]
        self._last: tuple[Launching, list[int], list[int]] | None = None
        self._steps = [(self._runner(step, compile_graph), ready[position]) for position, step in enumerate(steps, 1)]

    @property
    def executables(self) -> tuple[Executable, ...]:
        """What its native steps run."""
        return tuple([launching.executable for launching in self.launchings])

    def _runner(self, step: HostStep | NativeStep | UnbackedOutput, compile_graph: Compile) -> Runner:
        if isinstance(step, UnbackedOutput):
            return _unbacked_output_runner(step)
        if isinstance(step, HostStep):
            return _host_runner(step, compile_graph)
        launching = Launching(step.sizes, partial(compile_graph, step.graph))
        self.launchings.append(launching)
        reads, makes = [id(call) for call in step.reads], [id(call) for call in step.makes]
        self._last = (launching, reads, makes)  # the step that makes the results, and writes to inputs

        def run(values: Values, sizes: dict[SizeExpr, int]) -> None:
            values.update(zip(makes, launching.run([values[key] for key in reads], sizes), strict=True))

        return run

    def run(
        self, inputs: Sequence[object], sizes: Mapping[SizeExpr, int], commit: Callable[[Ran], Commit] | None = None
    ) -> Ran:
        """Runs all steps; R002 where an assert does not hold, before anything is written.

        What `commit` makes of the results, before the last step computes them, is committed together with that step.
        """
        values: Values = dict(zip(self._parameters, inputs, strict=True))
        known_sizes = dict(sizes)
        check_asserts(self._first, known_sizes)
        ends_natively = commit is not None and self._ends_natively
        for step, asserts in self._steps[:-1] if ends_natively else self._steps:
            step(values, known_sizes)
            if asserts:
                check_asserts(asserts, known_sizes)
        if commit is None:
            return self._ran(values, known_sizes)
        if not ends_natively or self._last is None:
            ran = self._ran(values, known_sizes)
            native.functions().commit(commit(ran))
            return ran
        launching, reads, makes = self._last
        rans: list[Ran] = []

        def made(outputs: Sequence[Handle]) -> Commit:
            values.update(zip(makes, outputs, strict=True))
            rans.append(self._ran(values, known_sizes))
            return commit(rans[0])

        launching.finish([values[key] for key in reads], known_sizes, made)
        return rans[0]

    def _ran(self, values: Values, sizes: dict[SizeExpr, int]) -> Ran:
        return Ran([values[key] for key in self._outputs], sizes)

    def bound(self, inputs: Sequence[object], sizes: Mapping[SizeExpr, int]) -> Body:
        """What gives the outputs of a run."""
        return lambda inputs: self.run(inputs, sizes).outputs


class Whole:
    """A graph that is one native call. `asserts` are checked before it."""

    def __init__(self, launching: Launching, asserts: Sequence[RuntimeAssert] = ()) -> None:
        self.launching = launching
        self.asserts = list(asserts)

    @staticmethod
    def of(graph: Graph, compile_graph: Compile, asserts: Sequence[RuntimeAssert] = ()) -> Whole:
        """What runs a graph, which is compiled when it first runs."""
        graph, sizes = with_hidden_sizes(with_index_asserts(graph))
        return Whole(Launching(sizes, partial(compile_graph, with_dense_outputs(graph))), asserts)

    def bound(self, inputs: Sequence[object], sizes: Mapping[SizeExpr, int]) -> Body:
        """What gives the outputs of a run."""
        check_asserts(self.asserts, sizes)
        return self.launching.bound(inputs, sizes)


class InnerRunner:
    """Runs a graph that a call of another graph holds; it is made when it first runs."""

    def __init__(self, inner: Inner, compile_graph: Compile) -> None:
        self._inner = inner
        self._compile_graph = compile_graph
        self._runs: Runs | None = None
        self._shown: list[tuple[SizeExpr, int, int]] = []
        for position, call in enumerate(inner.graph.parameters):
            for dim, size in enumerate(call.type.shape):
                if isinstance(size, SizeExpr) and is_symbol(size):
                    self._shown.append((size, position, dim))

    def bound(self, inputs: Sequence[Any], sizes: Mapping[SizeExpr, int]) -> Body:
        """A function of inputs of these forms to the outputs. `sizes` are those of the graph around it."""
        if self._runs is None:
            self._runs = self._made()
        known_sizes = dict(sizes)
        for symbol, position, dim in self._shown:
            known_sizes[symbol] = inputs[position].form.shape[dim]
        return self._runs.bound(inputs, known_sizes)

    def _made(self) -> Runs:
        graph, branch = inlined(self._inner.graph), self._inner.branch
        compile_graph = partial(_compiled_within, branch, self._compile_graph)
        with branch.scope.within(branch):
            make = Segmented if is_segmented(graph) else Whole.of
            return make(graph, compile_graph, branch.asserts)


def _compiled_within(branch: Branch, compile_graph: Compile, graph: Graph) -> Executable:
    """The executable of a graph of a branch, which is compiled when it first runs."""
    with branch.scope.within(branch):
        return compile_graph(graph)


def _unbacked_output_runner(birth: UnbackedOutput) -> Runner:
    symbol, call = birth.symbol, birth.call

    def run(values: Values, sizes: dict[SizeExpr, int]) -> None:
        if call is not None:
            sizes[symbol] = int(array_of(values[id(call)]))

    return run


def _host_runner(step: HostStep, compile_graph: Compile) -> Runner:
    call = step.call
    op = call.op
    several = isinstance(call.type, tuple)
    attrs = {
        name: None if name in op.unbacked_outputs else _with_runners(value, compile_graph) for name, value in call.attrs
    }
    facts: Fact = getattr(op, "facts", Fact.NONE)
    driver, foreign = DRIVERS.get(op), Fact.FOREIGN in facts

    def run(values: Values, sizes: dict[SizeExpr, int]) -> None:
        operands = map_operands(call.operands, lambda operand: _operand(operand, values, facts, sizes))
        given = {name: concrete(value, sizes) for name, value in attrs.items()}
        with no_grad():
            result: Any = dispatch(op, operands, given) if driver is None else driver(*operands, **given)
        results = result if several else (result,)
        for symbol, position, dim in step.sizes:
            sizes[symbol] = results[position].form.shape[dim]
        for target, output in zip(step.results, results, strict=True):
            if target is not None:
                values[id(target)] = output
                if foreign:
                    _require_type(op.name, target.type, output, sizes)

    return run


def _operand(operand: Call, values: Values, facts: Fact, sizes: Mapping[SizeExpr, int]) -> Any:
    """What a call of the host is given: a number, or a tensor that lies as the operator's tags say."""
    if operand.op is NUMBER:
        return operand.attr("value")
    value, type_ = values[id(operand)], operand.type
    if not facts & (Fact.EXACT_STRIDES | Fact.ROW_MAJOR) or not isinstance(type_, TensorType):
        return value
    strides = evaluated((row_major(type_) if Fact.ROW_MAJOR in facts else type_).strides, sizes)
    shape = tuple(value.form.shape)
    differ = any(step != own and size > 1 for step, own, size in zip(strides, value.form.strides, shape, strict=True))
    return _copied(value, shape, strides) if differ and 0 not in shape else value


def _copied(value: Handle, shape: tuple[int, ...], strides: tuple[int, ...]) -> Handle:
    """A tensor's elements at other strides; a dim of stride 0 has one."""
    own = tuple([size if step else 1 for size, step in zip(shape, strides, strict=True)])
    with no_grad():
        memory = empty_strided(own, strides, dtype=value.form.dtype, device=value.form.device)
        dispatch(COPY, (memory, _strided(value, own, tuple(value.form.strides))), {})
        return _strided(memory, shape, strides)


def _strided(value: Handle, shape: tuple[int, ...], strides: tuple[int, ...]) -> Any:
    attrs = {"size": shape, "stride": strides, "storage_offset": None}
    return dispatch(OPERATORS["as_strided"], (value,), attrs)


def _require_type(op: str, type_: TensorType, result: Handle, sizes: Mapping[SizeExpr, int]) -> None:
    """A012 where what a program's own operator gave has another type than its fake kernel said."""
    form, shape = result.form, evaluated(type_.shape, sizes)
    strides = zip(evaluated(type_.strides, sizes), form.strides, shape, strict=False)
    same = tuple(form.shape) == shape and form.dtype is type_.dtype
    if not same or any(said != stride and size > 1 for said, stride, size in strides):
        said = f"{type_.dtype.name} {shape}, strides {evaluated(type_.strides, sizes)}"
        fail("A012", f"{op}: a result has another type than the fake kernel says", result=result, said=said)


def _with_runners(value: object, compile_graph: Compile) -> object:
    """An attribute with what runs them in place of graphs."""
    if isinstance(value, tuple):
        return tuple([_with_runners(element, compile_graph) for element in value])
    return InnerRunner(value, compile_graph) if isinstance(value, Inner) else value


def concrete(value: object, sizes: Mapping[SizeExpr, int]) -> object:
    """An attribute for one call: sizes become integers, inner graphs functions of operands, types forms."""
    if isinstance(value, SizeExpr):
        return evaluate(value, sizes)
    if isinstance(value, InnerRunner):
        return lambda inputs: value.bound(inputs, sizes)
    if isinstance(value, TensorType):
        return lambda: form_of(evaluated(value.shape, sizes), value.dtype, value.device)
    return tuple([concrete(element, sizes) for element in value]) if isinstance(value, tuple) else value


def _asserts(graph: Graph) -> list[RuntimeAssert]:
    return [check for scope in graph.scopes for check in scope.asserts]


def check_asserts(asserts: Sequence[RuntimeAssert], sizes: Mapping[SizeExpr, int]) -> None:
    """R002 for the first assert that does not hold."""
    for check in asserts:
        if not check.condition.holds(sizes):
            values: dict[str, Any] = {name.facts.name: sizes[name] for name in free_symbols(check.condition.expr)}
            fail("R002", str(check), frame=check.frame, **values)
