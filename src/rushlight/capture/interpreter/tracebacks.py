"""Tracebacks that show the user's functions in place of the interpreter's."""

from __future__ import annotations

import sys
from types import CellType, FrameType, FunctionType, TracebackType
from typing import TYPE_CHECKING

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


def _is_own(link: TracebackType) -> bool:
    return link.tb_frame.f_globals.get("__name__", "").startswith(_OWN)


def with_frame(frame: Frame, traceback: TracebackType | None) -> TracebackType:
    """A traceback with one more function around it: an interpreted one, at the line that it is at."""
    running = frame.body.code.instructions[max(frame.position - 1, 0)]
    return TracebackType(traceback, _shown(frame), running.offset, running.line or frame.body.raw.co_firstlineno)


_TEMPLATE = (lambda this: lambda: this(0))(sys._getframe)


def _shown(frame: Frame) -> FrameType:
    """A real frame that has the names, file and globals of an interpreted one."""
    body = frame.body
    if body.shown is None:
        raw = body.raw
        body.shown = _TEMPLATE.__code__.replace(
            co_name=raw.co_name,
            co_qualname=raw.co_qualname,
            co_filename=raw.co_filename,
            co_firstlineno=raw.co_firstlineno,
            co_linetable=raw.co_linetable,  # by which tracebacks underline what failed
        )
    return FunctionType(body.shown, frame.globals, closure=(CellType(sys._getframe),))()
