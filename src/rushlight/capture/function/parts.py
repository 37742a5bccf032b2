"""Functions that are compiled in parts: what no graph can hold runs in Python between graphs."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from itertools import pairwise
from typing import Any, NoReturn

from rushlight.capture.arguments import Arguments, Names, place_of, unpacking
from rushlight.capture.entry.entry import Entry
from rushlight.capture.function.counting import CountingNumbers, Counts
from rushlight.capture.function.trees import TreeCalls, has_trees
from rushlight.capture.function.whole import (
    MOST_CONTAINERS,
    OF_STATE,
    OF_WRAPPERS,
    QUIET_GRAPHS,
    CompiledFunction,
    TreeFunction,
    Undo,
    WholeFunction,
    WrapperFunction,
    wrapper_calls,
)
from rushlight.capture.guard import Guard
from rushlight.capture.numbers import ProgramNumbers
from rushlight.capture.options import Options
from rushlight.capture.program import Program, Recorder
from rushlight.capture.resume import breaks
from rushlight.capture.resume.breaks import NOT_NOW, Reason, Retrace, is_of_caller
from rushlight.capture.resume.continuation import Continuation
from rushlight.capture.resume.driver import Driver, note_failure
from rushlight.capture.resume.reached import is_object
from rushlight.capture.resume.whole import FoundState, reached_objects
from rushlight.capture.stance import STANCE
from rushlight.capture.state.places import CellBox
from rushlight.capture.state.reachable import StateWalk
from rushlight.capture.steering import as_function
from rushlight.capture.subclass.calls import UNKNOWN, WrapperCalls
from rushlight.capture.user_paths import written_variables
from rushlight.eager.dispatch import STATE
from rushlight.ir.spec.propose import Observed
from rushlight.support.errors import CompileError, RushlightError
from rushlight.sym import Scope

_CONTAINER = re.compile("the same (list|dict|set|tuple|deque)")
MOST_TEXTS = 2  # graphs for texts, bytes or None in one place, before it is tried to pass by them
_MOST_ELEMENTS = 64  # that `tolist` gives as values of a graph, each in a fraction of a millisecond
_POSITION = re.compile(r"args\[(\d+)\]")
_NAME = re.compile(r"a\d+(?:_\d+)*")  # of a variable that takes arguments apart
_ATTRIBUTE = re.compile(r"a\d+(?:_\d+)+")  # of one for an attribute of an object
_PART = "args["  # what the place of such an attribute begins with
_OF_PARTS = frozenset({"arguments", "class", "constant"})  # guards of attributes that graphs can end before


class Forbidden(BaseException):
    """Leaves a function in parts with an error of the stance, past the program's handlers."""

    def __init__(self, error: CompileError) -> None:
        super().__init__(error)
        self.error = error


class Wrapped(BaseException):
    """Leaves a function in parts before it has begun: a tensor of a subclass is among what it gets."""


class PartFunction(WholeFunction):
    """What runs the graphs of one place in a function that is compiled in parts.

    `wrapped` are the calls of that function with tensors of subclasses.
    """

    is_part = True
    takes_trees = False

    def __init__(
        self, continuation: Continuation, options: Options, name: str, wrapped: WrapperCalls[WrapperFunction]
    ) -> None:
        super().__init__(continuation, options)
        self.name = name
        self._calls = wrapped
        self.continuation = continuation
        self._found = FoundState(shares=False, restless=continuation.restless)
        self.changing: set[int] = set()
        self.reshaped: set[int] = set()
        self._counts = Counts()
        self.tracing = False

    def _trace(self, args: tuple[object, ...], kwargs: dict[str, object], prepared: Undo) -> Entry:
        self.tracing = True
        try:
            entry = super()._trace(args, kwargs, prepared)
            self.tracing = False
            return entry
        except Retrace as again:
            self.tracing = False
            self._keeping.keep_end(again)
            raise
        except CompileError as error:
            if error.code not in OF_WRAPPERS or self._calls.in_parts or not self.continuation.is_start:
                raise
        raise Wrapped

    def _again(self) -> Callable[[], WholeFunction]:
        return partial(PartFunction, self.continuation, self.options, self.name, self._calls)

    def _arguments(
        self, args: tuple[object, ...], kwargs: dict[str, object], names: Names, prepared: Undo
    ) -> tuple[Arguments, StateWalk]:
        arguments = Arguments(args, kwargs, names, is_object)
        arguments.fresh = self.continuation.fresh()
        walk = self._found.walk(self.function, self._leaves(arguments), prepared)
        cells = {leaf.owner_id for leaf in walk.leaves if isinstance(leaf.container, CellBox)}
        arguments.pin({id(leaf.value) for leaf in walk.leaves} | cells)
        return arguments, walk

    def _leaves(self, arguments: Arguments) -> list[tuple[str, object]]:
        written = self._written(arguments.args, arguments.unpack)
        return [
            (written.get(name, name), value) for name, value in arguments.leaves if id(value) not in arguments.objects
        ]

    def _traced(
        self, recorder: Recorder, arguments: Arguments, stand_in: Callable[[int, str, object], object]
    ) -> Callable[..., object]:
        recorder.ends, recorder.takes_hooks = breaks.end_before, False
        recorder.tracer.most_elements = _MOST_ELEMENTS
        return partial(self.continuation.trace, reached_objects(recorder, arguments, stand_in, self._found))

    def _written(self, args: tuple[object, ...], unpack: Sequence[str]) -> dict[str, str]:
        return written_variables(self.continuation.names(), args, unpack)

    def reset(self) -> None:
        """Forgets all traces."""
        super().reset()
        self.changing.clear()
        self.reshaped.clear()
        self._counts.clear()

    def _scope(self) -> Scope:
        return Scope(asks=self._counts.asks)

    def _numbers(self, scope: Scope, arguments: Arguments) -> ProgramNumbers:
        written = partial(self._written, arguments.args, arguments.unpack)
        return CountingNumbers(scope, written, self._counts, arguments)

    def _is_counted(self, program: Program) -> bool:
        return bool(program.graph.calls)

    def _yield_to(self, mode: str) -> None:
        super()._yield_to(mode)
        raise Retrace(NOT_NOW, Reason(breaks.MODE, mode))

    def _as_it_is(self, args: tuple[object, ...], kwargs: dict[str, object]) -> NoReturn:
        raise Retrace(NOT_NOW, Reason(breaks.DISABLED, STANCE.name))

    def _runs_eagerly(self, args: tuple[object, ...], kwargs: dict[str, object]) -> bool:
        try:
            super()._runs_eagerly(args, kwargs)
        except CompileError as error:
            raise Forbidden(error) from None
        self._as_it_is(args, kwargs)

    def _note_miss(self, entry: Entry, guard: Guard) -> None:
        if guard.kind == "memory":
            self.reshaped.update(_shared_containers(entry, guard))
        position, _ = _about(entry, guard)
        if guard.kind in ("object", "arguments") and position is not None:
            reshaped = guard.kind == "arguments" and len(self.entries) < QUIET_GRAPHS
            reshaped = reshaped and not guard.expected.startswith("list")  # a list that grows does so at each call
            (self.reshaped if reshaped else self.changing).add(position)

    def _note_misses(self, failed: Sequence[tuple[Entry, Guard]]) -> bool:
        about = [(guard, *_about(entry, guard)) for entry, guard in failed]
        texts = Counter([position for guard, position, _ in about if guard.kind == "constant"])
        self.reshaped.update([at for at, count in texts.items() if at is not None and count == MOST_TEXTS])
        if not self.continuation.is_start:  # whose caller may pass fewer
            self.changing.update(_growing(failed))
        counts = Counter(
            [
                (position, path, _most_misses(guard))
                for guard, position, path in about
                if guard.kind in (_OF_PARTS if position is None and path.startswith(_PART) else OF_STATE)
            ]
        )
        shared = [_shared(entry, guard) for entry, guard in failed if guard.kind == "memory"]
        counts |= Counter([(position, "", QUIET_GRAPHS) for each in shared for position in each])
        full = len(self.entries) >= QUIET_GRAPHS  # the other entries may differ there too, behind another guard
        others = [
            (position, path)
            for (position, path, most), count in counts.items()
            if count >= most or (full and count >= MOST_CONTAINERS)
        ]
        counted = full and self._counts.end()
        self.changing.update([position for position, _ in others if position is not None])
        self.continuation.restless.update([path for position, path in others if position is None])
        of_call = self.continuation.is_start and bool(counted or self.changing)
        return bool(counted or others or self.changing) and not of_call  # whose caller may pass fewer


def _about(entry: Entry, guard: Guard) -> tuple[int | None, str]:
    """Which argument a guard is about, and its path.

    Of an attribute of an object among the arguments it is None and the place, of state None and the path.
    """
    path, variables = guard.path, unpacking(entry.unpack)
    while (name := _NAME.match(path)) is not None and name[0] in variables:
        path = variables[name[0]] + path[name.end() :]
        if _ATTRIBUTE.fullmatch(name[0]) is not None:
            return None, place_of(name[0], variables)
    position = _POSITION.match(path)
    return (None, guard.path) if position is None else (int(position[1]), guard.path)


def _unpacked(entry: Entry, name: str) -> str:
    """What a name stands for in the function of an entry."""
    return unpacking(entry.unpack).get(name, name)


def _growing(failed: Sequence[tuple[Entry, Guard]]) -> list[int]:
    """Which arguments are dicts that grow: what each graph was made for is the beginning of what the next was."""
    held: dict[int, list[str]] = {}
    for entry, guard in failed:
        position, _ = _about(entry, guard)
        if guard.kind == "arguments" and guard.expected.startswith("dict") and position is not None:
            held.setdefault(position, []).append(guard.expected.removesuffix("]"))
    return [
        position
        for position, keys in held.items()
        if len(set(keys)) >= MOST_CONTAINERS
        and all(more.startswith(less) for less, more in pairwise(sorted(keys, key=len)))
    ]


def _shared_containers(entry: Entry, guard: Guard) -> list[int]:
    """Which containers among the arguments hold a tensor that is given by itself too."""
    texts = [_unpacked(entry, name) for name in (guard.path, guard.expected.rpartition(" ")[2])]
    found = [(position, text) for text in texts if (position := _POSITION.match(text)) is not None]
    return [int(position[1]) for position, text in found if position[0] != text]


def _shared(entry: Entry, guard: Guard) -> set[int]:
    """Which arguments a graph does without that takes no tensor for another one, as a guard has it."""
    found = set(_shared_containers(entry, guard)) or {_about(entry, guard)[0]}
    return {position for position in found if position is not None}


def _most_misses(guard: Guard) -> int:
    """How many graphs are made for different values of what a guard is about."""
    of_container = guard.kind == "container" or _CONTAINER.fullmatch(guard.expected)
    return MOST_CONTAINERS if of_container else QUIET_GRAPHS


class ResumingFunction(CompiledFunction):
    """A function that is compiled in parts: what no graph can hold runs in Python between graphs."""

    def __init__(self, function: Callable[..., object], options: Options) -> None:
        super().__init__(function, options)
        self._wrapped = wrapper_calls(function, options)
        self._trees = TreeCalls(function, partial(TreeFunction, options=options))
        self._driver = Driver(
            as_function(function), partial(PartFunction, options=options, name=self.name, wrapped=self._wrapped)
        )

    def __call__(self, *args: object, **kwargs: object) -> Any:
        """Run graphs, and between them what only Python can do."""
        if (STATE.included or STATE.jacobian) and self.runs_as_it_is():
            return self.function(*args, **kwargs)
        if STANCE.name != "default" and self._runs_eagerly():
            return self.function(*args, **kwargs)
        if not self._trees.in_parts and has_trees(args, kwargs):
            result = self._of_one_graph(self._trees, partial(self._trees.run, args, kwargs))
            if result is not UNKNOWN:
                return result
        if self._wrapped.kinds:
            result = self._of_one_graph(self._wrapped, partial(self._wrapped.run, args, kwargs, known=True))
            if result is not UNKNOWN:
                return result
        try:
            return self._driver.run(args, kwargs)
        except Forbidden as forbidden:
            raise forbidden.error from None
        except Wrapped:
            pass
        result = self._of_one_graph(self._wrapped, partial(self._wrapped.run, args, kwargs))
        return self(*args, **kwargs) if result is UNKNOWN else result

    def _runs_eagerly(self) -> bool:
        """Whether no graph runs, as the stance has it."""
        return STANCE.name == "force_eager" or (STANCE.name == "eager_on_recompile" and not self._driver.parts)

    def _of_one_graph(
        self, calls: WrapperCalls[WrapperFunction] | TreeCalls[TreeFunction], run: Callable[[], object]
    ) -> object:
        """What a call gives that takes values apart; UNKNOWN where no graph can hold all of it."""
        try:
            return run()
        except RushlightError as error:
            if is_of_caller(error):
                raise
            note_failure(error)
        calls.in_parts = True
        return UNKNOWN

    def traces(self) -> tuple[Entry, ...]:
        """The traces of all parts, those of the first place in it first."""
        return tuple([entry for part in self.parts() for entry in part.entries])

    def reset(self) -> None:
        """Forgets all traces."""
        self._driver.reset()
        self._wrapped.reset()
        self._trees.reset()

    def observed(self) -> list[Observed | None]:
        """What the traces that are all of a call took its arguments to be, the oldest first."""
        start = self._driver.start
        if start is None or not isinstance(start.part.compiled, PartFunction):
            return []
        found = [entry.observed for entry in reversed(start.part.compiled.entries)]
        return [None if trace is None else start.as_called(trace) for trace in found]

    def parts(self) -> Sequence[WholeFunction]:
        """What runs its parts, and all of it for tensors of subclasses and for objects in parts."""
        parts = [part.compiled for part in self._driver.parts.values() if isinstance(part.compiled, PartFunction)]
        return [*parts, *self._wrapped.graphs(), *self._trees.graphs()]
