"""Runs tests of one file in one mode: `python -m tools.cpython_tests.worker MODE FILE`, names of tests by stdin.

Prints for each a line of JSON when it begins and one when it has ended.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import io
import json
import os
import resource
import signal
import sys
import unittest
import warnings
from collections import Counter
from collections.abc import Callable, Generator
from types import CodeType, FrameType
from typing import Any
from zlib import crc32

import rushlight as rl
from rushlight.capture.interpreter import interpret, tracebacks
from tools.cpython_tests.choice import body_of, reason_left_out, tests_of

SECONDS = 30.0  # of processor time, for a test
_WAITING = 10  # times as long a test may take where it waits, or others run beside it
_MEMORY = 8 << 30
_OURS = ("rushlight.", "tools.", __name__)
_CALLERS = (
    "rushlight.capture.interpreter",
    "rushlight.capture.resume",
    "tools.",
    __name__,
)  # which call for the program

Body = Callable[[], object]


def _natively(body: Body) -> object:
    return body()


def _in_parts(body: Body) -> object:
    return rl.compile(body)()


def _whole(body: Body) -> object:
    return rl.compile(body, fullgraph=True)()


MODES: dict[str, Callable[[Body], object]] = {
    "native": _natively,
    "interpreted": interpret,
    "parts": _in_parts,
    "whole": _whole,
}
"""How the body of a test is run, by mode. One more mode is one more entry."""


class TooLongError(BaseException):
    """A test's time is over."""


def ring(*_: object) -> None:
    """Ends a test: the handler of SIGALRM and SIGPROF."""
    raise TooLongError


@contextlib.contextmanager
def limited(seconds: float) -> Generator[None]:
    """Raises TooLongError in what takes more processor time, again and again where that is caught."""
    before = [(number, signal.signal(number, ring)) for number in (signal.SIGALRM, signal.SIGPROF)]
    signal.setitimer(signal.ITIMER_PROF, seconds, 1.0)
    signal.setitimer(signal.ITIMER_REAL, _WAITING * seconds, 1.0)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.setitimer(signal.ITIMER_REAL, 0)
        for number, handler in before:
            signal.signal(number, handler)


class NativeCount:
    """Counts the bytecodes that CPython itself runs, by code, of `only` these; never those of the framework."""

    def __init__(self, only: set[CodeType] | None = None) -> None:
        self.counts: Counter[CodeType] = Counter()
        self._only = only

    def __call__(self, frame: FrameType, event: str, arg: object) -> NativeCount | None:
        """Is told by CPython of each call and each bytecode."""
        code = frame.f_code
        if event == "opcode":
            self.counts[code] += 1
        elif event == "call":
            if _is_ours(frame) or not self._is_programs(frame) or (self._only is not None and code not in self._only):
                return None
            frame.f_trace_opcodes, frame.f_trace_lines = True, False
        return self

    def _is_programs(self, frame: FrameType) -> bool:
        """Whether the program calls a function, and not the framework for itself."""
        caller = frame.f_back
        if caller is None or caller.f_trace is self:
            return True
        name = caller.f_globals.get("__name__")
        return isinstance(name, str) and name.startswith(_CALLERS)


def traced(tell: NativeCount | Watch, run: Callable[[Body], object], body: Body) -> object:
    """What a body gives, while CPython tells somebody of each call."""
    sys.settrace(tell)
    try:
        return run(body)
    finally:
        sys.settrace(None)


def _is_ours(frame: FrameType) -> bool:
    """Whether a frame is the framework's, or stands for an interpreted one in a traceback."""
    name = frame.f_globals.get("__name__")
    if isinstance(name, str) and name.startswith(_OURS):
        return True
    caller = frame.f_back
    return caller is not None and caller.f_globals.get("__name__") == tracebacks.__name__


def outcome(test: unittest.TestCase, run: Callable[[Body], object], seconds: float) -> tuple[str, str]:
    """How a test ends with its body run in a mode: passed, skipped, failed or hung; and the text of its error."""
    fresh = type(test)(test._testMethodName)
    method = getattr(fresh, test._testMethodName)
    if run is not _natively:
        setattr(fresh, test._testMethodName, wrapped(method, run))
    result = unittest.TestResult()
    try:
        with limited(seconds), contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            unittest.TestSuite([fresh]).run(result)
    except TooLongError:
        return "hung", f"it takes more than {seconds} s"
    except BaseException as error:  # noqa: BLE001 - a test may raise anything
        return "failed", f"{type(error).__name__}: {error}"
    wrong = [*result.errors, *result.failures, *[(case, "unexpected success") for case in result.unexpectedSuccesses]]
    if wrong:
        return ("hung" if "TooLongError" in wrong[0][1] else "failed"), wrong[0][1]
    return ("skipped" if result.skipped else "passed"), ""


def wrapped(method: Body, run: Callable[[Body], object]) -> Body:
    """A method that runs another one in a mode, with its marks of unittest."""

    async def begun() -> object:
        made: Any = run(method)
        return await made

    def body() -> object:
        return run(method)

    made: Body = begun if inspect.iscoroutinefunction(method) else body
    vars(made).update({name: value for name, value in vars(method).items() if name.startswith("__unittest")})
    return made


class Watch:
    """Sees whether CPython runs a body."""

    def __init__(self, body: CodeType) -> None:
        self.seen = False
        self._body = body

    def __call__(self, frame: FrameType, event: str, arg: object) -> None:
        """Is told by CPython of each call."""
        if frame.f_code is self._body and not _is_ours(frame):
            self.seen = True


def row(test: unittest.TestCase, mode: str, every: int = 1) -> dict[str, object]:
    """How a test ends in a mode; of one in so many, how many bytecodes it has, and how many of them CPython ran."""
    reason = reason_left_out(test)
    if reason is not None:
        return {"outcome": "left out", "text": reason}
    run = MODES[mode]
    if mode == "native":
        ended, text = outcome(test, run, SECONDS)
        return {"outcome": ended, "text": text}
    watch = Watch(body_of(test))
    ended, text = outcome(test, functools.partial(traced, watch, run), SECONDS)
    if ended == "passed" and watch.seen:
        return {"outcome": "failed", "text": "NotInterpreted: the body ran as it is"}
    if ended != "passed" or crc32(test.id().encode()) % every:
        return {"outcome": ended, "text": text}
    return _counted(test, run)


def _counted(test: unittest.TestCase, run: Callable[[Body], object]) -> dict[str, object]:
    """The row of a test that passes, with its bytecodes."""
    uncounted: dict[str, object] = {"outcome": "passed", "text": "its bytecodes are not counted"}
    whole = NativeCount()
    if outcome(test, functools.partial(traced, whole, _natively), SECONDS)[0] != "passed":
        return uncounted
    rest = NativeCount(set(whole.counts))
    if outcome(test, functools.partial(traced, rest, run), SECONDS)[0] != "passed":
        return uncounted
    native = {f"{code.co_filename}:{code.co_qualname}": count for code, count in rest.counts.most_common(3)}
    counts = {"bytecodes": whole.counts.total(), "rest": rest.counts.total(), "by": native}
    return {"outcome": "passed", "text": "", **counts}


def main(mode: str, file: str, every: str = "1") -> None:
    """Runs the tests whose names come by stdin, all if there are none, and counts bytecodes of one in so many."""
    out = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    chosen = json.load(sys.stdin)
    warnings.simplefilter("ignore")
    tests = tests_of(file)
    for name in tests if chosen is None else chosen:
        print(json.dumps({"begins": name}), file=out)
        print(json.dumps({"name": name, **row(tests[name], mode, int(every))}), file=out)


if __name__ == "__main__":
    main(*sys.argv[1:])
