"""A place in running functions from which a graph is traced, and the places at which its traces end."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from inspect import CO_VARARGS, CO_VARKEYWORDS
from itertools import takewhile
from types import CellType, CodeType, FunctionType
from typing import Any

from rushlight.capture.interpreter import Interpreter
from rushlight.capture.interpreter.binding import SUSPENDING
from rushlight.capture.interpreter.frame import Body, Frame
from rushlight.capture.interpreter.hooks import MISSING
from rushlight.capture.leaving import unlike_eager
from rushlight.capture.resume.balance import saved_by
from rushlight.capture.resume.blueprint import is_ours
from rushlight.capture.resume.breaks import OUTSIDE, SUSPENDED, UNSUPPORTED, Reason, Retrace
from rushlight.capture.resume.interpreters.tracing import TracingInterpreter, forget_frames
from rushlight.capture.resume.opaque import Life, Opaque
from rushlight.capture.resume.patience import Long, Patience
from rushlight.capture.resume.reached import ReachedObjects, Reroot
from rushlight.capture.resume.recipe import AS_GIVEN, Recipe, RecipeWriter, is_mark, is_plain
from rushlight.capture.resume.whole import BackwardInterpreter
from rushlight.capture.state.changes import Copy, put_in
from rushlight.capture.state.reachable import Traced
from rushlight.capture.values import is_tuple
from rushlight.eager.dispatch import STATE
from rushlight.support.frozen import frozen


@frozen(eq=False)
class FrameShape:
    """What is fixed of a frame at a place: its code, the next instruction, and how many values it has.

    `named` is what a generator is called that the frame makes.
    """

    body: Body
    globals: dict[str, Any]
    closure: tuple[CellType, ...] | None
    position: int
    locals: int
    stack: int
    named: tuple[str, str]

    @staticmethod
    def of(frames: Sequence[Frame]) -> tuple[FrameShape, ...]:
        """The shapes of frames as they are now. Closures of inner ones may be others at each call."""
        shapes: list[FrameShape] = []
        for at, frame in enumerate(frames):
            counts = len(frame.locals), len(frame.stack)
            closure = None if at else frame.closure
            shapes.append(FrameShape(frame.body, frame.globals, closure, frame.position, *counts, frame.named))
        return tuple(shapes)

    def frame(self, values: Sequence[object]) -> Frame:
        """A frame of this shape; `values` are its variables, then its stack."""
        made = Frame(self.body, list(values[: self.locals]), self.globals, self.closure)
        made.stack = list(values[self.locals :])
        made.position = self.position
        made.named = self.named
        return made


@frozen(eq=False)
class Exit:
    """Where a trace ended: the frames that are left, or none where the function returned; and why.

    The recipe gives the values of the frames, or the result; then the object and the value of each attribute that is
    `written` (MISSING: deleted), or the container and what it holds (CONTENTS). `result` is which of the graph's values
    the result is, where nothing has to be built. The first `kept` frames are those that were there before. Operators
    of the graph are in calls of `fruitful` code; the graph saves so many bytecodes where it runs (see `balance`).
    """

    shapes: tuple[FrameShape, ...]
    recipe: Recipe
    written: tuple[str, ...]
    reason: Reason | None
    instructions: int
    calls: int
    result: int | None
    kept: int = 0
    fruitful: frozenset[CodeType] = frozenset()
    saves: int = 0

    def build(
        self, leaves: Sequence[object], before: Sequence[object], interpreter: Interpreter | None = None
    ) -> list[object]:
        """What the recipe gives, once the attributes are written."""
        built = self.recipe.build(leaves, before, interpreter)
        if not self.written:
            return built
        first = len(built) - 2 * len(self.written)
        for name, owner, value in zip(self.written, built[first::2], built[first + 1 :: 2], strict=True):
            if name is CONTENTS:
                _refill(owner, value)
            elif value is MISSING:
                object.__delattr__(owner, name)
            else:
                object.__setattr__(owner, name, value)
        del built[first:]
        return built

    def frames(self, values: Sequence[object]) -> list[Frame]:
        """The frames, with the values that the recipe built."""
        return frames_of(self.shapes, values)


def frames_of(shapes: Sequence[FrameShape], values: Sequence[object]) -> list[Frame]:
    """Frames of some shapes with these values, one after another."""
    frames: list[Frame] = []
    at = 0
    for shape in shapes:
        size = shape.locals + shape.stack
        frames.append(shape.frame(values[at : at + size]))
        at += size
    return frames


def state_of(frames: Sequence[Frame]) -> list[Any]:
    """The variables and the stack of each frame, in one list."""
    return [value for frame in frames for values in (frame.locals, frame.stack) for value in values]


@dataclass(frozen=True, slots=True, eq=False)
class Continuation(Traced):
    """What is traced from a place: called with values of the state, it runs the frames as far as a graph goes.

    It is given neither the `fixed` values, which belong to the place, nor those that are the `same` list or dict as an
    earlier one, nor those that are `passed` by: of these it is told, behind the others, which are None. Something
    happens when those die that are `mortal`. A trace ends after `limit` instructions, for a `reason`, and before
    what runs `long`, or code without graphs, and before it looks at state that is `restless`: another at each call.
    """

    shapes: tuple[FrameShape, ...]
    fixed: Mapping[int, object]
    same: Mapping[int, int]
    passed: frozenset[int]
    mortal: frozenset[int] = frozenset()
    limit: int | None = None
    reason: Reason | None = None
    long: Long | None = None
    restless: set[str] = field(default_factory=set[str])

    @staticmethod
    def of(frames: Sequence[Frame], passes: Callable[[object], bool]) -> Continuation:
        """The continuation of some frames; `passes` tells values that it passes by."""
        state = state_of(frames)
        fixed = {at: value for at, value in enumerate(state) if is_fixed(value, frames)}
        passed = frozenset([at for at, value in enumerate(state) if passes(value)])
        return Continuation(FrameShape.of(frames), fixed, same_containers(state), passed)

    def given(self) -> list[int]:
        """Which values of the state it is given."""
        size = sum([shape.locals + shape.stack for shape in self.shapes])
        return [at for at in range(size) if not (at in self.fixed or at in self.passed or at in self.same)]

    def absent(self, state: Sequence[object]) -> list[bool]:
        """Which of the values that it passes by are None, in order."""
        return [state[at] is None for at in sorted(self.passed)]

    @property
    def is_start(self) -> bool:
        """Whether it is all of a call."""
        return len(self.shapes) == 1 and not self.shapes[0].position

    def fresh(self) -> list[int]:
        """Which of the values that it is given the call has made: a tuple and a dict of arguments."""
        code = self.shapes[0].body.raw
        if not self.is_start:
            return []
        first = code.co_argcount + code.co_kwonlyargcount
        count = bool(code.co_flags & CO_VARARGS) + bool(code.co_flags & CO_VARKEYWORDS)
        return [at for at, slot in enumerate(self.given()) if first <= slot < first + count]

    def names(self) -> list[str]:
        """The names of the variables that it is given; "" for values of a stack, and what it is told."""
        names = [name for shape in self.shapes for name in (*shape.body.code.locals, *[""] * shape.stack)]
        return [*[names[at] for at in self.given()], *[""] * len(self.passed)]

    def roots(self) -> list[FunctionType]:
        """Functions that have the code of the frames, for who looks for what they reach."""
        made: list[FunctionType] = []
        for at, shape in enumerate(self.shapes):
            if is_ours(shape.globals.get("__name__", "")):
                continue  # what our own modules hold stays
            cells = shape.closure or () if at == 0 else tuple([CellType() for _ in shape.body.raw.co_freevars])
            made.append(FunctionType(shape.body.raw, shape.globals, closure=cells))
        return made

    def trace(self, reached: ReachedObjects, *given: object) -> tuple[object, ...]:
        """Traces. The first value is the Exit, which is constant; the others are what its recipe needs."""
        rest = iter(given)
        absent = dict(zip(sorted(self.passed), given[len(self.given()) :], strict=True))
        values: list[Any] = []
        interpreter = TracingInterpreter(self.limit, reached)
        if self.long is not None:
            interpreter.graphless, interpreter.long = self.long.codes, self.long
            interpreter.patience = Patience(self.long, len(STATE.tracer.builder.calls))
        for slot in range(sum([shape.locals + shape.stack for shape in self.shapes])):
            if slot in self.fixed:
                values.append(self.fixed[slot])
            elif slot in self.passed and absent[slot]:
                values.append(None)
            elif slot in self.passed:
                life = Life() if slot in self.mortal else None
                values.append(Opaque(slot, life))
                if life is not None:
                    interpreter.watch(life)
                    del life  # the object's alone
            elif slot in self.same:
                values.append(values[self.same[slot]])
            else:
                values.append(next(rest))
        for value in given:
            reached.note(value)
        frames = frames_of(self.shapes, values)
        values.clear()
        try:
            given = self._traced(interpreter, frames)
            forget_frames(interpreter.made.values())
            return given
        except BaseException:
            interpreter.close_generators()
            raise
        finally:
            interpreter.forget_classes()

    def _traced(self, interpreter: TracingInterpreter, frames: list[Frame]) -> tuple[object, ...]:
        reached = interpreter.reached
        reached.refilled, reached.lent = {}, {}
        returned = interpreter.trace(frames)
        STATE.tracer.behind = BackwardInterpreter(interpreter).calls_back
        kept = len([*takewhile(lambda frame: frame.function is None, frames)])  # others are those of calls in the trace
        if reached.has_unwalked:
            raise Reroot
        interpreter.raise_death()
        for owner, at in reached.kept():
            raise Retrace(at, Reason(OUTSIDE, f"a {type(owner).__name__} changes that was there before"))
        for at, kind in put_in(reached.walk, interpreter.made):
            raise Retrace(at, Reason(OUTSIDE, f"a new {kind} is put into what was there before"))
        if interpreter.steady != interpreter.count:
            raise Retrace(interpreter.steady, interpreter.unsteady_reason())
        if interpreter.outside != interpreter.count:
            raise Retrace(
                interpreter.outside, Reason(SUSPENDED, f"a constructor or generator runs; {interpreter.reason}")
            )
        reason = self.reason if interpreter.count == self.limit else interpreter.reason
        broken = interpreter.broken()
        if broken is not None and reason is not None:  # Python calls it, and its own graph fails, or holds all of it
            raise Retrace(broken, reason)
        calls, fruitful = len(STATE.tracer.builder.calls), frozenset(interpreter.fruitful)
        saves = saved_by(STATE.tracer.builder.calls)
        refilled = list((reached.refilled or {}).values())
        written = [*reached.written.values(), *[_refilling(interpreter, *each) for each in refilled]]
        before = reached.before()
        if returned and not written and is_plain(interpreter.result, interpreter.made, before, set()):
            interpreter.leave_generators(())
            return Exit((), AS_GIVEN, (), None, interpreter.count, calls, 0, 0, fruitful, saves), interpreter.result
        state = [interpreter.result] if returned else state_of(frames)
        writer = RecipeWriter(interpreter.made, before, interpreter.variables, returns=returned)
        writer.refilled = {id(copy.copy): at for copy, at in refilled}
        recipe = writer.write([*state, *[part for owner, _, value in written for part in (owner, value)]])
        interpreter.leave_generators(writer.known)
        for copy, _ in refilled:
            copy.restore()
        shapes = () if returned else FrameShape.of(frames)
        if reason is not None and reason.kind is UNSUPPORTED:  # Python calls what was refused: see `unlike_eager`
            for moment in unlike_eager(STATE.tracer, writer.leaves):
                raise Retrace(moment, reason)
        STATE.tracer.goes_on = not returned
        names = tuple([name for _, name, _ in written])
        result = None if shapes or names else recipe.leaf
        return Exit(
            shapes, recipe, names, reason, interpreter.count, calls, result, kept, fruitful, saves
        ), *writer.leaves


CONTENTS = "[:]"  # in place of the name of an attribute: all that a container holds


def _refilling(interpreter: TracingInterpreter, copy: Copy, at: int) -> tuple[object, str, object]:
    """What becomes of a container of the arguments since instruction number `at`: another one has what it holds."""
    held: Any = copy.copy
    made = dict(held) if isinstance(held, dict) else list(held)
    interpreter.made[id(made)] = made, at  # where it cannot be built, a graph can end before that
    return copy.copy, CONTENTS, made


def _refill(container: Any, held: Any) -> None:
    if isinstance(container, dict):
        container.clear()
        container.update(held)
    else:
        container[:] = held


def same_containers(values: Sequence[object]) -> dict[int, int]:
    """Which containers of the state are those of an earlier slot."""
    slots = [slot for slot, value in enumerate(values) if _is_container(value) and value != ()]
    if len(slots) < 2:
        return {}
    first: dict[int, int] = {}
    same: dict[int, int] = {}
    for slot in slots:
        earlier = first.setdefault(id(values[slot]), slot)
        if earlier != slot:
            same[slot] = earlier
    return same


def sharing(values: Sequence[Any]) -> list[int]:
    """Which values hold a list or dict that is in another one too, or is one: without these all are apart."""
    slots = {id(values[slot]): slot for slot in range(len(values) - 1, -1, -1) if _is_container(values[slot])}
    if not slots:
        return []
    held = {slot: _held_by(values[slot]) for slot in slots.values()}
    counts = Counter([key for keys in held.values() for key in keys])
    if max(counts.values(), default=0) < 2:
        return []
    shared: list[int] = []
    for slot in sorted(held):
        inner = held[slot][1 - is_tuple(values[slot]) :]  # what is not the container itself
        if any(counts[key] > 1 for key in inner):
            shared.append(slot)
            counts.subtract(held[slot])
    return shared


def _held_by(container: Any) -> list[int]:
    """The lists and dicts in a container, itself first, by identity; one that comes twice is the last."""
    stack, held = [container], dict[int, None]()
    while stack:
        value = stack.pop()
        if not is_tuple(value):
            if id(value) in held:
                return [*held, id(value)]
            held[id(value)] = None
        stack += [item for item in (value.values() if type(value) is dict else value) if _is_container(item)]
    return [*held]


def _is_container(value: object) -> bool:
    kind = type(value)
    return kind in _CONTAINERS or (issubclass(kind, tuple) and is_tuple(value))


def is_fixed(value: object, frames: Sequence[Frame]) -> bool:
    """Whether a value of the state belongs to the place: a mark, or a cell of the outermost function's closure."""
    if is_mark(value):
        return True
    return type(value) is CellType and any(cell is value for cell in frames[0].closure or ())


_CONTAINERS = frozenset({list, dict, tuple})
Place = tuple[Any, ...]


def place_of(frames: Sequence[Frame], state: Sequence[object]) -> Place:
    """What tells places of frames apart: code, instruction, which values are missing, and names of new generators."""
    parts: list[Any] = []
    for frame in frames:
        missing = tuple([at for at, value in enumerate((*frame.locals, *frame.stack)) if is_mark(value)])
        named = frame.named if frame.body.raw.co_flags & SUSPENDING else None
        parts.append((id(frame.body), frame.position, len(frame.stack), missing, named))
    return *parts, tuple(same_containers(state).items())
