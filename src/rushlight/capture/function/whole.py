"""Compiled functions whose calls are one graph, each with a list of entries, one for each trace."""

from __future__ import annotations

import functools
import gc
import threading
import weakref
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from types import FunctionType
from typing import TYPE_CHECKING, Any

from rushlight.capture import aot
from rushlight.capture.arguments import Arguments, Names
from rushlight.capture.entry.entry import MISS, Entry
from rushlight.capture.entry.misses import UNDEFINED, Miss, miss_of
from rushlight.capture.function.again import Call, traced_again
from rushlight.capture.function.building import build_entry
from rushlight.capture.function.trees import TreeCalls, has_trees
from rushlight.capture.gradients.reopened import TRACING
from rushlight.capture.guard import Guard
from rushlight.capture.marks import marks_of
from rushlight.capture.numbers import ProgramNumbers
from rushlight.capture.options import Options
from rushlight.capture.program import Program, Recorder, open_type, record
from rushlight.capture.resume import breaks
from rushlight.capture.resume.graphless import is_leaf
from rushlight.capture.resume.whole import FoundState, refuse_shared, whole_call
from rushlight.capture.signals import Interrupted, held_signals
from rushlight.capture.source import TensorSource
from rushlight.capture.stance import STANCE
from rushlight.capture.state.freezing import Frozen
from rushlight.capture.state.reachable import StateWalk, walk_function
from rushlight.capture.state.reads import Reads, forget_unread
from rushlight.capture.steering import wrapped_by
from rushlight.capture.stored.programs import Keeping, stored_order
from rushlight.capture.subclass.calls import Taking, WrapperCalls
from rushlight.capture.user_paths import written_arguments
from rushlight.capture.values import TAIL, no_placeholder
from rushlight.eager.dispatch import STATE
from rushlight.eager.handle import Handle
from rushlight.ir.spec.propose import Observed
from rushlight.runtime.native import run_or_undo
from rushlight.support import clock, events, garbage, profiling
from rushlight.support.errors import CompileError, fail, warn
from rushlight.sym import Scope
from rushlight.sym.memo import forget, forgetting

if TYPE_CHECKING:
    from rushlight.ir.spec.specification import ParamsSpec

OF_WRAPPERS = ("C036", "C042")  # errors of traces that tensors of subclasses may be the cause of
OF_STATE = frozenset({"object", "constant", "container"})  # guards of state that graphs can do without
MOST_CONTAINERS = 3  # graphs that look into different containers in one place of the state, or one of other lengths
_TRIES = 4  # traces of one call, before one that does not fit it is an error
QUIET_GRAPHS = 8  # of one function; beyond these a warning says which guard keeps failing
# By identity. The callbacks are a method of C: one in Python would run anywhere, and lose an interrupt in it.
_compiled: dict[int, weakref.ref[CompiledFunction]] = {}
_count = [0]
Undo = list[Callable[[], None]]
"""What takes back what was made ready for a trace."""


class CompiledFunction(ABC):
    """A function whose calls run compiled traces."""

    is_part = False

    def __init__(self, function: Any, options: Options) -> None:
        functools.update_wrapper(self, function, updated=())
        self.function = function
        self.options = options
        self.name: str = getattr(self, "__qualname__", None) or type(function).__name__
        self._yielded: set[str] = set()
        _compiled[id(self)] = weakref.ref(self, partial(_compiled.pop, id(self)))

    @property
    def __rushlight_traced__(self) -> Any:
        """What a trace calls in its place."""
        return self.function

    @property
    def __rushlight_promise__(self) -> str:
        """What callers are promised of its graphs, wherever it is called."""
        return breaks.OWN_GRAPHS if self.options.freeze else ""

    @abstractmethod
    def __call__(self, *args: object, **kwargs: object) -> Any:
        """Run the function."""

    @abstractmethod
    def traces(self) -> tuple[Entry, ...]:
        """Its traces, the most recent first."""

    @abstractmethod
    def reset(self) -> None:
        """Forgets all traces."""

    def parts(self) -> Sequence[WholeFunction]:
        """What runs the parts of a function that is compiled in parts."""
        return ()

    def observed(self) -> list[Observed | None]:
        """What the traces took all arguments of a call to be, the oldest first."""
        return [entry.observed for entry in reversed(self.traces())]

    def runs_as_it_is(self) -> bool:
        """Whether calls are part of a trace, or somebody wants to see what runs: modes, `vmap`, `jacrev`."""
        if STATE.tracer is not None:
            return True
        modes = STATE.modes or STATE.functions
        if modes or STATE.maps or STATE.jacobian:
            self._yield_to(type(modes[-1]).__name__ if modes else "vmap" if STATE.maps else "a Jacobian")
            return True
        return False

    def _yield_to(self, mode: str) -> None:
        """Records, once for each function, that a mode is on."""
        if mode not in self._yielded:
            self._yielded.add(mode)
            events.record("graph_break", breaks.MODE.code, f"{self.name} under {mode}", hint=breaks.MODE.hint)

    def __get__(self, instance: object, owner: type | None = None) -> Any:
        return self if instance is None else partial(self, instance)


class WholeFunction(CompiledFunction):
    """A function whose calls are one graph each. Each trace serves all inputs that pass its guards.

    Objects of registered classes are taken apart, if it `takes_trees`.
    """

    takes_trees = True
    keeps = True  # entries for other processes

    def __init__(self, function: Any, options: Options) -> None:
        super().__init__(function, options)
        self.entries: tuple[Entry, ...] = ()
        self.dynamic_numbers: set[str] = set()
        self._found = FoundState(shares=False, restless=set())
        self._keeping = Keeping()
        self._wrapped: WrapperCalls[WrapperFunction] | None = None
        self._trees = TreeCalls(function, partial(TreeFunction, options=options))

    @property
    def __rushlight_promise__(self) -> str:
        """What callers are promised of its graphs, wherever it is called."""
        return super().__rushlight_promise__ or breaks.ONE_GRAPH

    def __call__(self, *args: object, **kwargs: object) -> Any:
        """Run the first entry whose guards hold; trace a new one when there is none."""
        if ((STATE.included or STATE.jacobian) and self.runs_as_it_is()) or STANCE.name == "force_eager":
            return self._as_it_is(args, kwargs)
        for entry in self.entries:
            result = entry.call(args, kwargs)
            if result is not MISS:
                return result
        if self._wrapped is not None:
            return self._wrapped.run(args, kwargs)
        if self.takes_trees and has_trees(args, kwargs):
            return self._trees.run(args, kwargs)
        if STANCE.name != "default" and self._runs_eagerly(args, kwargs):
            return self.function(*args, **kwargs)
        return self._missed(args, kwargs)

    def _as_it_is(self, args: tuple[object, ...], kwargs: dict[str, object]) -> object:
        """What a call gives without graphs."""
        return self.function(*args, **kwargs)

    def _missed(self, args: tuple[object, ...], kwargs: dict[str, object]) -> object:
        """The result of a call that fits no entry. One that another thread has made meanwhile is asked first.

        What Python runs while a call is traced, as warnings that a list keeps or handlers of signals, may change what
        it was given: then it is traced once more.
        """
        tries = 0
        while True:
            seen = self.entries
            tries += 1
            for entry in seen:
                result = entry.call(args, kwargs)
                if result is not MISS:
                    return result
            try:
                trace = partial(self._trace_unless_made, seen, args, kwargs)
                result = _first_call(self, trace, args, kwargs, may_miss=tries < _TRIES)
            except CompileError as error:
                if error.code not in OF_WRAPPERS or type(self) is not WholeFunction:
                    raise
                self._wrapped = wrapper_calls(self.function, self.options)
                return self._wrapped.run(args, kwargs)
            if result is not MISS:
                return result

    def _trace_unless_made(
        self, seen: tuple[Entry, ...], args: tuple[object, ...], kwargs: dict[str, object], prepared: Undo
    ) -> Entry | None:
        return self._trace(args, kwargs, prepared) if self.entries is seen else None

    def traces(self) -> tuple[Entry, ...]:
        """Its traces, the most recent first."""
        wrapped = [] if self._wrapped is None else self._wrapped.graphs()
        graphs: list[WholeFunction] = [*wrapped, *self._trees.graphs()]
        return (*self.entries, *[entry for function in graphs for entry in function.traces()])

    def reset(self) -> None:
        """Forgets all traces."""
        self.entries = ()
        self._wrapped = None
        self._trees.reset()

    def _runs_eagerly(self, args: tuple[object, ...], kwargs: dict[str, object]) -> bool:
        """Whether a call without a graph runs uncompiled, as the stance has it. Errors: C040."""
        miss = self._miss_of(self.entries[0], args, kwargs) if self.entries else None
        return STANCE.runs_eagerly(self.name, "there is no graph yet" if miss is None else miss.reason)

    def _trace(self, args: tuple[object, ...], kwargs: dict[str, object], prepared: Undo) -> Entry:
        _say_why(self, args, kwargs)
        entry = self._keeping.find(self.function, self.options, args, kwargs, prepared) if self.keeps else None
        order = None if entry is None else stored_order(entry)
        if entry is not None and order is not None:
            order.trace = partial(traced_again, self._again(), entry, Call(args, kwargs))
        _count[0] += entry is not None
        entry = entry or self._entry(args, kwargs, None, prepared)
        self.entries = (entry, *self.entries)
        return entry

    def _miss_of(self, entry: Entry, args: tuple[object, ...], kwargs: dict[str, object]) -> Miss | None:
        """Why a call does not fit an entry, in the words of users."""
        return miss_of(entry, args, kwargs, self._written(args, entry.unpack))

    def _note_miss(self, entry: Entry, guard: Guard) -> None:
        """Writes down what the next trace does otherwise, since a guard of an entry has failed."""

    def _note_misses(self, failed: Sequence[tuple[Entry, Guard]]) -> bool:
        """Is told of the guards that fail, one of each entry; whether further graphs are without one of them."""
        if not self.is_part:
            counts = Counter([guard.path for _, guard in failed if guard.kind in OF_STATE])
            self._found.are_restless([path for path, count in counts.items() if count >= MOST_CONTAINERS])
        return False

    def _entry(
        self, args: tuple[object, ...], kwargs: dict[str, object], spec: ParamsSpec | None, prepared: Undo
    ) -> Entry:
        """Traces a call, for a specification if there is one."""
        return self._found.traced(partial(self._traced_once, args, kwargs, spec, prepared), may_fix=spec is None)

    def _again(self) -> Callable[[], WholeFunction]:
        """What makes a function like this one, without traces."""
        return partial(type(self), self.function, self.options)

    def traced_program(
        self, args: tuple[object, ...], kwargs: dict[str, object], prepared: Undo
    ) -> tuple[Program, Arguments, StateWalk, Names]:
        """What is traced of a call, which no entry is made of."""
        return self._found.traced(partial(self._program, args, kwargs, None, prepared), may_fix=True)

    def _traced_once(
        self, args: tuple[object, ...], kwargs: dict[str, object], spec: ParamsSpec | None, prepared: Undo
    ) -> Entry:
        program, arguments, walk, names = self._program(args, kwargs, spec, prepared)
        _count[0] += self._is_counted(program)
        entry = build_entry(program, arguments, walk, names, self.options)
        if self.keeps:
            self._keeping.keep(self.function, entry, program, arguments, walk)
        return entry

    def _program(
        self, args: tuple[object, ...], kwargs: dict[str, object], spec: ParamsSpec | None, prepared: Undo
    ) -> tuple[Program, Arguments, StateWalk, Names]:
        unset: set[int] = set()
        while True:
            names = Names()
            arguments, walk = self._arguments(args, kwargs, names, prepared)
            walk.has_others = threading.active_count() > 1
            reads = Reads(walk)
            try:
                program = run_or_undo(partial(self._record, arguments, walk, names, unset, spec, reads), reads.leave)
            finally:
                if not self.is_part:
                    self._found.look_again(walk)
            missing = {key for key in program.inputs.unset_gradients if key not in unset}
            if not missing:
                break
            unset |= missing
        written = {id(effect.container) for effect in program.effects.entries if effect.key is not TAIL}
        roots = [*self._leaves(arguments), *self._found.named()]
        past = {"restless": walk.restless, "opened": walk.opened}
        forget_unread(walk, reads, written, partial(walk_function, self.function, roots, **past))
        refuse_shared(arguments, walk, reads, self._found)
        walk.add_assumed()
        if self.options.freeze:
            frozen = [
                position for position, source in enumerate(program.inputs.sources) if isinstance(source, TensorSource)
            ]
            program = replace(program, graph=replace(program.graph, frozen=tuple(frozen)))
        return program, arguments, walk, names

    def _arguments(
        self, args: tuple[object, ...], kwargs: dict[str, object], names: Names, prepared: Undo
    ) -> tuple[Arguments, StateWalk]:
        """The arguments of a call taken apart, and what the function reaches."""
        arguments = Arguments(args, kwargs, names)
        return arguments, self._found.walk(self.function, self._leaves(arguments), prepared)

    def _leaves(self, arguments: Arguments) -> list[tuple[str, object]]:
        """Leaves of the arguments from which state is reached, with their names."""
        return arguments.leaves

    def _traced(
        self, recorder: Recorder, arguments: Arguments, stand_in: Callable[[int, str, object], object]
    ) -> Callable[..., object]:
        """What a recorder runs; `stand_in(position, name, value)` is what stands for a leaf of the arguments."""
        return whole_call(self.function, recorder, arguments, stand_in, self._found)

    def _written(self, args: tuple[object, ...], unpack: Sequence[str]) -> dict[str, str]:
        """How users write the leaves of a call's arguments, which `unpack` takes apart."""
        return written_arguments(self.function, unpack)

    def _scope(self) -> Scope:
        """What has the symbols of a trace."""
        return Scope()

    def _numbers(self, scope: Scope, arguments: Arguments) -> ProgramNumbers:
        """What keeps account of the numbers of a trace."""
        return ProgramNumbers(scope, partial(self._written, arguments.args, arguments.unpack))

    def _is_counted(self, program: Program) -> bool:
        """Whether a trace is one of the graphs that `graph_count` tells."""
        return True

    def _record(
        self,
        arguments: Arguments,
        walk: StateWalk,
        names: Names,
        unset: set[int],
        spec: ParamsSpec | None,
        reads: Reads,
    ) -> Program:
        reads.enter()
        opened = None if spec is None else spec.open()
        frozen = Frozen(walk, self.options.freeze)
        scope = self._scope() if opened is None else opened.scope
        numbers = self._numbers(scope, arguments)
        recorder = Recorder(walk, names, frozen, numbers)

        def stand_in(position: int, name: str, value: object) -> object:
            if opened is None:
                return self._stand_in(recorder, position, name, value)
            return aot.stand_in(opened, recorder, position, name, value)

        recorder.tracer.elsewhere = partial(self.options.refuse_made, hold=self.is_part)
        function = self._traced(recorder, arguments, stand_in)
        try:
            program = record(recorder, function, arguments, stand_in, self.dynamic_numbers, unset)
            if opened is not None:
                program = aot.finish(opened, program)
        finally:
            numbers.settle()
        reads.leave()
        return program

    def _stand_in(self, recorder: Recorder, position: int, name: str, value: object) -> object:
        """What stands for an argument while tracing. Errors: C010 for what is left of another trace."""
        if issubclass(type(no_placeholder(value)), Handle) and isinstance(value, Handle):
            is_open = self.options.dynamic and not (self._found.fixes and not marks_of(value))
            type_ = open_type(recorder, value, position) if is_open else value.form.type
            return recorder.argument(position, value, type_)
        return value if type(value) not in (int, float) else number_of(recorder, name, value, fixes=self._found.fixes)


def _first_call(
    function: WholeFunction,
    trace: Callable[[Undo], Entry | None],
    args: tuple[object, ...],
    kwargs: dict[str, object],
    *,
    may_miss: bool = False,
) -> object:
    """The result of a call that makes an entry; MISS where none is made. Where it fails nothing has happened.

    If it `may_miss`, MISS also where the entry does not fit the call any more.

    `TRACING` is held while the entry is made, and not while it runs: a call may wait for another thread's.
    """
    prepared: Undo = []
    made: list[Entry] = []
    collected = gc.isenabled()

    def called() -> object:
        with (
            held_signals(wraps=True) as arrived,
            TRACING,
            profiling.profiled("compile"),
            garbage.uncollected(),
            forgetting(),
            clock.stage("capture"),
        ):
            entry = trace(prepared)
            if entry is None:
                return MISS
            made.append(entry)
        result = entry.call(args, kwargs)
        if result is MISS and not may_miss:
            _refuse_change(entry, args, kwargs, by_others=bool(arrived) or threading.active_count() > 1)
        return result

    def undo() -> None:
        for take_away in prepared:
            take_away()
        if prepared:  # the entry was made for what has been taken away
            with TRACING:
                function.entries = tuple([entry for entry in function.entries if entry not in made])
        if collected:
            gc.enable()

    try:
        return run_or_undo(called, undo)
    except Interrupted as interrupted:
        if function.is_part:
            raise
        error = interrupted.error
    raise error


def _say_why(function: WholeFunction, args: tuple[object, ...], kwargs: dict[str, object]) -> None:
    """Records why another graph is made: the guard that fails of the graph that fits best."""
    misses: list[tuple[int, Miss]] = []
    failed: list[tuple[Entry, Guard]] = []
    for number, entry in enumerate(reversed(function.entries), 1):
        miss = function._miss_of(entry, args, kwargs)
        if miss is None:
            continue
        misses.append((number, miss))
        if miss.guard is not None:
            function._note_miss(entry, miss.guard)
            function.dynamic_numbers.update(miss.numbers)
            failed.append((entry, miss.guard))
    ends = function._note_misses(failed)
    if not function.entries:
        return
    misses = misses or [(len(function.entries), UNDEFINED)]
    number, nearest = max(reversed(misses), key=lambda each: each[1].nearness)
    suffix = f", as graph {number} of {len(function.entries)} has it" if len(function.entries) > 1 else ""
    reason = nearest.reason + suffix
    events.record("recompile", nearest.kind, reason, hint=nearest.hint)
    if len(function.entries) == QUIET_GRAPHS and not ends:
        name = function.name
        warn("C008", f"compile: {name} has {QUIET_GRAPHS} graphs, and makes more", key=name, last=reason)


class TreeFunction(WholeFunction):
    """What runs the graphs of a function for objects that it gets in parts."""

    is_part = True
    takes_trees = keeps = False


class WrapperFunction(WholeFunction):
    """What runs the graphs of a function for some tensors of subclasses, which it gets in parts."""

    takes_trees = keeps = False

    def __init__(self, options: Options, taking: Taking) -> None:
        super().__init__(taking.function, options)
        self._taking = taking

    def _traced(
        self, recorder: Recorder, arguments: Arguments, stand_in: Callable[[int, str, object], object]
    ) -> Callable[..., object]:
        return self._taking.trace(recorder.tracer, recorder.walk)

    def _written(self, args: tuple[object, ...], unpack: Sequence[str]) -> dict[str, str]:
        return {}


def number_of(recorder: Recorder, name: str, value: Any, *, fixes: bool) -> object:
    """What stands for a number among the arguments: one of the run time, or, if it `fixes`, that of the call."""
    number = recorder.number(name, value)
    return number.item() if fixes else number


def wrapper_calls(function: Any, options: Options) -> WrapperCalls[WrapperFunction]:
    """Calls of a function with tensors of subclasses."""
    return WrapperCalls(function, partial(WrapperFunction, options))


class SpecifiedFunction(WholeFunction):
    """A function whose calls run the artifact of the first specification that they fit."""

    keeps = False

    def __init__(self, function: Callable[..., object], options: Options, specs: tuple[ParamsSpec, ...]) -> None:
        super().__init__(function, options)
        self.specs = specs
        self._made: dict[ParamsSpec, Entry] = {}

    @property
    def __rushlight_promise__(self) -> str:
        """What callers are promised of its graphs, wherever it is called."""
        return breaks.OWN_GRAPHS

    def __call__(self, *args: object, **kwargs: object) -> Any:
        """Run the artifact for the call; C022 where it fits no specification."""
        if ((STATE.included or STATE.jacobian) and self.runs_as_it_is()) or STANCE.name == "force_eager":
            return self.function(*args, **kwargs)
        spec = aot.first_fitting(self.specs, args, kwargs)
        return self._run(spec, aot.in_order(spec.args, args), aot.in_order(spec.kwargs, kwargs))

    def reset(self) -> None:
        """Forgets all artifacts."""
        super().reset()
        self._made.clear()

    def _run(self, spec: ParamsSpec, args: tuple[object, ...], kwargs: dict[str, object]) -> object:
        entry = self._made.get(spec)
        result = MISS if entry is None else entry.call(args, kwargs)
        if result is not MISS:
            return result
        result = _first_call(self, partial(self._specified_unless_made, spec, entry, args, kwargs), args, kwargs)
        return self._run(spec, args, kwargs) if result is MISS else result

    def _specified_unless_made(
        self,
        spec: ParamsSpec,
        seen: Entry | None,
        args: tuple[object, ...],
        kwargs: dict[str, object],
        prepared: Undo,
    ) -> Entry | None:
        made = self._made.get(spec)
        return self._specified(spec, args, kwargs, prepared) if made is None or made is seen else None

    def _specified(
        self, spec: ParamsSpec, args: tuple[object, ...], kwargs: dict[str, object], prepared: Undo
    ) -> Entry:
        entry = self._made[spec] = self._entry(args, kwargs, spec, prepared)
        self.entries = tuple(reversed(self._made.values()))
        return entry


def is_whole(function: object) -> bool:
    """Whether a function is one of ours, which no interpreter looks into: it is traced as it is.

    One that wraps a function of the program, as `vmap` makes it, is called by a function that is looked into.
    """
    plain = wrapped_by(function)
    return type(plain) is FunctionType and is_leaf(plain) and not hasattr(plain, "__wrapped__")


def compiled_functions() -> list[CompiledFunction]:
    """All compiled functions that there are, without their parts."""
    functions = [ref() for ref in list(_compiled.values())]
    return [function for function in functions if not (function is None or function.is_part)]


def reset() -> None:
    """Forgets every trace of every compiled function, and the count."""
    for function in compiled_functions():
        function.reset()
    _count[0] = 0
    forget()


def graph_count() -> int:
    """Graphs compiled since the last reset; a forward and its backward are one."""
    return _count[0]


def _refuse_change(entry: Entry, args: tuple[object, ...], kwargs: dict[str, object], by_others: bool) -> None:
    """C003 for a fresh entry that does not fit its call, if others may have changed its state; else X001."""
    miss = miss_of(entry, args, kwargs)
    reason = None if miss is None else miss.reason
    if by_others:
        hint = "read it before the call, and pass it; rl.compile(f, fullgraph=False) leaves it to Python"
        fail("C003", "compile: threads or handlers of signals change what the function reads", reason=reason, hint=hint)
    fail("X001", "a fresh trace does not fit the call that it was made for", reason=reason)
