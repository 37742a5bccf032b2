"""Tracing a call for export: one graph, before autograd, in which nothing is guarded."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from rushlight.capture import aot
from rushlight.capture.arguments import Arguments, Names
from rushlight.capture.gradients.inputs import Gradients
from rushlight.capture.leaving import SharedView
from rushlight.capture.numbers import ProgramNumbers
from rushlight.capture.program import Program, Recorder, record
from rushlight.capture.resume.whole import FoundState, whole_call
from rushlight.capture.source import ArgumentSource, Source
from rushlight.capture.state.freezing import Frozen
from rushlight.capture.user_paths import written_arguments
from rushlight.eager.dispatch import STATE, Scope
from rushlight.eager.handle import AUTOGRAD, Handle
from rushlight.eager.tracing import Tracer
from rushlight.export.dynamic_shapes import Given
from rushlight.export.naming import kinds_of
from rushlight.ir.spec.propose import propose
from rushlight.ir.spec.size import divides_by_integers
from rushlight.ir.spec.specification import OpenSpec, ParamsSpec
from rushlight.support.errors import fail, require
from rushlight.support.provenance import Frame, user_frames
from rushlight.sym import Condition, eq, free_symbols


class ExportTracer(Tracer):
    """Detaches what is computed under no_grad, and keeps to itself from where it was called."""

    detaches = True

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.outside: frozenset[Frame] = frozenset()  # the lines from which export was called

    def frames(self, ours: int = 1) -> tuple[Frame, ...]:
        """The user's lines of a call, up to the one that exports."""
        return tuple([frame for frame in super().frames(ours + 1) if frame not in self.outside])


class ExportGradients(Gradients):
    """Gradients as they are: a program is exported without a call before which they could be other ones."""

    placeholders = False


class ExportRecorder(Recorder):
    """Records a call for export: results that are views of inputs are results of the graph."""

    tracer_class = ExportTracer
    gradients_class = ExportGradients
    checks_dead_calls = False
    tracer: ExportTracer

    def namer_of_reached(self) -> Callable[[object], str | None]:
        """No container has a text: a program makes those that it returns."""
        return lambda value: None

    def input_source(self, tensor: Handle) -> Source | None:
        """The argument that a result is; None of other results, which the graph gives."""
        source = super().input_source(tensor)
        return source if isinstance(source, ArgumentSource) else None

    def shared_views(self, leaving: Sequence[Handle]) -> dict[int, SharedView]:
        """None: results of a program are apart from each other."""
        return {}


class Tracing:
    """Traces one function on one example."""

    def __init__(self, function: Callable[..., object], args: tuple[object, ...], kwargs: dict[str, object]) -> None:
        self.function = function
        self.args = args
        self.kwargs = kwargs
        self.outside = frozenset(user_frames())
        self._found = FoundState(shares=True)

    def traced(self, given: Given) -> tuple[Program, OpenSpec]:
        """The program, and what it was made for: what the program asked of sizes is assumed from the outset."""
        spec = given.spec
        if given.asks:
            program, opened = self._found.traced(partial(self._trace, spec, given.examples))
            spec = self._learned(program, opened, given)
        program, opened = self._found.traced(partial(self._trace, spec, {}))
        return aot.finish(opened, program), opened

    def _learned(self, program: Program, opened: OpenSpec, given: Given) -> ParamsSpec:
        """The specification with what a backed trace guarded."""
        assert program.observed is not None
        guarded = [part for condition in program.observed.conditions for part in _sayable(condition)]
        named = frozenset([symbol for name, symbol in opened.symbols.items() if name not in given.examples])
        (proposal,) = propose([replace(program.observed, conditions=(*opened.conditions, *guarded), named=named)])
        return proposal

    def _trace(self, spec: ParamsSpec, examples: Mapping[str, int]) -> tuple[Program, OpenSpec]:
        names = Names()
        arguments = Arguments(aot.in_order(spec.args, self.args), aot.in_order(dict(spec.kwargs), self.kwargs), names)
        self._require_fits(spec)
        walk = self._found.walk(self.function, arguments.leaves)
        opened = spec.open(examples=examples)
        written = partial(written_arguments, self.function, arguments.unpack)
        numbers = ProgramNumbers(opened.scope, written, abbreviates=False)
        recorder = ExportRecorder(walk, names, Frozen(walk, False), numbers)
        recorder.tracer.outside = self.outside

        def stand_in(position: int, name: str, value: object) -> object:
            return aot.stand_in(opened, recorder, position, name, value)

        with Scope(grad=True, inference=False, excluded=STATE.excluded | AUTOGRAD):
            function = whole_call(self.function, recorder, arguments, stand_in, self._found, assembles=False)
            program = record(recorder, function, arguments, stand_in)
        self._require_apart(program, spec)
        return program, opened

    def _require_fits(self, spec: ParamsSpec) -> None:
        leaves = spec.arguments(self.args, self.kwargs)
        reason = spec.violation(kinds_of(leaves))
        require(reason is None, "C022", f"export: the example does not fit {spec}: {reason}")

    def _require_apart(self, program: Program, spec: ParamsSpec) -> None:
        for position, source in program.inputs.duplicates:
            if not isinstance(source, ArgumentSource):
                message = f"export: {spec.paths[position]} is a tensor that the function reaches by itself"
                fail("C034", message, hint="pass a copy of it")


def _sayable(condition: Condition) -> list[Condition]:
    """The condition; where no specification can say it, that its sizes are those of the example."""
    if divides_by_integers(condition.expr):
        return [condition]
    fixed = [eq(symbol, symbol.facts.hint) for symbol in free_symbols(condition.expr) if symbol.facts.hint is not None]
    return [fact for fact in fixed if isinstance(fact, Condition)]
