"""The process that makes hostile calls, and the names that they are written in."""

from __future__ import annotations

import itertools
import re
import traceback
from types import FrameType, TracebackType
from typing import Any

import rushlight as torch
from rushlight.eager.dispatch import STATE
from rushlight.support.errors import RushlightError
from tools.fuzz.child import serve
from tools.fuzz.hostile_values import NAMES, Boom

F: Any = torch.nn.functional
nn: Any = torch.nn
optim: Any = torch.optim
data: Any = torch.utils.data


def some(found: Any) -> Any:
    """The first few elements of what can be iterated over."""
    return list(itertools.islice(found, 3)) if hasattr(found, "__iter__") else found


def entered(scope: Any) -> Any:
    """A scope, after it was entered and left."""
    with scope:
        return scope


def length(value: Any) -> int:
    """`len`, as a function of the caller's with a frame of its own."""
    return len(value)


compiled: Any = torch.compile(lambda x, n=1: x * n)

SPACE: dict[str, Any] = {
    "torch": torch,
    "F": F,
    "nn": nn,
    "optim": optim,
    "data": data,
    "some": some,
    "entered": entered,
    "compiled": compiled,
    **NAMES,
    "some_function": lambda: length,
}

_BINDING = re.compile(
    r"\(\) (missing \d+ required|takes \d|takes from|takes no arg|got an unexpected keyword|got multiple values"
    r"|got some positional-only|argument after|requires at least|takes exactly|takes at most)|takes no arguments"
)
_NUMBERS = re.compile(r"0x[0-9a-f]+|-?\d+(\.\d+)?|'[^']*'")


def _state() -> tuple[Any, ...]:
    names = ("included", "excluded", "grad", "inference", "modes", "tracer", "builder", "saving", "running", "engaged")
    return (*[getattr(STATE, name) for name in names], torch.get_default_dtype())


_BEFORE = _state()


def _frames(trace: TracebackType | None) -> list[FrameType]:
    """The frames from the call inwards, without this module's above it."""
    found: list[FrameType] = []
    while trace is not None:
        found.append(trace.tb_frame)
        trace = trace.tb_next
    return found[1:]


def _problem(problem: BaseException) -> dict[str, str]:
    if isinstance(problem, RushlightError):
        str(problem)
        if problem.code.startswith("X"):
            return {"kind": f"internal {problem.code} {problem.message[:60]}", "detail": str(problem)[:300]}
        return {"kind": "coded", "detail": problem.code}
    frames = _frames(problem.__traceback__)
    own = [frame for frame in frames if "/rushlight/" in frame.f_code.co_filename]
    try:
        said = str(problem)
    except Boom:
        said = "(no text)"
    if isinstance(problem, TypeError) and _BINDING.search(said):
        return {"kind": "binding", "detail": ""}
    within = frames[frames.index(own[-1]) + 1 :] if own else []
    if not own or any(frame.f_code.co_filename == __file__ for frame in within):
        return {"kind": "binding", "detail": ""}  # Python's between operands, or a function of the caller's
    where = f"{own[-1].f_code.co_filename.rpartition('rushlight/')[2]}:{own[-1].f_lineno}"
    kind = f"{type(problem).__name__} at {where} {_NUMBERS.sub('#', said)[:70]}"
    last = traceback.extract_tb(problem.__traceback__)[-1]
    return {"kind": kind, "detail": f"{said[:200]} ({last.filename.rpartition('/')[2]}:{last.lineno})"}


def answer(question: dict[str, Any]) -> dict[str, str]:
    """Makes one call and says how it ended."""
    torch.manual_seed(question["number"])
    try:
        eval(question["text"], dict(SPACE))  # noqa: S307 - our own text
        outcome = {"kind": "value", "detail": ""}
    except Exception as problem:  # noqa: BLE001 - what comes out is what is asked
        outcome = _problem(problem)
    after = _state()
    torch.set_default_dtype(torch.float32)
    torch.set_printoptions(profile="default")
    STATE.grad, STATE.inference = True, False
    if after != _BEFORE and not question["text"].startswith(("torch.set_", "entered")):
        for name, value in zip(("included", "excluded"), _BEFORE, strict=False):
            setattr(STATE, name, value)
        return {"kind": "state", "detail": f"{_BEFORE} became {after}"}
    return outcome


if __name__ == "__main__":
    serve(answer)
