"""Runs a function in parts: graphs where there can be some, and between them single instructions as Python has them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from functools import partial
from inspect import CO_VARARGS
from types import BuiltinFunctionType, CodeType, FunctionType, MethodType
from typing import Any, Protocol

from rushlight.capture.entry.entry import MISS, Entry
from rushlight.capture.interpreter.binding import binder, parameter_count
from rushlight.capture.interpreter.frame import Frame
from rushlight.capture.interpreter.invocation import begin
from rushlight.capture.interpreter.suspended import as_of_python
from rushlight.capture.resume.balance import OF_TRACE, Balance
from rushlight.capture.resume.blueprint import is_ours
from rushlight.capture.resume.breaks import NOT_NOW, UNPAID, WARNS, Break, Reason, Retrace, is_of_caller
from rushlight.capture.resume.continuation import Continuation, Exit, Place, place_of, sharing, state_of
from rushlight.capture.resume.graphless import Graphless, OpenCalls
from rushlight.capture.resume.interpreters.tracing import is_within
from rushlight.capture.resume.opaque import is_mortal
from rushlight.capture.resume.patience import ALL, Long, PatientInterpreter
from rushlight.capture.resume.reached import is_passed
from rushlight.capture.resume.recipe import Recipe
from rushlight.capture.signals import Interrupted
from rushlight.eager.dispatch import STATE
from rushlight.eager.handle import Handle
from rushlight.eager.native.learning import is_chosen
from rushlight.ir.spec.propose import Observed
from rushlight.support import events, settings
from rushlight.support.errors import RushlightError
from rushlight.support.provenance import Frame as Line
from rushlight.support.provenance import is_users

MOST_PLACES = 64  # of one function; beyond these the rest runs instruction by instruction
MOST_FRAMES = 100  # below each other; what is deeper runs instruction by instruction until it returns
MOST_LIMITED_PLACES = 256  # where a setting limits graphs, which makes each instruction a place
MOST_LIMITED_GRAPHS = 4  # of one place there: beyond these it runs instruction by instruction


class Compiled(Protocol):
    """What runs the graphs of a place.

    `changing` are the arguments, by position, of which another object came than a graph was made for; `reshaped` those
    of which a container came that holds others. It is `tracing` while a call is traced, and where that has failed.
    """

    changing: set[int]
    reshaped: set[int]
    tracing: bool

    def __call__(self, *args: Any) -> Any:
        """The Exit and the values of its recipe."""
        ...

    @property
    def entries(self) -> tuple[Entry, ...]:
        """Its graphs: `call` gives the Exit and the values of its recipe, or MISS."""
        ...

    def reset(self) -> None:
        """Forgets all traces."""
        ...


Compilation = tuple[Continuation, Compiled, list[int]]
"""What is traced from a place, what runs the traces, and which values of the state they are given."""
Outcome = tuple[Exit, list[Any]]
"""Where a graph ended, and the values that it gave."""
FAILED: Outcome = (Exit((), Recipe([], []), (), None, 0, 0, None), [])  # a graph failed, and has done nothing
_NO_KEYWORDS: dict[str, Any] = {}


def note_failure(error: Exception | Break) -> None:
    """Records that a graph could not be made, or failed as it ran: Python runs the part. Errors: the caller's own."""
    if not isinstance(error, Break) and is_of_caller(error):
        raise error
    reason = error.reason if isinstance(error, Break) else Reason.of(error)
    events.record("graph_break", reason.kind.code, reason.detail, hint=reason.kind.hint)


def _note_lost(function: Callable[..., Any], count: int) -> None:
    """Records that Python calls a function from now on."""
    called = _called_by(function)
    code = None if called is None else called.__code__
    line = None if code is None else Line(code.co_filename, code.co_firstlineno, code.co_name)
    detail = f"{count:,} bytecodes of the last call were interpreted"
    events.record("graph_break", UNPAID.code, detail, frame=line, hint=UNPAID.hint)


def _interrupt(error: BaseException) -> BaseException | None:
    """What a handler of a signal has raised, if an error of the code that runs a program is that."""
    if isinstance(error, Interrupted):
        return error.error
    if isinstance(error, (KeyboardInterrupt, SystemExit)):
        return error
    return error if not isinstance(error, (RushlightError, Break)) and _is_of_program(error) else None


def _is_of_program(error: BaseException) -> bool:
    """Whether a function of the program raised an error."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return trace is not None and is_users(trace.tb_frame.f_code.co_filename)


class Part:
    """A place and its graphs. `steps` instructions from it on hold no graph, if that is known.

    What is traced, and what runs the traces, are replaced together, so that threads see both or neither. `limit` is the
    most instructions of a graph: then graphs may be empty, so that what goes on is a state that was built.
    """

    __slots__ = (
        "_compile",
        "_current",
        "_ends",
        "_limit",
        "_needed",
        "_trial",
        "_warned",
        "compiled",
        "steps",
        "traces",
    )

    def __init__(
        self, continuation: Continuation, compile_part: Callable[[Continuation], Compiled], limit: int | None
    ) -> None:
        self._compile = compile_part
        self._limit = limit
        self._replace(replace(continuation, limit=limit))
        self._needed: set[int] = set()  # values of the state that a graph cannot pass by
        self._trial: tuple[Compilation, int] | None = None
        self.steps: int | None = None
        self.traces = 0  # that were made, or failed
        self._ends: set[Exit] = set()
        self._warned: set[Place] = set()  # where its graphs have ended before a warning

    @property
    def given(self) -> list[int]:
        """Which values of the state its graphs are given."""
        return self._current[2]

    def run(self, before: list[Any]) -> Outcome | None:
        """Where a graph ends from this state, and the values that it gives; None where there is no graph."""
        given = self._current[2]
        shared = sharing([before[at] for at in given])
        if shared and any(is_ours(shape.globals.get("__name__", "")) for shape in self._current[0].shapes):
            return None  # copies by functions of ours, as of tensors, look into all that they are given
        if shared:  # a graph is given containers that are apart, and passes by those that hold others
            passed = self._current[0].passed | {given[at] for at in shared}
            self._replace(replace(self._current[0], passed=passed))
        passed = self._current[0].passed
        mortal = {at for at in passed if is_mortal(before[at])} if passed else passed
        if mortal - self._current[0].mortal:
            self._replace(replace(self._current[0], mortal=self._current[0].mortal | mortal))
        while True:
            continuation, compiled, given = self._current
            entries, self.traces = compiled.entries, self.traces + 1
            try:
                ended, *leaves = compiled(*[before[at] for at in given], *continuation.absent(before))
            except Retrace as again:
                if again.limit == NOT_NOW:
                    self.traces -= 1
                    return None
                if again.limit <= 0:
                    self.steps = 0
                    return None
                reason = continuation.reason or again.reason  # what comes up of an earlier end follows from the first
                self._replace(replace(continuation, limit=again.limit, reason=reason))
                continue
            except (Exception, Break) as error:
                traced, compiled.tracing = compiled.tracing, False
                if compiled.entries and not traced and _interrupt(error) is not None:
                    raise  # a handler of a signal has raised it
                note_failure(error)
                if compiled.entries:  # they serve other calls
                    return FAILED
                self.steps = 0
                return None
            self.traces -= compiled.entries is entries
            if compiled.changing or compiled.reshaped or self._trial:
                self._learn(ended.instructions)
            alone = len(compiled.entries) == 1 if self._limit is None else len(self._ends) == MOST_LIMITED_GRAPHS
            if alone and not ended.calls and not self._was_tried(compiled):  # there is no graph with operators here
                self.steps = 0 if self._limit else ended.instructions
                compiled.reset()
            return ended, leaves

    def _was_tried(self, compiled: Compiled) -> bool:
        """Whether a trial, which ended too early, has made graphs that no later call asks for."""
        return compiled is not self.compiled and bool(self.compiled.entries)

    def _learn(self, instructions: int) -> None:
        """Has later graphs pass by what is another object at each call, and containers that they do not need.

        Whether they need one a trial shows: its graph is shorter.
        """
        continuation, compiled, given = self._current
        if self._trial is not None:
            before, longer = self._trial
            self._trial = None
            if instructions < longer:
                self._needed |= continuation.passed - before[0].passed
                self._use(before)
                return
        changing = {given[at] for at in compiled.changing}
        reshaped = {given[at] for at in compiled.reshaped} - self._needed - changing
        if changing or reshaped:
            self._trial = (self._current, instructions) if reshaped else None
            self._replace(replace(continuation, passed=continuation.passed | changing | reshaped))

    def _replace(self, continuation: Continuation) -> None:
        self._use((continuation, self._compile(continuation), continuation.given()))

    def _use(self, current: Compilation) -> None:
        self._current = current
        self.compiled = current[1]  # what runs its graphs: a later call asks for nothing else

    def leads_into(self, code: CodeType) -> bool:
        """Whether its place, or one at which a graph of it ended, is within a call of a function."""
        shapes = [self._current[0].shapes, *[ended.shapes for ended in self._ends]]
        return any(shape.body.raw is code for each in shapes for shape in each[1:])

    def report(self, ended: Exit, frame: Frame) -> None:
        """Records why a graph ended, once."""
        if ended in self._ends:
            return
        self._ends.add(ended)
        if ended.reason:
            self._forget_warning(ended)
            code, instruction = frame.body.raw, frame.body.code.instructions[frame.position]
            line = Line(code.co_filename, instruction.line or 0, code.co_name)
            kind = ended.reason.kind
            events.record("graph_break", kind.code, ended.reason.detail, frame=line, hint=kind.hint)

    def _forget_warning(self, ended: Exit) -> None:
        """Has later graphs go on behind a warning that is given once: the first graph that ends there is forgotten."""
        if ended.reason is None or ended.reason.kind is not WARNS:
            return
        at = tuple([(id(shape.body), shape.position) for shape in ended.shapes])
        if at not in self._warned:
            self._warned.add(at)
            self._replace(replace(self._current[0], limit=self._limit, reason=None))


class Growth:
    """Which lists of numbers and texts grow from place to place of a call: their values tell nothing of later turns."""

    __slots__ = ("_grown", "_sizes")

    def __init__(self) -> None:
        self._sizes: dict[int, int] = {}
        self._grown: set[int] = set()

    def note(self, state: Sequence[object]) -> None:
        """Looks at the lists of the state at a place."""
        for value in state:
            if type(value) is list and self._sizes.setdefault(id(value), len(value)) < len(value):
                self._grown.add(id(value))

    def passes(self, value: object) -> bool:
        """Whether graphs of a new place pass by a value, so that they serve the turns to come."""
        if type(value) is BuiltinFunctionType:
            return is_passed(value) or self.passes(value.__self__)
        if (
            type(value) is list
            and id(value) in self._grown
            and not any(issubclass(type(part), Handle) for part in value)
        ):
            return True
        return is_passed(value)


class Start:
    """The first place of a function whose graphs take the arguments as a call gives them: no frame is needed there.

    They are given the values of all parameters; `owner` is the first, where the call does not give it. `shape` is how
    many positional arguments the call had that it was made for, and the names of the others.
    """

    __slots__ = ("_bind", "_rest", "called", "code", "count", "is_object", "owner", "part", "shape", "takes_all")

    def __init__(self, called: FunctionType, owner: tuple[object, ...], part: Part, *, is_object: bool) -> None:
        code = self.code = called.__code__
        self.called = called
        self.owner = owner
        self.part = part
        self.shape: tuple[int, Collection[str]] = 0, ()
        self.is_object = is_object
        self._bind = binder(called)
        self._rest = parameter_count(code) == code.co_argcount + 2 and code.co_argcount == len(owner)
        self.count = ALL if parameter_count(code) > code.co_argcount else code.co_argcount - len(owner)
        self.takes_all = not (owner or is_object)

    def arguments(self, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, ...] | None:
        """What its graphs are given for a call; None for a call that does not begin like this."""
        called, bind = self.called, self._bind
        if called.__code__ is not self.code or (self.is_object and type(function).__call__ is not called):
            return None
        if self._rest:
            return *self.owner, args, kwargs
        if len(args) == self.count and not kwargs:
            return (*self.owner, *args)
        if called.__defaults__ is not bind.__defaults__ or called.__kwdefaults__ is not bind.__kwdefaults__:
            bind.__defaults__, bind.__kwdefaults__ = called.__defaults__, called.__kwdefaults__
        try:
            return bind(*self.owner, *args, **kwargs)
        except TypeError:
            return None  # the function's own call says what does not fit

    def as_called(self, observed: Observed) -> Observed:
        """What a graph observed of its arguments, as of those of the call."""
        code, (given, named) = self.code, self.shape
        values = list(observed.args)
        count = code.co_argcount + code.co_kwonlyargcount
        by_name: dict[str, object] = dict(zip(code.co_varnames, values[:count], strict=False))
        rest: Any = values[count:]
        args = [*values[len(self.owner) : min(len(self.owner) + given, code.co_argcount)]]
        if code.co_flags & CO_VARARGS:
            args += rest.pop(0)
        kwargs = {name: by_name[name] for name in named if name in by_name}
        return replace(observed, args=tuple(args), kwargs=kwargs | (rest[0] if rest else {}))


class Driver:
    """All parts of one function. `compile_part` makes what runs the graphs of a continuation."""

    def __init__(self, function: Callable[..., Any], compile_part: Callable[[Continuation], Compiled]) -> None:
        self.function = function
        self.parts: dict[Place, Part] = {}
        self._positions: set[tuple[int, int]] = set()  # of the places: the innermost body, and its next instruction
        self.start: Start | None = None
        self._graphless = Graphless()
        self._long = Long(self._graphless.codes)
        self._restless = set[str]()
        self._balance = Balance()
        self._compile_part = compile_part
        self._limit = settings.get().part_limit or None

    def reset(self) -> None:
        """Forgets all graphs."""
        self.parts.clear()
        self._positions.clear()
        self._graphless.clear()
        self._long.clear()
        self._restless.clear()
        self._balance.clear()
        self.start = None

    def run(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """What a call gives. Errors: what the function raises."""
        start, steps, outcome = self.start, 0, None
        if start is None:
            given = None
        elif start.takes_all and len(args) == start.count and not kwargs and start.called.__code__ is start.code:
            given = args
        else:
            given = start.arguments(self.function, args, kwargs)
        if start is not None and given is not None:
            try:
                for entry in start.part.compiled.entries:
                    outcome = entry.call(given, _NO_KEYWORDS)
                    if outcome is not MISS:
                        ended: Exit = outcome[0]
                        if ended.result is not None:
                            return outcome[ended.result + 1]
                        if not ended.shapes and not ended.recipe.reads_state:
                            return ended.build(outcome[1:], ())[0]
                        break
                    outcome = None
            except RushlightError as error:  # Python runs the call, and raises what the program raises
                note_failure(error)
                steps = ALL
        if self._balance.is_lost and outcome is None:
            return self.function(*args, **kwargs)
        interpreter = PatientInterpreter(self._graphless.is_leaf, self._long)
        begun = begin(interpreter, self.function, args, kwargs)
        if type(begun) is not Frame:
            return begun
        interpreter.frames.append(begun)
        del begun  # what its variables hold dies when the program lets go of it
        if start is None or outcome is None:
            result = self._finish(interpreter, steps)
            if start is None and self.start is not None:
                self.start.shape = len(args), tuple(kwargs)
            return result
        interpreter.ran(outcome[0].calls, outcome[0].saves)
        result = self._leave(interpreter, start.part, (outcome[0], [*outcome[1:]]), state_of(interpreter.frames))
        return self._finish(interpreter, _steps_behind(outcome[0])) if interpreter.frames else result

    def _finish(self, interpreter: PatientInterpreter, steps: int) -> Any:
        try:
            result = interpreter.in_loop(partial(self._run, interpreter, steps))
        finally:
            interpreter.escaped, interpreter.has_returned = None, True
            if self._balance.ended(interpreter.gained - interpreter.count):
                _note_lost(self.function, interpreter.count)
        if not interpreter.suspends:
            return result
        interpreter.result = None
        return as_of_python(result)

    def _run(self, interpreter: PatientInterpreter, steps: int) -> Any:
        """The result of running the frames. What interrupts it goes to the program's own handlers."""
        growth, calls = Growth(), OpenCalls(self._graphless)
        while True:
            try:
                return self._go_on(interpreter, steps, growth, calls)
            except BaseException as error:
                interrupt = _interrupt(error) if interpreter.frames else None
                if interrupt is None:
                    raise
            try:
                interpreter.interrupt(interrupt)
            finally:
                del interrupt  # this frame is in its traceback
            steps = 0

    def _go_on(self, interpreter: PatientInterpreter, steps: int, growth: Growth, calls: OpenCalls) -> Any:
        """Runs first some instructions, then in turns graphs and instructions."""
        frames = interpreter.frames
        while True:
            before: list[Any] = []  # what dies in the instructions to come
            if not interpreter.go(steps):
                return interpreter.result
            if calls.codes and (code := calls.left(frames)) is not None:
                self._forget_places_in(code)
            if is_within(frames[-1]) and interpreter.handled.error is None:
                interpreter.leave(len(frames) - 1)
                steps = 0
                continue
            part, steps = None, 1
            if self._may_have_part(frames) and _can_be_traced(interpreter):
                before = state_of(frames)
                part = self._part(frames, before, growth)
            if part is not None and part.steps is None:
                traces = part.traces
                growth.note(before)
                outcome = part.run(before)
                interpreter.gained -= OF_TRACE * (part.traces - traces)
                if outcome is FAILED:
                    steps = ALL
                elif outcome is not None:
                    self._graphless.fruitful |= outcome[0].fruitful
                    interpreter.ran(outcome[0].calls, outcome[0].saves)
                    result, steps = self._leave(interpreter, part, outcome, before), _steps_behind(outcome[0])
                    if not frames:
                        return result
                    del result, outcome
                if part.steps is not None and len(frames) > 1:
                    calls.tried(frames)
            elif part is not None:
                steps += part.steps or 0

    def _leave(self, interpreter: PatientInterpreter, part: Part, outcome: Outcome, before: list[Any]) -> Any:
        """Has the interpreter go on where a graph has ended; the result where no frame is left."""
        ended, leaves = outcome
        frames = interpreter.frames
        built = ended.build(leaves, before, interpreter)
        if not ended.shapes:
            if self.start is None and len(frames) == 1:
                self.start = _start_of(self.function, frames[0], part)
            frames.clear()
            return built[0]
        after = ended.frames(built)
        for at in range(ended.kept):
            frames[at].goes_on_as(after[at])
        frames[:] = [*frames[: ended.kept], *after[ended.kept :]]
        before.clear()  # what the program has let go of is let go of
        del built[:], leaves[:]
        part.report(ended, frames[-1])
        return None

    def _forget_places_in(self, code: CodeType) -> None:
        """Makes room for other places: a function is called as it is from now on."""
        for place, part in list(self.parts.items()):
            if part.leads_into(code):
                self.parts.pop(place, None)
        self._positions = {place[-2][:2] for place in self.parts}

    def _may_have_part(self, frames: list[Frame]) -> bool:
        """Whether there is a place at the instruction that comes next, or may be one more."""
        return not self._is_full() or (id(frames[-1].body), frames[-1].position) in self._positions

    def _is_full(self) -> bool:
        return len(self.parts) >= (MOST_LIMITED_PLACES if self._limit else MOST_PLACES)

    def _part(self, frames: list[Frame], state: list[Any], growth: Growth) -> Part | None:
        place = place_of(frames, state)
        part = self.parts.get(place)
        if part is None:
            if self._is_full():
                return None
            self._positions.add((id(frames[-1].body), frames[-1].position))
            growth.note(state)
            continuation = Continuation.of(frames, growth.passes)
            continuation = replace(continuation, long=self._long, restless=self._restless)
            part = self.parts[place] = Part(continuation, self._compile_part, self._limit)
        return part


def _steps_behind(ended: Exit) -> int:
    """The instructions that Python carries out behind a graph: none where a setting has ended it."""
    return 1 if ended.reason else 0


def _start_of(function: Any, frame: Frame, part: Part) -> Start | None:
    """The start of a function, if a graph that is all of a call is given the arguments as they are."""
    called = _called_by(function)
    if called is None or frame.position or called is not frame.function:
        return None
    owner = () if called is function else (function.__self__,) if type(function) is MethodType else (function,)
    if part.given != list(range(parameter_count(called.__code__))):
        return None
    return Start(called, owner, part, is_object=type(function) not in (FunctionType, MethodType))


def _called_by(function: Any) -> FunctionType | None:
    """The Python function that a call of a function, method or object begins with, if there is one."""
    called: Any = function
    if type(function) is MethodType:
        called = function.__func__
    elif type(function) is not FunctionType:
        called = type(function).__call__
    return called if type(called) is FunctionType else None


def _can_be_traced(interpreter: PatientInterpreter) -> bool:
    """Whether a graph may begin here.

    It may not while an exception is handled or a class is made, nor while the method of a tensor waits for arguments:
    such a method is another object at each call, and holds a tensor that is given by itself too.
    """
    if interpreter.handled.error is not None or len(interpreter.frames) > MOST_FRAMES:
        return False
    if STATE.anomaly or is_chosen():  # the tape of each line is wanted, or calls that are eager ones
        return False
    for frame in interpreter.frames:
        if is_within(frame):
            return False
        if any(issubclass(type(value), BaseException) or _is_of_tensor(value) for value in frame.stack):
            return False
    return True


def _is_of_tensor(value: object) -> bool:
    return type(value) is MethodType and issubclass(type(value.__self__), Handle)
