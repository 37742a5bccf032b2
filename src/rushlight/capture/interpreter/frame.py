"""Frames of interpreted functions: what CPython keeps of a running function, as plain lists."""

from __future__ import annotations

import builtins
from abc import ABC, abstractmethod
from collections.abc import Callable, MutableMapping
from types import CellType, CodeType, FrameType, FunctionType
from typing import Any, Protocol

from rushlight.capture.code.instructions import Code, decode
from rushlight.capture.interpreter.hooks import Hooks
from rushlight.capture.interpreter.operations import OPERATIONS, Operation


class _Mark:
    """An object that stands where a value is missing."""

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        self._text = text

    def __repr__(self) -> str:
        return self._text


NULL = _Mark("NULL")  # on the stack: no `self` for the call
UNBOUND = _Mark("UNBOUND")  # in a local variable


def contents_of(cell: Any) -> Any:
    """What a cell holds; UNBOUND if it is empty. A variable that is no cell yet is its value."""
    try:
        return cell.cell_contents if type(cell) is CellType else cell
    except ValueError:
        return UNBOUND


Contents = Callable[[object], object]
"""What a cell holds; UNBOUND if it is empty."""
Then = Callable[[object], object]
"""What becomes of the value that a frame returns before its caller gets it."""


class Body:
    """A code object ready to be run: for each instruction what carries it out, and its operand.

    `noting` is what carries instructions out and writes down what they make, once somebody has asked for it. `loops`
    are those that CPython can run by itself, by their first instruction.
    """

    __slots__ = ("code", "local_count", "loops", "noting", "operands", "operations", "raw", "shown")

    def __init__(self, raw: CodeType) -> None:
        self.raw = raw
        self.code: Code = decode(raw)
        self.operations: list[Operation] = [OPERATIONS[each.name] for each in self.code.instructions]
        self.operands: list[Any] = [each.operand for each in self.code.instructions]
        self.noting: list[Operation] | None = None
        self.loops: dict[int, Any] = {}
        self.local_count = len(self.code.locals)
        self.shown: dict[
            tuple[int | str, ...], CodeType
        ] = {}  # of frames that stand for interpreted ones in tracebacks


_MOST_BODIES = 1 << 14  # programs that make code without end do not keep all of it
_bodies: dict[int, Body] = {}  # by the identity of the code, which its body keeps alive: hashing code reads all of it


def body_of(code: CodeType) -> Body:
    """The body of a code object, decoded once."""
    body = _bodies.get(id(code))
    if body is None:
        if len(_bodies) >= _MOST_BODIES:
            _bodies.clear()
        body = _bodies[id(code)] = Body(code)
    return body


class Frame:
    """A function that runs: its variables, its stack, and the number of its next instruction.

    `names` are the variables of a class body, which are no locals. `then` is applied to what the frame returns.
    `function` is None where the frame is no call of one. `named` is what a generator that the call makes is called.
    """

    __slots__ = (
        "body",
        "builtins",
        "closure",
        "function",
        "generator",
        "globals",
        "locals",
        "named",
        "names",
        "position",
        "promised",
        "stack",
        "then",
    )

    def __init__(
        self,
        body: Body,
        variables: list[Any],
        globals_: dict[str, Any],
        closure: tuple[CellType, ...] | None,
        names: MutableMapping[str, Any] | None = None,
    ) -> None:
        self.body = body
        self.locals = variables
        self.globals = globals_
        self.closure = closure
        self.names = names
        self.stack: list[Any] = []
        self.position = 0
        self.promised: int | None = None  # of a trace: the instruction that calls what is to be one graph
        self.then: Then | None = None
        self.generator: Suspended | None = None
        self.function: FunctionType | None = None
        self.named = body.raw.co_name, body.raw.co_qualname
        space = globals_.get("__builtins__", builtins)
        self.builtins: dict[str, object] = space if isinstance(space, dict) else vars(space)

    @property
    def line(self) -> int | None:
        """The line of the instruction that runs."""
        return self.body.code.instructions[max(self.position - 1, 0)].line

    def place(self) -> tuple[str, int, str]:
        """The file, the line and the name of the function that runs."""
        raw = self.body.raw
        return raw.co_filename, self.line or raw.co_firstlineno, raw.co_name

    def goes_on_as(self, other: Frame) -> None:
        """Is where another frame of its code is, with its values: who looks at it sees those."""
        self.stack.clear()  # a frame of ours in a traceback may have it
        self.locals, self.stack, self.position = other.locals, other.stack, other.position

    def variables(self, contents: Contents = contents_of) -> dict[str, object]:
        """The local variables by name, as `locals()` gives them."""
        result: dict[str, object] = {}
        for name, value in zip(self.body.code.locals, self.locals, strict=True):
            now = value
            if name in (*self.body.raw.co_cellvars, *self.body.raw.co_freevars):
                now = contents(value)
            if now is not UNBOUND:
                result[name] = now
        return result


Consume = Callable[[object, bool], None]
"""Takes what a generator yields, or (True) what it returns at its end."""


class Handled:
    """The exception that is being handled. A generator has one of its own; `outer` is that of who resumed it."""

    __slots__ = ("error", "outer")

    def __init__(self, outer: Handled | None = None) -> None:
        self.error: BaseException | None = None
        self.outer = outer


class Evaluator(Hooks, ABC):
    """What runs frames, as the rules of calls, slots and generators use it. `Interpreter` says what its parts are."""

    __slots__ = ()

    frames: list[Frame]
    handled: Handled
    has_context: bool
    hands_over: bool  # whether C calls functions as they are
    suspends: bool  # whether it has run generators or the like

    def contents(self, cell: object) -> object:
        """What a cell holds; UNBOUND if it is empty."""
        return contents_of(cell)

    @abstractmethod
    def for_generator(self) -> Evaluator:
        """What runs a generator: itself, or another one where its own call is over."""

    @abstractmethod
    def is_leaf(self, function: FunctionType) -> bool:
        """Whether a function is called as it is."""

    @abstractmethod
    def call(self, function: object, args: tuple[object, ...], kwargs: dict[str, object] | None = None) -> object:
        """What a call gives."""

    @abstractmethod
    def run(self, frame: Frame) -> object:
        """What a frame returns."""

    @abstractmethod
    def push(self, frame: Frame) -> None:
        """Puts a frame on top."""

    @abstractmethod
    def resume(self, generator: Suspended, value: object, thrown: tuple[object, ...] | None, consume: Consume) -> None:
        """Runs a generator until it yields or ends."""

    def of_python(self, generator: Suspended) -> object:
        """A generator of CPython's own that goes on in place of one, which then ends; None for none."""

    def dies(self, generator: Suspended) -> None:
        """Ends a generator that nobody holds any more."""
        generator.note_death()
        generator.close()

    @abstractmethod
    def current_error(self) -> BaseException | None:
        """The exception that is being handled."""


class Suspended(Protocol):
    """A frame that can be put aside, as a loop drives it. `Resumable` says what its methods do."""

    def resume(self, interpreter: Evaluator, value: object, consume: Consume) -> bool:
        """Puts the frame on top again."""
        ...

    def raise_in(self, interpreter: Evaluator, thrown: tuple[object, ...], consume: Consume) -> None:
        """Puts the frame on top again and raises an error in it."""
        ...

    def yielded(self, interpreter: Evaluator, value: object) -> bool:
        """Puts the frame aside."""
        ...

    def returned(self, interpreter: Evaluator, value: object) -> bool:
        """Ends the frame."""
        ...

    def failed(self, interpreter: Evaluator, error: BaseException) -> BaseException:
        """Ends the frame by an error."""
        ...

    @property
    def is_begun(self) -> bool:
        """Whether its body has begun to run."""
        ...

    def note_death(self) -> None:
        """Is told of its death."""
        ...

    def close(self) -> None:
        """Ends it as a program does."""
        ...

    def ends_quietly(self) -> bool:
        """Whether its death does nothing."""
        ...

    def discard(self) -> None:
        """Ends it without a word to its frame."""
        ...


def _is_executing() -> None:
    raise RuntimeError("cannot clear an executing frame")


class FrameView:
    """A frame as programs see it: number `at` of some that run, or one that is suspended.

    `outer` is CPython's frame around the outermost one, `contents` gives what cells hold.
    """

    __slots__ = ("_at", "_contents", "_frame", "_frames", "_outer", "clear")

    def __init__(
        self,
        frames: list[Frame],
        contents: Contents,
        at: int = 0,
        outer: FrameType | None = None,
        clear: Callable[[], None] = _is_executing,
    ) -> None:
        self._frames = frames
        self.clear = clear
        self._contents = contents
        self._at = at
        self._frame = frames[at]
        self._outer = outer

    @property
    def __class__(self) -> type:  # pyright: ignore[reportIncompatibleMethodOverride] - what `isinstance` sees
        return FrameType

    def __eq__(self, other: object) -> bool:
        return type(other) is FrameView and other._frame is self._frame

    def __hash__(self) -> int:
        return hash(self._frame)

    @property
    def f_back(self) -> FrameView | FrameType | None:
        """The frame of the caller."""
        return FrameView(self._frames, self._contents, self._at - 1, self._outer) if self._at else self._outer

    @property
    def f_builtins(self) -> dict[str, object]:
        """The builtins."""
        return self._frame.builtins

    @property
    def f_code(self) -> CodeType:
        """The code object."""
        return self._frame.body.raw

    @property
    def f_globals(self) -> dict[str, object]:
        """The global variables."""
        return self._frame.globals

    @property
    def f_lineno(self) -> int | None:
        """The line that runs."""
        return self._frame.line

    @property
    def f_lasti(self) -> int:
        """The offset of the instruction that ran last."""
        return self._frame.body.code.instructions[max(self._frame.position - 1, 0)].offset

    @property
    def f_locals(self) -> dict[str, object]:
        """The local variables by name."""
        return self._frame.variables(self._contents)
