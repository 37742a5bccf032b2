"""Raising errors and giving warnings: registered codes, values with types, the user's line and a hint.

rushlight.ShapeError S003: matmul: inner sizes differ
    a: f32[8, 16]
    b: f32[32, 4]
  model.py:41 in forward:  h = x @ w
  hint: transpose one operand with .mT
"""

import warnings
from collections.abc import Callable, Hashable
from typing import NoReturn

from rushlight.support.errors import (
    codes_arguments,
    codes_building,
    codes_embeddings,
    codes_onnx,
    codes_planning,
    codes_ranks,
    codes_running,
    codes_sharding,
    codes_tile,
)
from rushlight.support.errors.classes import (
    ArgumentError,
    ArgumentRuntimeError,
    ArgumentTypeError,
    ArgumentValueError,
    AutogradError,
    CacheError,
    CacheWarning,
    CaptureWarning,
    CheckpointError,
    CheckpointFileError,
    CompileError,
    DataDependentError,
    DeprecationNotice,
    DeviceError,
    DeviceWarning,
    DistError,
    DTypeArgumentError,
    DTypeError,
    ExecutionError,
    FallbackError,
    GradientWarning,
    IndexRangeError,
    InternalError,
    LinAlgError,
    MissingLibraryError,
    MissingNameError,
    NativeLibraryError,
    NotSupportedError,
    OutOfMemoryError,
    RushlightError,
    RushlightWarning,
    SettingError,
    ShapeError,
    StateKeyError,
    coded,
)
from rushlight.support.errors.registry import CODES
from rushlight.support.printing import printed
from rushlight.support.provenance import Frame, user_frame

__all__ = [
    "CODES",
    "ArgumentError",
    "ArgumentRuntimeError",
    "ArgumentTypeError",
    "ArgumentValueError",
    "AutogradError",
    "CacheError",
    "CacheWarning",
    "CaptureWarning",
    "CheckpointError",
    "CheckpointFileError",
    "CompileError",
    "DTypeArgumentError",
    "DTypeError",
    "DataDependentError",
    "DeprecationNotice",
    "DeviceError",
    "DeviceWarning",
    "DistError",
    "ExecutionError",
    "FallbackError",
    "GradientWarning",
    "IndexRangeError",
    "InternalError",
    "LinAlgError",
    "MissingLibraryError",
    "MissingNameError",
    "NativeLibraryError",
    "NotSupportedError",
    "OutOfMemoryError",
    "RushlightError",
    "RushlightWarning",
    "SettingError",
    "ShapeError",
    "StateKeyError",
    "before_warnings",
    "error",
    "fail",
    "forget_warnings",
    "printed",
    "require",
    "warn",
]

# The modules of tables are imported for what they register.
TABLES = (
    codes_arguments,
    codes_running,
    codes_ranks,
    codes_sharding,
    codes_embeddings,
    codes_onnx,
    codes_planning,
    codes_tile,
    codes_building,
)

_warned: set[tuple[str, Hashable]] = set()
_always = [False]
_listeners: list[Callable[[str], None]] = []


def error(
    code: str, message: str, /, *, hint: str | None = None, frame: Frame | None = None, **values: object
) -> RushlightError:
    """Return the error of a registered code, to be raised: `raise error("P001", "load: ...") from cause`.

    `message` is `operation: what is wrong`. `values` are printed with their types. `frame` is the user's line where it
    is not the line that called (a gradient's error shows the forward line). `hint` defaults to the code's remedy.
    """
    report = _report(code, message, hint, frame, values)
    if not isinstance(report, RushlightError):
        fail("X001", f"{code} is the code of a warning: use warn()")
    return report


def fail(
    code: str, message: str, /, *, hint: str | None = None, frame: Frame | None = None, **values: object
) -> NoReturn:
    """Raise the error of a registered code. See `error` for the arguments."""
    raise error(code, message, hint=hint, frame=frame, **values)


def require(
    condition: object,
    code: str,
    message: str,
    /,
    *,
    hint: str | None = None,
    frame: Frame | None = None,
    **values: object,
) -> None:
    """Raise the error of a registered code unless `condition` holds. See `error` for the other arguments."""
    if not condition:
        raise error(code, message, hint=hint, frame=frame, **values)


def warn(
    code: str,
    message: str,
    /,
    *,
    key: Hashable = None,
    hint: str | None = None,
    frame: Frame | None = None,
    **values: object,
) -> None:
    """Give the warning of a registered code, once per process for each `key`. See `error` for the other arguments.

    After `warn_always(True)` it is given each time.
    """
    if (code, key) in _warned and not _always[0]:
        return
    report = _report(code, message, hint, frame, values)
    if not isinstance(report, RushlightWarning):
        fail("X001", f"{code} is the code of an error: use fail()")
    for listener in _listeners:
        listener(message)
    _warned.add((code, key))
    origin = report.frame or Frame("<rushlight>", 1, "")
    warnings.warn_explicit(report, type(report), origin.filename, origin.line)


def before_warnings(listener: Callable[[str], None]) -> Callable[[str], None]:
    """Has a function told of each warning before it is given. What it raises leaves the warning to be given later."""
    _listeners.append(listener)
    return listener


def warn_always(always: bool) -> None:
    """Set whether warnings are given each time, not once."""
    _always[0] = always


def warns_always() -> bool:
    """Whether warnings are given each time."""
    return _always[0]


def forget_warnings() -> None:
    """Let every warning be given again (for tests)."""
    _warned.clear()


def _report(
    code: str, message: str, hint: str | None, frame: Frame | None, values: dict[str, object]
) -> RushlightError | RushlightWarning:
    entry = CODES.get(code)
    if entry is None:
        entry = CODES["X001"]
        message = f"{code} is not a registered error code (raised for: {message})"
    text = {name: printed(value) for name, value in values.items()}
    report = coded(entry.report, entry.code)(
        entry.code, message, text, frame or user_frame(), hint if hint is not None else entry.remedy
    )
    assert isinstance(report, RushlightError | RushlightWarning)
    return report
