"""Tensors as text, as PyTorch prints them: aligned columns, four digits, long tensors summarised."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from rushlight.eager.arguments import default_dtype
from rushlight.eager.dispatch import STATE, is_text_of_program
from rushlight.eager.handle import Handle, fail_without_data, is_wrapper
from rushlight.eager.memory import array_of
from rushlight.ir.dtype import Kind, bool_, complex64, int64
from rushlight.support.errors import fail


class Options(NamedTuple):
    """How tensors are printed."""

    precision: int = 4
    threshold: int = 1000
    edgeitems: int = 3
    linewidth: int = 80
    sci_mode: bool | None = None


_PROFILES = {
    "default": Options(),
    "short": Options(precision=2, threshold=1000, edgeitems=2),
    "full": Options(threshold=1 << 62),
}
_options: list[Options] = [Options()]


def set_printoptions(
    precision: int | None = None,
    threshold: int | None = None,
    edgeitems: int | None = None,
    linewidth: int | None = None,
    profile: str | None = None,
    sci_mode: bool | None = None,
) -> None:
    """Changes how tensors are printed, as torch.set_printoptions."""
    if profile is not None and not (isinstance(profile, str) and profile in _PROFILES):
        fail("A002", "set_printoptions: no such profile", profile=profile, hint=", ".join(_PROFILES))
    options = _options[0] if profile is None else _PROFILES[profile]
    given = {"precision": precision, "threshold": threshold, "edgeitems": edgeitems, "linewidth": linewidth}
    options = options._replace(**{name: value for name, value in given.items() if value is not None}, sci_mode=sci_mode)
    _options[0] = options


class Formatter:
    """How the numbers of one tensor are written: all with the same width."""

    def __init__(self, values: Sequence[Any], kind: Kind, options: Options) -> None:
        self.options = options
        self.kind = kind
        self.whole = True
        self.scientific = False
        self.width = 1
        if kind is not Kind.FLOAT:
            self.width = max([len(str(value)) for value in values], default=1)
            return
        finite = [abs(value) for value in values if value != 0 and math.isfinite(value)]
        if finite:
            self._choose(finite)
            shown = [value for value in values if value != 0 and math.isfinite(value)]
            self.width = max([len(self._text(value)) for value in shown])

    def _choose(self, finite: Sequence[float]) -> None:
        largest, smallest = max(finite), min(finite)
        self.whole = all(value == math.ceil(value) for value in finite)
        if self.whole:
            scientific = largest / smallest > 1000.0 or largest > 1.0e8
        else:
            scientific = largest / smallest > 1000.0 or largest > 1.0e8 or smallest < 1.0e-4
        self.scientific = scientific if self.options.sci_mode is None else self.options.sci_mode

    def _text(self, value: float) -> str:
        if self.scientific:
            return f"{value:.{self.options.precision}e}"
        if self.whole:
            return f"{value:.0f}" + ("." if math.isfinite(value) else "")
        return f"{value:.{self.options.precision}f}"

    def format(self, value: Any) -> str:
        """One number, padded on the left."""
        text = self._text(value) if self.kind is Kind.FLOAT else str(value)
        return text.rjust(self.width)


class ComplexFormatter:
    """Complex numbers: both parts of a width."""

    def __init__(self, values: Sequence[complex], options: Options) -> None:
        self._real = Formatter([value.real for value in values], Kind.FLOAT, options)
        self._imaginary = Formatter([value.imag for value in values], Kind.FLOAT, options)
        self.width = self._real.width + self._imaginary.width + 1

    def format(self, value: complex) -> str:
        """One number, padded on the left."""
        imaginary = self._imaginary.format(value.imag).lstrip()
        real = self._real.format(value.real)
        joined = real + imaginary + "j" if imaginary[:1] in "-" else f"{real}+{imaginary}j"
        return joined.rjust(self.width)


def _summarised(array: Any, edge: int) -> Any:
    """The corners of an array, as many as are printed."""
    for dim in range(array.ndim):
        if array.shape[dim] > 2 * edge:
            places = [*range(edge), *range(array.shape[dim] - edge, array.shape[dim])]
            array = np.take(array, places, axis=dim)
    return array


def _lines(array: Any, indent: int, formatter: Any, summarise: bool, options: Options) -> str:
    edge = options.edgeitems
    if array.ndim == 0:
        return formatter.format(array.item())
    cut = summarise and array.shape[0] > 2 * edge
    if array.ndim == 1:
        items = [formatter.format(value) for value in (_ends(array, edge) if cut else array).tolist()]
        if cut:
            items = [*items[:edge], " ...", *items[edge:]]
        per_line = max(1, math.floor((options.linewidth - indent) / (formatter.width + 2)))
        rows = [", ".join(items[at : at + per_line]) for at in range(0, len(items), per_line)]
        return "[" + (",\n" + " " * (indent + 1)).join(rows) + "]"
    parts = _ends(array, edge) if cut else array
    texts = [_lines(part, indent + 1, formatter, summarise, options) for part in parts]
    if cut:
        texts = [*texts[:edge], "...", *texts[edge:]]
    return "[" + ("," + "\n" * (array.ndim - 1) + " " * (indent + 1)).join(texts) + "]"


def _ends(array: Any, edge: int) -> Any:
    return np.concatenate([array[:edge], array[-edge:]])


def _wide(array: Any) -> Any:
    return array.astype(np.float64) if array.dtype.kind not in "biufc" or array.dtype == np.float16 else array


def contents(tensor: Handle, indent: int) -> str:
    """The elements in brackets."""
    options = _options[0]
    array, _shown, formatter = _formatted(tensor, options)
    return _lines(array, indent, formatter, array.size > options.threshold, options)


def format_elements(tensor: Handle, options: Options) -> tuple[Any, list[str]]:
    """An array of a tensor's elements, and the texts of those that are shown, row by row."""
    array, shown, formatter = _formatted(tensor, options)
    return array, [formatter.format(value).strip() for value in shown]


def print_options() -> Options:
    """How tensors are printed now."""
    return _options[0]


def _formatted(tensor: Handle, options: Options) -> tuple[Any, Sequence[Any], Formatter | ComplexFormatter]:
    """All elements, those that are shown, and how their numbers are written."""
    array = _wide(array_of(tensor))
    shown = _summarised(array, options.edgeitems) if array.size > options.threshold else array
    values = shown.reshape(-1).tolist()
    kind = tensor.dtype.kind
    return (
        array,
        values,
        ComplexFormatter(values, options) if kind is Kind.COMPLEX else Formatter(values, kind, options),
    )


def suffixes_of(tensor: Handle) -> list[str]:
    """What is said of a tensor after its elements: device, dtype and gradient, where they are not the usual ones."""
    suffixes: list[str] = []
    gradient = tensor.gradient
    if tensor.device.type not in ("cpu", "meta"):
        suffixes.append(f"device='{tensor.device}'")
    silent = (default_dtype(),) if tensor.backing is None else (default_dtype(), int64, bool_, complex64)
    if tensor.dtype not in silent:
        suffixes.append(f"dtype={tensor.dtype}")
    if gradient is not None and gradient.node is not None:
        suffixes.append(f"grad_fn=<{gradient.node.name()}>")
    elif gradient is not None and gradient.required:
        suffixes.append("requires_grad=True")
    return suffixes


def _is_asked_by_program(tensor: Handle) -> bool:
    """Whether a program that is interpreted wants the text of a value, as `"{}".format(x)` does in C."""
    return is_text_of_program() and not (STATE.maps or is_wrapper(tensor) or tensor.form.device.type == "meta")


def format_tensor(tensor: Handle, body: str | None = None) -> str:
    """What `repr(tensor)` says; `body` stands for the elements. Subclasses have the names of their classes."""
    title = "tensor" if type(tensor).__module__.startswith("rushlight.") else type(tensor).__name__
    suffixes = suffixes_of(tensor)
    indent = len(title) + 1
    if body is not None:
        return _joined(f"{title}({body}", suffixes, indent)
    if tensor.backing is None:
        return _without_data(tensor, title, suffixes)
    form = tensor.form
    if not form.numel:
        body = "[]"
        if len(form.shape) != 1:
            suffixes.insert(0, f"size={tuple(form.shape)}")
        if tensor.dtype is int64 or tensor.dtype is bool_:
            suffixes.insert(len(suffixes), f"dtype={tensor.dtype}")
    else:
        body = contents(tensor, indent)
    return _joined(f"{title}({body}", suffixes, indent)


def _without_data(tensor: Handle, title: str, suffixes: Sequence[str]) -> str:
    """The text of what has sizes and no elements: on the meta device, traced, or a wrapper of other tensors."""
    form = tensor.form
    if _is_asked_by_program(tensor):
        fail_without_data(tensor)
    where = "device='meta'" if form.device.type == "meta" else "device='fake'"
    if is_wrapper(tensor):
        title, where = type(tensor).__name__, ""
    sizes = ", ".join([str(size) for size in form.shape])
    size = f"size=({sizes}{',' if len(form.shape) == 1 else ''})"
    return f"{title}({', '.join(filter(None, ['...', where, size, *suffixes]))})"


def _joined(text: str, suffixes: Sequence[str], indent: int) -> str:
    """The text with its suffixes, broken into lines where the last one gets too long."""
    last = len(text) - text.rfind("\n")
    for suffix in suffixes:
        if last + len(suffix) + 2 > _options[0].linewidth:
            text += ",\n" + " " * indent + suffix
            last = indent + len(suffix)
        else:
            text += ", " + suffix
            last += len(suffix) + 2
    return text + ")"
