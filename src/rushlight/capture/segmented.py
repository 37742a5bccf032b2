"""Programs of several native calls: between them are calls on the host, and sizes that only values tell."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rushlight.build.segments import Birth, HostStep, NativeStep, cut_at_births
from rushlight.capture.launching import Launching
from rushlight.eager.autograd.modes import no_grad
from rushlight.eager.dispatch import dispatch
from rushlight.eager.memory import array_of
from rushlight.ir.graph import NUMBER, Graph
from rushlight.ir.value import map_operands
from rushlight.support.errors import fail
from rushlight.support.frozen import frozen
from rushlight.sym import RuntimeAssert, SizeExpr, evaluate, free_symbols, scope_of

if TYPE_CHECKING:
    from rushlight.build import Executable


@frozen
class Ran:
    """The outputs of a run, and the values of all symbols, those that were born in it included."""

    outputs: list[Any]
    values: dict[SizeExpr, int]


class Segmented:
    """A graph as a list of steps. Run-time asserts are checked as soon as their sizes are known."""

    def __init__(self, graph: Graph, compile_graph: Callable[[Graph], Executable]) -> None:
        self.input_types = tuple([call.type for call in graph.parameters])
        self.output_types = tuple([call.type for call in graph.outputs])
        self.launchings: list[Launching] = []
        self._parameters = [id(call) for call in graph.parameters]
        self._outputs = [id(call) for call in graph.outputs]
        steps = cut_at_births(graph)
        places = {step.symbol: place for place, step in enumerate(steps, 1) if isinstance(step, Birth)}
        ready: list[list[RuntimeAssert]] = [[] for _ in range(len(steps) + 1)]
        for item in _asserts(places):
            ready[max([places.get(symbol, 0) for symbol in free_symbols(item.condition.expr)], default=0)].append(item)
        self._first = ready[0]
        self._steps = [(self._runner(step, compile_graph), ready[place]) for place, step in enumerate(steps, 1)]

    @property
    def executables(self) -> tuple[Executable, ...]:
        """What its native steps run."""
        return tuple([launching.executable for launching in self.launchings])

    def _runner(
        self, step: HostStep | NativeStep | Birth, compile_graph: Callable[[Graph], Executable]
    ) -> Callable[[dict[int, Any], dict[SizeExpr, int]], None]:
        if isinstance(step, Birth):
            return _birth_runner(step)
        if isinstance(step, HostStep):
            return _host_runner(step)
        launching = Launching(step.graph, step.sizes, compile_graph)
        self.launchings.append(launching)
        reads, makes = [id(call) for call in step.reads], [id(call) for call in step.makes]

        def run(values: dict[int, Any], sizes: dict[SizeExpr, int]) -> None:
            values.update(zip(makes, launching.run([values[key] for key in reads], sizes), strict=True))

        return run

    def run(self, inputs: Sequence[Any], sizes: Mapping[SizeExpr, int]) -> Ran:
        """Runs all steps; R002 where an assert does not hold, before anything is written."""
        values: dict[int, Any] = dict(zip(self._parameters, inputs, strict=True))
        found = dict(sizes)
        _check(self._first, found)
        for step, asserts in self._steps:
            step(values, found)
            if asserts:
                _check(asserts, found)
        return Ran([values[key] for key in self._outputs], found)


def _birth_runner(birth: Birth) -> Callable[[dict[int, Any], dict[SizeExpr, int]], None]:
    symbol, key, dim = birth.symbol, id(birth.call), birth.dim

    def run(values: dict[int, Any], sizes: dict[SizeExpr, int]) -> None:
        tensor = values[key]
        sizes[symbol] = int(array_of(tensor)) if dim is None else tensor.form.shape[dim]

    return run


def _host_runner(step: HostStep) -> Callable[[dict[int, Any], dict[SizeExpr, int]], None]:
    call = step.call
    op: Any = call.op
    several = isinstance(call.type, tuple)

    def run(values: dict[int, Any], sizes: dict[SizeExpr, int]) -> None:
        operands = map_operands(
            call.operands, lambda item: item.attr("value") if item.op is NUMBER else values[id(item)]
        )
        attrs = {name: None if name in op.births else concrete(value, sizes) for name, value in call.attrs}
        with no_grad():
            result = dispatch(op, operands, attrs)
        for target, item in zip(step.results, result if several else (result,), strict=True):
            if target is not None:
                values[id(target)] = item

    return run


def concrete(value: Any, sizes: Mapping[SizeExpr, int]) -> Any:
    """An attribute with its sizes as integers."""
    if isinstance(value, SizeExpr):
        return evaluate(value, sizes)
    return tuple([concrete(item, sizes) for item in value]) if isinstance(value, tuple) else value


def _asserts(births: Iterable[SizeExpr]) -> list[RuntimeAssert]:
    scopes = {id(scope): scope for scope in [scope_of(symbol) for symbol in births] if scope is not None}
    return [item for scope in scopes.values() for item in scope.asserts]


def _check(asserts: Sequence[RuntimeAssert], sizes: Mapping[SizeExpr, int]) -> None:
    for item in asserts:
        if not item.condition.holds(sizes):
            values: dict[str, Any] = {name.facts.name: sizes[name] for name in free_symbols(item.condition.expr)}
            fail("R002", str(item), frame=item.frame, **values)
