"""Where in the user's program we are: the stack frames outside this package."""

from __future__ import annotations

import linecache
import os
import sys
import threading
from array import array
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import islice
from types import CodeType, FrameType
from typing import Protocol, cast

_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
# These live in the package but use public names only, so a line of theirs is a user's line.
_PROGRAMS = tuple(_PACKAGE + name + os.sep for name in ("bench", "demo"))
# Its functions stand between the user's line, which it interprets, and ours.
_INTERPRETER = tuple([os.path.join(_PACKAGE, "capture", name, "") for name in ("interpreter", "resume")])
# Plumbing that may stand between the user's line and ours.
_PLUMBING = tuple(
    os.path.join(os.path.dirname(os.path.abspath(os.__file__)), name)
    for name in ("contextlib.py", "copy.py", "functools.py", "threading.py", os.path.join("concurrent", "futures", ""))
)
# Whether a file's frames are the user's, by file name: asked for every frame of every recorded call.
_is_users: dict[str, bool] = {}
PLAIN_FILES: dict[str, bool] = {}
"""The same, without files that have functions in whose place frames of an interpreter stand: for native code."""
STANDING = array("q", [0])
"""In how many scopes, of any thread, other frames stand for the user's."""
_standing_lock = threading.Lock()
_Line = tuple[str, int, str]  # of a file and of a function


class Frame:
    """One line of the user's program: `filename`, `line` and `function`.

    The text of the line is read on demand, unless it is given.
    """

    __slots__ = ("_text", "filename", "function", "line")

    def __init__(self, filename: str, line: int, function: str, text: str | None = None) -> None:
        self.filename = filename
        self.line = line
        self.function = function
        self._text = text

    @property
    def source(self) -> str:
        """The text of the line, stripped; empty when the file cannot be read."""
        return linecache.getline(self.filename, self.line).strip() if self._text is None else self._text

    def __str__(self) -> str:
        location = f"{os.path.basename(self.filename)}:{self.line} in {self.function}"
        source = self.source
        return f"{location}:  {source}" if source else location

    def __repr__(self) -> str:
        return f"Frame({self.filename!r}, {self.line}, {self.function!r})"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Frame):
            return NotImplemented
        return self._fields() == other._fields()

    def __hash__(self) -> int:
        return hash(self._fields())

    def __reduce__(self) -> tuple[object, ...]:
        return Frame, (*self._fields(), self._text)

    def _fields(self) -> tuple[str, int, str]:
        return self.filename, self.line, self.function


class _Replayed(threading.local):
    """The frames that stand for the user's while a program that was written down before is run again."""

    frames: tuple[Frame, ...] | None = None


_replayed = _Replayed()


class Interpreted(Protocol):
    """A frame of a function whose bytecode is interpreted, which therefore has no frame of Python's."""

    def place(self) -> _Line:
        """The file, the line and the name of the function that runs."""
        ...

    def variables(self) -> Mapping[str, object]:
        """The variables of the function."""
        ...


Loop = tuple[Sequence[Interpreted], int]
"""The frames of an interpreter, innermost last, and how many of them are not of this loop but of one around it."""


class _Loops(threading.local):
    """The loops of interpreters that run in this thread, innermost last."""

    def __init__(self) -> None:
        self.entered: list[Loop] = []


_loops = _Loops()
# Of the functions that run a loop, by identity, since to hash code reads all of it: where a frame of theirs stands, the
# loop's frames are meant.
_loop_codes: dict[int, CodeType] = {}


def stands_for_frames(code: CodeType) -> None:
    """Makes a function of this package known that has a loop in `loops()` as long as it runs."""
    _loop_codes[id(code)] = code
    PLAIN_FILES.pop(code.co_filename, None)


def loops() -> list[Loop]:
    """The loops of interpreters that run in this thread, innermost last."""
    return _loops.entered


def _interpreted(depth: int) -> Iterator[_Line]:
    """The lines of the user's frames in a loop, innermost first; loop 0 is the innermost one."""
    entered = _loops.entered
    at = len(entered) - 1 - depth
    frames, below = entered[at]
    end = len(frames)
    if depth and entered[at + 1][0] is frames:
        end = entered[at + 1][1]
    for frame in reversed(frames[below:end]):
        line = frame.place()
        if is_users(line[0]):
            yield line


@contextmanager
def replayed(frames: tuple[Frame, ...]) -> Generator[None]:
    """Inside the scope, the user's frames are these, which a stored program holds."""
    before, _replayed.frames = _replayed.frames, frames
    _count_standing(1)
    try:
        yield
    finally:
        _count_standing(-1)
        _replayed.frames = before


def _count_standing(change: int) -> None:
    with _standing_lock:
        STANDING[0] += change


def frame_at(code: CodeType, offset: int) -> Frame:
    """Return the frame of a function that was at an instruction, by the offset in its bytecode."""
    lines = [line for start, end, line in code.co_lines() if start <= offset < end and line is not None]
    return Frame(code.co_filename, lines[0] if lines else code.co_firstlineno, code.co_name)


def user_frame(ours: int = 0) -> Frame | None:
    """Return the innermost frame outside the package, or None when there is none.

    The innermost `ours` frames are known to be the package's; they are skipped, since each look makes an object.
    """
    if _replayed.frames:
        return _replayed.frames[0]
    users = _is_users
    frame: FrameType | None = sys._getframe(1 + ours)
    while frame is not None:
        code = frame.f_code
        filename = code.co_filename
        is_user = users.get(filename)
        if is_user is None:
            is_user = _classify(filename)
        if is_user:
            return Frame(filename, frame.f_lineno, code.co_name)
        if id(code) in _loop_codes:
            return next((Frame(*line) for line in _lines(frame)), None)
        frame = frame.f_back
    return None


def user_frames(limit: int | None = None) -> tuple[Frame, ...]:
    """Return the frames outside the package, innermost first, at most `limit` of them."""
    if _replayed.frames:
        return _replayed.frames[:limit]
    return tuple([Frame(*line) for line in islice(_lines(sys._getframe(1)), limit)])


class Stack:
    """The user's frames, at most `limit`, for who asks again and again while a function runs: the one that makes this.

    That is `ours` frames above. What is below it stays where it is, and is looked up once. Equal frames are one tuple.
    """

    __slots__ = ("_base", "_below", "_found", "_limit")

    def __init__(self, limit: int, ours: int = 0) -> None:
        self._limit = limit
        above: FrameType | None = sys._getframe(1)
        self._base = sys._getframe(1 + ours).f_back
        loops_above = 0
        while above is not None and above is not self._base:
            loops_above += id(above.f_code) in _loop_codes
            above = above.f_back
        self._below = list(islice(_lines(self._base, loops_above), limit))
        self._found: dict[tuple[_Line, ...], tuple[Frame, ...]] = {}

    def frames(self, ours: int = 0) -> tuple[Frame, ...]:
        """Return the frames outside the package, innermost first. So many of the innermost are known to be `ours`."""
        if _replayed.frames:
            return _replayed.frames[: self._limit]
        lines = tuple(islice(_lines(sys._getframe(1 + ours), 0, self._base, self._below), self._limit))
        cached = self._found.get(lines)
        if cached is None:
            cached = self._found[lines] = tuple([Frame(*line) for line in lines])
        return cached


def _lines(
    frame: FrameType | None, depth: int = 0, base: FrameType | None = None, below: Sequence[_Line] = ()
) -> Iterator[_Line]:
    """File, line and function of the user's frames, from one outwards that has `depth` loops inside.

    From `base` on they are `below`.
    """
    users = _is_users
    is_interpreting = bool(_loops.entered)
    while frame is not None:
        if frame is base:
            yield from below
            return
        code = frame.f_code
        filename = code.co_filename
        is_user = users.get(filename)
        if is_user is None:
            is_user = _classify(filename)
        if is_user:
            yield filename, frame.f_lineno, code.co_name
        elif is_interpreting and id(code) in _loop_codes:
            yield from _interpreted(depth)
            depth += 1
        frame = frame.f_back


def called_name() -> str:
    """Return the name that the user's line called: the outermost function of the package above it."""
    ours = sys._getframe(1)
    while (caller := ours.f_back) is not None:
        filename = caller.f_code.co_filename
        if is_users(filename):
            break
        if filename.startswith(_INTERPRETER):
            interpreted = _ours_interpreted()
            if interpreted is not None:
                return _called(interpreted.place()[2], interpreted.variables())
            break
        ours = caller
    return _called(ours.f_code.co_name, ours.f_locals)


def _ours_interpreted() -> Interpreted | None:
    """The outermost function of the package above the user's, of those that the innermost loop runs."""
    frames, below = _loops.entered[-1] if _loops.entered else ((), 0)
    outermost = None
    for frame in reversed(frames[below:]):
        if is_users(frame.place()[0]):
            break
        outermost = frame
    return outermost


def _called(name: str, variables: Mapping[str, object]) -> str:
    """What a call is named by a function's name and variables: by the class, where it makes or is an object."""
    if name == "__new__" and "cls" in variables:
        return getattr(variables["cls"], "__name__", name)
    if name in ("__init__", "__call__"):
        (owner, *_) = (variables["self"],) if "self" in variables else cast("tuple[object, ...]", variables["args"])
        return type(owner).__name__
    return name.strip("_")


def is_users(filename: str) -> bool:
    """Return whether the frames of a file are the user's."""
    return _is_users[filename] if filename in _is_users else _classify(filename)


def _classify(filename: str) -> bool:
    ours = filename.startswith(_PACKAGE) and not filename.startswith(_PROGRAMS)
    # Code that we generate is compiled under the name `<rushlight ...>`.
    ours = ours or filename.startswith(("<rushlight", "<frozen ", *_PLUMBING))
    if not any(code.co_filename == filename for code in _loop_codes.values()):
        PLAIN_FILES[filename] = not ours
    return _is_users.setdefault(filename, not ours)
