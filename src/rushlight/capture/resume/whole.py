"""Traces a whole call into one graph: what would end the graph before the call ends is an error."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, TypeVar

import numpy as np

from rushlight.capture.arguments import Arguments
from rushlight.capture.interpreter.frame import Frame
from rushlight.capture.interpreter.loop import Interpreter
from rushlight.capture.program import Recorder, rebuild
from rushlight.capture.resume import breaks
from rushlight.capture.resume.breaks import Break, Reason, Retrace
from rushlight.capture.resume.interpreters.cautious import parts_of
from rushlight.capture.resume.interpreters.examples import example_of
from rushlight.capture.resume.interpreters.identifying import NUMBERS
from rushlight.capture.resume.interpreters.tracing import (
    OF_OPERATORS,
    TracingInterpreter,
    forget_frames,
    is_native,
    is_of_call,
    note_error,
    scopes_of_call,
)
from rushlight.capture.resume.reached import FixSizes, ReachedObjects, Reroot, Shared, resizes
from rushlight.capture.resume.recipe import Recipe, RecipeWriter, is_plain
from rushlight.capture.state.places import Variable
from rushlight.capture.state.reachable import StateWalk, walk_prepared
from rushlight.capture.state.reads import Reads
from rushlight.capture.values import Assembled
from rushlight.eager.dispatch import STATE, Scope
from rushlight.ops.record import Fact
from rushlight.support.errors import CompileError, DataDependentError, InternalError, RushlightError, error

_OF_TRACING = (Reroot, FixSizes, CompileError, DataDependentError, InternalError)


_MOST_COMPARED = 1 << 12  # bytes of an array that each call compares
_MOST_TURNS = 64  # of traces, each of which finds state that it reaches
Traced = TypeVar("Traced")
StandIn = Callable[[int, str, object], object]
"""What stands for a leaf of the arguments: of a position, a name and a value."""


class FoundState:
    """State that traces of a function have found, and of which no name in its code tells: later ones begin with it.

    `roots` are modules that they reach through objects, and globals that they change; `results` what caches gave. A
    trace that `fixes` is made for the sizes and numbers of the call alone. One that `shares` has arguments that stand
    in containers of the state too. State that is `restless` is another at each call; graphs do without it.
    """

    __slots__ = ("_needed", "fixes", "may_fix", "restless", "results", "roots", "shares", "variables")

    def __init__(self, *, shares: bool, restless: set[str] | None = None) -> None:
        self.roots: list[object] = []
        self.variables: list[Variable] = []
        self.results: dict[object, object] = {}
        self.fixes = self.may_fix = False
        self.shares = shares
        self.restless = set[str]() if restless is None else restless  # paths
        self._needed = set[str]()  # those at which one graph has to look

    def are_restless(self, paths: Iterable[str]) -> None:
        """Says that state is another at each call: further graphs do without it, if they can."""
        self.restless.update(set(paths) - self._needed)

    def look_again(self, walk: StateWalk) -> None:
        """Takes restless state as it is, and opens large containers, where a whole call looks at them.

        Errors: Reroot.
        """
        path = "" if walk.looks is None else walk.looks.stirred
        if path:
            self._needed.add(path)
            self.restless.discard(path)
            raise Reroot

    def named(self) -> list[tuple[str, object]]:
        """The roots, and what is in the variables, with their names."""
        leaves = [leaf for variable in self.variables if (leaf := variable.leaf()) is not None]
        return [*[(type(root).__name__, root) for root in self.roots], *[(leaf.path, leaf.value) for leaf in leaves]]

    def walk(
        self, function: object, leaves: Sequence[tuple[str, object]], prepared: list[Callable[[], None]] | None = None
    ) -> StateWalk:
        """What a function reaches, by itself and from the leaves of its arguments."""
        walk = walk_prepared(function, [*leaves, *self.named()], prepared, self.restless, self._needed)
        walk.add_variables(self.variables)
        return walk

    def traced(self, trace: Callable[[], Traced], *, may_fix: bool = False) -> Traced:
        """What a trace gives, which is begun again when it has found more. Errors: C003 where that does not end.

        If it `may_fix`, a trace in which an error of an operator is handled is made for the sizes of the call.
        """
        self.fixes, self.may_fix = False, may_fix
        turns = 0
        while turns < _MOST_TURNS:
            first = None
            try:
                return trace()
            except Reroot as reached:
                self.roots += [] if reached.root is None else [reached.root]
                first = reached.first
            except Shared:
                self.shares = True
            except FixSizes:
                self.fixes, self.may_fix = True, False
            if first is None:
                turns += 1
            else:
                first()
        raise error_of(Reason(breaks.FAILED, "each trace reads other variables"))


def whole_call(
    function: Callable[..., object],
    recorder: Recorder,
    arguments: Arguments,
    stand_in: StandIn,
    found: FoundState,
    *,
    assembles: bool = True,
) -> Callable[..., object]:
    """What a recorder runs to trace a call of a function.

    Unless it `assembles`, results are tensors, numbers and containers, which whoever takes them makes.
    """
    interpreter = WholeInterpreter(None, reached_objects(recorder, arguments, stand_in, found))

    def trace_call(*args: object, **kwargs: object) -> object:
        try:
            result = interpreter.trace_call(function, args, kwargs)
            given = interpreter.assembled(result) if assembles else result
            forget_frames(interpreter.made.values())
            return given
        finally:
            interpreter.forget_classes()

    return trace_call


def reached_objects(
    recorder: Recorder,
    arguments: Arguments,
    stand_in: StandIn,
    found: FoundState,
) -> ReachedObjects:
    """The objects among the arguments of a trace, which adds the variables that it reads to `found`."""

    def stands(value: object, text: str, first: int) -> object:
        leaves = arguments.leaves[first:]
        stand_ins = [stand_in(first + at, name, leaf) for at, (name, leaf) in enumerate(leaves)]
        recorder.walk.assumed.stand_for(leaves, stand_ins)
        return rebuild(value, iter(stand_ins), text, recorder.copies, {})

    state = found.roots, found.variables, found.results, found.may_fix
    reached = ReachedObjects(arguments, stands, recorder.copies, recorder.walk, *state)
    if not found.shares:
        recorder.reachable_ids -= reached.looks.hidden.keys()
    return reached


def refuse_shared(arguments: Arguments, walk: StateWalk, reads: Reads, found: FoundState) -> None:
    """Ask for the trace again if it has looked into a container of the state that holds an argument."""
    hidden = {} if walk.looks is None or found.shares else walk.looks.hidden
    opened = {id(container) for container, _ in walk.containers}
    holders = {holder for _, value in arguments.leaves for holder in hidden.get(id(value), ())}
    if any(reads.may_have_found(holder) for holder in holders & opened):
        raise Shared


def error_of(reason: Reason) -> RushlightError:
    """The error of a break, where one graph is wanted."""
    kind, detail = reason.kind, reason.detail
    if kind is breaks.VALUE:
        return error("C002", f"compile: {detail}", hint=kind.hint)
    if kind is breaks.DISABLED:
        return error("C039", f"compile: {detail}", hint=kind.hint)
    return error("C003", f"compile: one graph cannot hold this: {detail}", kind=kind, hint=kind.hint)


def _is_of_number(error: BaseException, frame: Frame) -> bool:
    """Whether the text of an error of C, or of an operator, may name what stands for a number."""
    if not is_native(frame) or not isinstance(error, (TypeError, *OF_OPERATORS)):
        return False
    values = frame.stack if isinstance(error, OF_OPERATORS) else (*frame.stack, *frame.locals)
    return any(type(value) in NUMBERS for value in values)


def _built(recipe: Recipe, *leaves: object) -> object:
    return recipe.build(leaves, ())[0]


def _bytes_of_array(value: Any) -> int | None:
    """How many bytes an array of plain values has; None for other objects."""
    if isinstance(value, array):
        return len(value) * value.itemsize
    return value.nbytes if isinstance(value, np.ndarray) and not value.dtype.hasobject else None


class WholeInterpreter(TracingInterpreter):
    """Interprets one call under a tracer, to its end."""

    __slots__ = ()

    def writes(self, target: object, *values: object) -> None:
        """Breaks before a change of what was there before. Errors: Reroot for what a variable holds that was read."""
        try:
            super().writes(target, *values)
        except Break:
            if self.reached.has_unwalked:
                raise Reroot from None
            if not self.resizes(target, *values):
                raise

    def shows(self, value: Any) -> None:
        """Has a small array compared at each call. Breaks for others."""
        size = _bytes_of_array(value)
        if size is not None and size <= _MOST_COMPARED:
            self.reached.walk.assumed.holds(value)
        else:
            super().shows(value)

    def promises(self, promise: str) -> None:
        """Takes any function to be part of the one graph."""

    def warns(self, message: str) -> None:
        """Lets a warning be given, once, while the graph is traced."""

    def resizes(self, target: object, *values: object) -> bool:
        """Whether each call can give a container that was there before other entries."""
        return self.before is None and resizes(self.reached, target, values)

    def replaces(self, container: object, key: object, value: object) -> None:
        """Breaks before an item or slice is set that was there before, unless each call can set it."""
        if not (type(container) is list and type(key) is slice and self.resizes(container, *parts_of(value))):
            super().replaces(container, key, value)

    def augments(self, target: object, value: object) -> None:
        """Breaks before a statement as `target += value` changes what was there before, unless each call can."""
        if not self.resizes(target, *parts_of(value)):
            super().augments(target, value)

    def prepares(
        self, function: Callable[..., object], owner: object, args: tuple[object, ...], kwargs: dict[str, object]
    ) -> None:
        """Has a function called before the graph is traced. Breaks where random numbers would come in another order."""
        draws = any(Fact.RANDOM in call.op.facts for call in STATE.tracer.builder.calls)
        if draws or id(owner) in self.made or self.reached.knows(owner):
            super().prepares(function, owner, args, kwargs)
        given, named = map(example_of, args), {name: example_of(value) for name, value in kwargs.items()}
        raise Reroot(first=partial(function, owner, *given, **named))

    def appends(self, target: list[object], values: tuple[object, ...]) -> bool:
        """Whether each call can append values to a list that was there before."""
        return self.reached.appends(target, values)

    def trace_call(
        self, function: Callable[..., object], args: tuple[object, ...], kwargs: dict[str, object]
    ) -> object:
        """The result of a call on stand-ins. Errors: C002, C003 or C039 where one graph cannot hold what it does."""
        for value in (*args, *kwargs.values()):
            self.reached.note(value)
        self.reached.lent = {}
        try:
            with Scope(interpreter=self):
                settings = scopes_of_call()
                result = self.call(function, args, kwargs)
                STATE.tracer.behind = BackwardInterpreter(self).calls_back
                self.raise_death()
                if scopes_of_call() != settings:
                    raise Break(breaks.SCOPE, "a setting of autograd or dispatch changes")
                if self.reached.has_unwalked:
                    raise Reroot
                for owner, _ in self.reached.kept():
                    raise Break(breaks.OUTSIDE, f"a {type(owner).__name__} changes that was there before")
                return result
        except (Break, Retrace) as found:
            raise error_of(found.reason) from None
        finally:
            self.escaped = self._death = None

    def assembled(self, result: object) -> object:
        """What the trace gives for a result: itself, or how each call makes it. Errors: C003."""
        before = self.reached.before()
        writer = RecipeWriter(self.made, before, self.variables, returns=True)
        try:
            if is_plain(result, self.made, before, set()):
                self.leave_generators(())
                return result
            recipe = writer.write([result])
            self.leave_generators(writer.known)
        except (Break, Retrace) as unbuilt:
            raise error_of(unbuilt.reason) from None
        return result if recipe.leaf is not None else Assembled(partial(_built, recipe), tuple(writer.leaves))

    def _end_by(self, error: BaseException) -> BaseException:
        return error if isinstance(error, (*_OF_TRACING, RushlightError)) else super()._end_by(error)

    def _raised(self, error: BaseException, frame: Frame) -> None:
        try:
            if isinstance(error, (Break, Retrace)):
                raise error_of(error.reason) from None
            if isinstance(error, _OF_TRACING) or self.is_interrupt(error, frame):  # past the program's handlers
                raise error
            if self.reached.may_fix and _is_of_number(error, frame):
                raise FixSizes from None
            is_of_call(self, error)
            note_error(self, error, frame)
            Interpreter._raised(self, error, frame)
        finally:
            del error  # this frame is in its traceback


class BackwardInterpreter(WholeInterpreter):
    """Interprets what a backward pass calls of the program, as hooks: each pass would do so, and the trace does once.

    So it may change nothing that the trace has found or made.
    """

    __slots__ = ()

    def __init__(self, traced: TracingInterpreter) -> None:
        super().__init__(None, traced.reached)
        self.made, self.variables, self.identities = traced.made, traced.variables, traced.identities

    def calls_back(self, function: Callable[[], Traced]) -> Traced:
        """What a function of ours gives that calls functions of the program. Errors: C002, C003, C039, Reroot."""
        with Scope(interpreter=self), self.apart():
            result = function()
        if self.reached.has_unwalked:
            raise Reroot
        return result

    def call(self, function: object, args: tuple[object, ...], kwargs: dict[str, object] | None = None) -> object:
        """What a call gives, by a loop of its own."""
        try:
            return super().call(function, args, kwargs)
        except (Break, Retrace) as found:
            raise error_of(found.reason) from None
        finally:
            self.escaped = None  # in whose traceback this call is
