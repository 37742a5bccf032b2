"""The classes of errors and warnings. Each also inherits the class that PyTorch raises in its place.

Raise them with `fail` or `require` of `rushlight.support.errors`, which look the class up by the error's code.
"""

from collections.abc import Mapping
from typing import TypeVar, cast

from rushlight.support.provenance import Frame


class Report(BaseException):
    """Base of errors and warnings: code, message, values, the user's line and a hint.

    `operation` is the part of the message before its first colon. `values` maps names to printed values.
    """

    code: str
    message: str
    values: dict[str, str]
    frame: Frame | None
    hint: str | None

    def __init__(
        self,
        code: str,
        message: str,
        values: Mapping[str, str] | None = None,
        frame: Frame | None = None,
        hint: str | None = None,
    ) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.values = dict(values or {})
        self.frame = frame
        self.hint = hint

    def __init_subclass__(cls) -> None:
        # They are public as `rushlight.ShapeError`, and that is how a traceback should name them.
        cls.__module__ = "rushlight"
        if cls.__name__.isidentifier():
            _families.setdefault(cls.__name__, cls)

    @property
    def operation(self) -> str | None:
        """The operation that failed (`matmul`), or None when the message does not name one."""
        head, colon, _ = self.message.partition(":")
        return head if colon and head.replace(".", "").replace("_", "").isalnum() else None

    def __str__(self) -> str:
        lines = [self.message]
        lines += [f"    {name}: {value}" for name, value in self.values.items()]
        if self.frame is not None:
            lines.append(f"  {self.frame}")
        if self.hint is not None:
            lines.append(f"  hint: {self.hint}")
        return "\n".join(lines)

    def render(self) -> str:
        """Return the text that ends a traceback: class, code, message, values, line, hint, notes."""
        return "\n".join([f"rushlight.{type(self).__name__}: {self}", *self._notes()])

    def __reduce__(self) -> tuple[object, ...]:
        family = type(self).__name__.partition(" ")[0]
        notes = {"__notes__": self._notes()} if self._notes() else None
        return _rebuild, (family, self.code, self.message, self.values, self.frame, self.hint), notes

    def _notes(self) -> list[str]:
        return list(getattr(self, "__notes__", ()))


# Classes by name, for unpickling, and one subclass per code, so that a traceback says `rushlight.ShapeError S003: ...`.
_families: dict[str, type[Report]] = {}
_coded: dict[tuple[type[Report], str], type[Report]] = {}
ReportType = TypeVar("ReportType", bound=Report)


def coded(family: type[ReportType], code: str) -> type[ReportType]:
    """Return the subclass of `family` that carries `code` in its name."""
    class_ = _coded.get((family, code))
    if class_ is None:
        class_ = _coded.setdefault((family, code), type(f"{family.__name__} {code}", (family,), {}))
    return cast(type[ReportType], class_)


def _rebuild(
    family: str, code: str, message: str, values: dict[str, str], frame: Frame | None, hint: str | None
) -> Report:
    return coded(_families[family], code)(code, message, values, frame, hint)


class RushlightError(Report, Exception):
    """An error that Rushlight raises on purpose."""


class ShapeError(RushlightError, RuntimeError):
    """Sizes, ranks or strides do not fit."""


class DTypeError(RushlightError, RuntimeError):
    """A dtype is not supported here, or two do not fit."""


class DTypeArgumentError(DTypeError, TypeError):
    """Something that is not a dtype, or may not be one here, was given as a dtype."""


class IndexRangeError(RushlightError, IndexError):
    """An index or a dim is out of range."""


class ArgumentError(RushlightError):
    """An argument is of the wrong type or has a value that is not allowed; see its two subclasses."""


class ArgumentTypeError(ArgumentError, TypeError):
    """An argument is missing, surplus or of the wrong type."""


class ArgumentValueError(ArgumentError, ValueError):
    """An argument has a value that is not allowed."""


class ArgumentRuntimeError(ArgumentError, RuntimeError):
    """An argument is not allowed, where PyTorch raises RuntimeError."""


class StateKeyError(ArgumentError, KeyError):
    """A state dict, module or group has no such key."""


class MissingNameError(RushlightError, AttributeError):
    """A name that PyTorch or the object might have does not exist here."""


class NativeLibraryError(RushlightError, OSError):
    """A library of native code that was built for PyTorch cannot be loaded."""


class MissingLibraryError(RushlightError, ImportError):
    """A library that this part of Rushlight needs is not installed."""


class NotSupportedError(RushlightError, NotImplementedError):
    """Known, and not implemented; the hint says what to use instead."""


class AutogradError(RushlightError, RuntimeError):
    """A gradient cannot be computed as asked."""


class OutOfMemoryError(RushlightError, RuntimeError, MemoryError):
    """An allocation is larger than what the device has left."""


class DeviceError(RushlightError, RuntimeError):
    """A device does not exist, or operands live on different ones."""


class ExecutionError(RushlightError, RuntimeError):
    """Something failed while kernels ran."""


class LinAlgError(RushlightError, RuntimeError):
    """A matrix cannot be factored or inverted, or an iteration over it does not converge."""


class DistError(RushlightError, RuntimeError):
    """A collective, or a job of several ranks, has failed."""


class FallbackError(RushlightError, RuntimeError):
    """A fallback happened while `rl.strict()` forbids fallbacks."""


class DataDependentError(RushlightError, RuntimeError):
    """A decision needs a value that is known only when the program runs."""


class CompileError(RushlightError, RuntimeError):
    """A program could not be captured or compiled."""


class CheckpointError(RushlightError, RuntimeError):
    """A checkpoint cannot be read or does not fit."""


class CheckpointFileError(CheckpointError, OSError):
    """A checkpoint's file is missing or cannot be written."""


class CacheError(RushlightError, RuntimeError):
    """An archive of the cache cannot be written, read or used."""


class SettingError(RushlightError, ValueError):
    """A setting is unknown or has a value that is not allowed."""


class InternalError(RushlightError, AssertionError):
    """Rushlight broke one of its own rules: please report it."""


class RushlightWarning(Report, UserWarning):
    """A warning that Rushlight gives on purpose."""


class CacheWarning(RushlightWarning):
    """The cache on disk cannot be used as asked; nothing is lost but time."""


class DeviceWarning(RushlightWarning):
    """A device does less than it might."""


class GradientWarning(RushlightWarning):
    """A gradient is probably not what was meant."""


class CaptureWarning(RushlightWarning):
    """Capture does less than it might, or compiles more often than it should."""


class DeprecationNotice(RushlightWarning, FutureWarning):
    """A way of calling that will go; the hint shows the new one."""
