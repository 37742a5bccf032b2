"""What an exported program consists of."""

from __future__ import annotations

from collections.abc import Sequence

from rushlight.capture.values import Template
from rushlight.export.canonical import in_canonical_form
from rushlight.export.inputs import Input, Mutated, State
from rushlight.export.naming import argument_titles
from rushlight.ir.graph import Graph
from rushlight.ir.spec.specification import OpenSpec, ParamsSpec
from rushlight.sym import RuntimeAssert, free_symbols


class Parts:
    """What an exported program consists of; see `ExportedProgram`."""

    def __init__(
        self,
        graph: Graph,
        opened: OpenSpec,
        names: Sequence[str],
        inputs: Sequence[Input],
        result: Template,
        draws: int,
        state: State,
    ) -> None:
        self.opened = opened
        self.names = tuple(names)
        self.result = result
        self.draws = draws
        graph, inputs, self.state = in_canonical_form(graph, inputs, state, argument_titles(opened.spec, names))
        self.graph = graph
        self.inputs = tuple(inputs)
        opened.scope.asserts[:] = _by_readiness(opened.scope.asserts, graph)

    @property
    def spec(self) -> ParamsSpec:
        """What is assumed of the arguments, and checked at each call."""
        return self.opened.spec

    @property
    def checks(self) -> tuple[RuntimeAssert, ...]:
        """What is checked at each run besides, with the user's line: `rl.check`, and what operators need."""
        return tuple(self.opened.scope.asserts)

    @property
    def mutated(self) -> tuple[Mutated, ...]:
        """The tensors that a run writes to."""
        sources = [(self.inputs[position], value) for position, value in self.graph.mutations]
        return tuple([Mutated(source.kind, source.target, value) for source, value in sources])


def _by_readiness(checks: Sequence[RuntimeAssert], graph: Graph) -> list[RuntimeAssert]:
    """The checks in the order in which a run can ask them: each when the last of its sizes is known."""
    places = {symbol: position for position, call in enumerate(graph.calls, 1) for symbol in call.unbacked_symbols()}

    def readiness(check: RuntimeAssert) -> int:
        return max([places.get(symbol, 0) for symbol in free_symbols(check.condition.expr)], default=0)

    return sorted(checks, key=readiness)
