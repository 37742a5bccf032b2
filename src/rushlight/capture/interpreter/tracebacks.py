"""Tracebacks that show the user's functions in place of the interpreter's."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from opcode import opmap
from types import CodeType, FrameType, FunctionType, GeneratorType, TracebackType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rushlight.capture.interpreter.frame import Frame

_OWN = __name__.rsplit(".", 2)[0] + "."  # also the modules that drive an interpreter


def without_own_frames(traceback: TracebackType | None) -> TracebackType | None:
    """What is left of a traceback when the interpreter's own frames are taken away."""
    while traceback is not None and _is_own(traceback):
        traceback = traceback.tb_next
    links: list[TracebackType] = []
    link, has_own = traceback, False
    while link is not None:
        if _is_own(link):
            has_own = True
        else:
            links.append(link)
        link = link.tb_next
    if not has_own:  # the same object, by which parts of an exception group are known
        return traceback
    result: TracebackType | None = None
    for link in reversed(links):
        result = TracebackType(result, link.tb_frame, link.tb_lasti, link.tb_lineno)
    return result


def called_from(frame: Frame, function: Any, args: tuple[object, ...], kwargs: dict[str, object]) -> object:
    """What a call by CPython gives. The caller's frame has the name, line and globals of an interpreted one."""
    raw = frame.body.raw
    code = _CALL.replace(
        co_name=raw.co_name,
        co_qualname=raw.co_qualname,
        co_filename=raw.co_filename,
        co_firstlineno=frame.line or raw.co_firstlineno,
    )
    call: Any = FunctionType(code, frame.globals)
    try:
        return call(function, args, kwargs)
    except BaseException as error:
        own = error.__traceback__
        error.__traceback__ = None if own is None or own.tb_next is None else own.tb_next.tb_next
        raise  # the interpreter puts the caller into the traceback


_CALL = (lambda function, args, kwargs: function(*args, **kwargs)).__code__


def _is_own(link: TracebackType) -> bool:
    return link.tb_frame.f_globals.get("__name__", "").startswith(_OWN)


def outer_frame() -> FrameType | None:
    """CPython's frame around the interpreter that runs, None if there is none."""
    frame: FrameType | None = sys._getframe()
    while frame is not None and frame.f_globals.get("__name__", "").startswith(_OWN):
        frame = frame.f_back
    return frame


def with_frame(frame: Frame, traceback: TracebackType | None) -> TracebackType:
    """A traceback with one more function around it: an interpreted one, at the line that it is at."""
    running = frame.body.code.instructions[max(frame.position - 1, 0)]
    shown = _shown(frame, running.offset)
    return TracebackType(traceback, shown, running.offset, running.line or frame.body.raw.co_firstlineno)


def with_line_of(frame: Frame, traceback: TracebackType | None) -> TracebackType | None:
    """A traceback whose first function has ended elsewhere than it raised: by raising the exception again."""
    raw = frame.body.raw
    if traceback is None or traceback.tb_frame.f_code.co_qualname != raw.co_qualname:
        return traceback
    shown = _shown(frame, frame.body.code.instructions[max(frame.position - 1, 0)].offset)
    return TracebackType(traceback.tb_next, shown, traceback.tb_lasti, traceback.tb_lineno)


_NO_LINE = 15  # kind of an entry of the line table, which also says of how many of at most eight instructions


def _template() -> Iterator[None]:
    """A generator that is never begun: its frame has no caller, which would be the interpreter."""
    yield


_TEMPLATE = _template.__code__


def _frame_of_template() -> FrameType:
    made: GeneratorType[None, None, None] = FunctionType(_TEMPLATE, {})()
    frame = made.gi_frame
    assert frame is not None
    return frame


_KIND = _TEMPLATE.co_flags, _TEMPLATE.co_names, _TEMPLATE.co_consts


def is_shown(frame: FrameType) -> bool:
    """Whether a frame stands for one of an interpreted function."""
    code = frame.f_code
    return (code.co_flags, code.co_names, code.co_consts) == _KIND and _TEMPLATE.co_code in code.co_code


_LAST = max(0, _frame_of_template().f_lasti)  # where a generator stands that was dropped before it began


def _shown(frame: Frame, offset: int) -> FrameType:
    """A real frame that has the names, file, globals, variables and position of an interpreted one."""
    body = frame.body
    variables = frame.variables()
    key = offset, *variables
    code = body.shown.get(key)
    if code is None:
        code = body.shown[key] = _shown_code(body.raw, tuple(variables), offset)
    made: GeneratorType[None, None, None] = FunctionType(code, frame.globals)(*variables.values())
    shown = made.gi_frame
    assert shown is not None
    return shown


def _shown_code(raw: CodeType, names: tuple[str, ...], offset: int) -> CodeType:
    """The code of a frame with the lines of other code, by which tracebacks underline what failed.

    It leaves its generator where the other code runs. Its lines go to its end: CPython does not look whether they do.
    """
    nothing = bytes([opmap["NOP"], 0])
    text = nothing * (max(0, offset - _LAST) // 2) + _TEMPLATE.co_code
    own = len(raw.co_code)
    size = max(len(text), own)
    lines = bytearray(raw.co_linetable)
    for units in range((size - own) // 2, 0, -8):
        lines.append(128 | _NO_LINE << 3 | min(units, 8) - 1)
    return _TEMPLATE.replace(
        co_code=text + nothing * ((size - len(text)) // 2),
        co_exceptiontable=b"",
        co_varnames=names,
        co_nlocals=len(names),
        co_argcount=len(names),
        co_name=raw.co_name,
        co_qualname=raw.co_qualname,
        co_filename=raw.co_filename,
        co_firstlineno=raw.co_firstlineno,
        co_linetable=bytes(lines),
    )
