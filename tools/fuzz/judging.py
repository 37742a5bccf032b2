"""Judging a step: does Rushlight do to the operands what PyTorch did to them?

A value agrees if it has PyTorch's bits, or if it is no worse than PyTorch's: against the statement's value in float64
its error is at most some units in the last place, or a few times PyTorch's own error.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache
from types import CodeType
from typing import Any

import ml_dtypes
import numpy as np

from tools.fuzz.comparing import difference, same_bits, storages_difference
from tools.fuzz.operand_pairs import operand_pair
from tools.fuzz.program import DTYPES, FLOATS, Array, Program, targets
from tools.fuzz.running import Outcome, array_of, failed, flat_tensor, values_of
from tools.fuzz.stepping import Step, replayed

Truth = Callable[[Step, bool], Outcome | None]
"""A step's outcome in float64, on the magnitudes of the operands if so asked; None where there is none."""

_ULPS = 6
_WORSE = 4  # times PyTorch's own error
_ROUNDINGS = 32  # of a sum, in terms of the sum of magnitudes
_LAST_BITS = 2 / _ROUNDINGS  # of a product that is the operand of a function, in terms of the product

_LEAST_DEVIATION = 316.0  # one over the root of the default `eps`
_STANDARDISING = {"layer_norm", "group_norm", "batch_norm", "instance_norm"}
"""Operators that subtract a mean and divide by a deviation: float64 has no wider type in which means would be exact."""

_SQUARING = {"var", "var_mean", "std", "std_mean"}
"""Operators that add squares of distances from a mean, which is rounded first."""

_RAISING = {"pow", "float_power", "**"}
"""Powers: of complex numbers e^(w log z), where a last bit of w log z turns and stretches the result."""

SUMMING = {
    "sum",
    "mean",
    "std",
    "var",
    "var_mean",
    "norm",
    "normalize",
    "cosine_similarity",
    "softmax",
    "log_softmax",
    "softmin",
    "cumsum",
    "logsumexp",
    "mm",
    "bmm",
    "mv",
    "dot",
    "matmul",
    "addmm",
    "baddbmm",
    "einsum",
    "outer",
    "linear",
    "conv1d",
    "conv2d",
    "conv3d",
    "conv_transpose1d",
    "conv_transpose2d",
    "conv_transpose3d",
    "layer_norm",
    "rms_norm",
    "group_norm",
    "batch_norm",
    "instance_norm",
    "avg_pool1d",
    "avg_pool2d",
    "avg_pool3d",
    "adaptive_avg_pool1d",
    "adaptive_avg_pool2d",
    "adaptive_avg_pool3d",
    "interpolate",
    "mse_loss",
    "l1_loss",
    "smooth_l1_loss",
    "huber_loss",
    "kl_div",
    "nll_loss",
    "cross_entropy",
    "binary_cross_entropy",
    "binary_cross_entropy_with_logits",
    "scaled_dot_product_attention",
    "embedding_bag",
    "addcmul",
    "addcdiv",
    "lerp",
    "index_add",
    "scatter_add",
    "bincount",
    "@",
    "quantile",
    "prod",
    "cumprod",
    "add",
    "sub",
    "rsub",
    "gelu",
}
"""Operators that add terms which may cancel: their error is measured by the sum of the terms' magnitudes."""

_NARROW = re.compile(r"torch\.(float16|bfloat16|float32)\b")
_FACTOR = re.compile(r"\b(alpha|beta|value)=-")
_DIFFERENCE = re.compile(r"\bsub(_?)\(")
_REVERSED = re.compile(r"\brsub\((.*?)(?:, alpha=([\d.]+))?\)$")
_BETWEEN = re.compile(r"\b(lerp_?)\((?:(\w+), )?(\w+), (-?[\w.]+)\)")
_NARROW_METHOD = re.compile(r"\.(half|bfloat16|float)\(\)")


def operator_of(statement: str) -> str:
    """The name of a statement's operator, for tables and summaries; a sign for Python's operators."""
    text = statement.partition(" = ")[2] if targets(statement) else statement
    called = re.match(r"(?:torch|F)\.(\w+)\(", text) or re.match(r"v\d+\.(\w+)\b", text)
    if called:
        return called[1]
    if re.match(r"v\d+\[.*\] \+?= ", text):
        return "setitem"
    if re.match(r"v\d+\[", text):
        return "getitem"
    sign = re.search(r" (\S+) ", text)
    return sign[1] if sign else text


def outcome_of(step: Step) -> Outcome:
    """What PyTorch made of a step."""
    return Outcome(step.results, _typed(step, step.after), (), step.error, None, step.message)


def run_step(step: Step, module: Any) -> tuple[Outcome, tuple[int | None, ...]]:
    """What Rushlight makes of a step, and the storage of an operand that each result shares, or None."""
    scope, arrays = replayed(step, module)
    try:
        exec(_code(step.statement), scope)  # noqa: S102 - the generator's own text
        results = [scope[name] for name in targets(step.statement)]
        values = tuple([value for result in results for value in values_of(result)])
    except Exception as error:  # noqa: BLE001 - every error is an outcome
        return failed(error, _typed(step, arrays)), ()
    shared = tuple([_storage_of(part, arrays) for result in results for part in _parts(result)])
    return Outcome(values, _typed(step, arrays), ()), shared


def step_difference(step: Step, actual: Outcome, truth: Truth) -> str | None:
    """How an outcome of a step differs from PyTorch's, within tolerances."""
    expected = outcome_of(step)
    found = difference(actual, expected)
    if actual.error is not None and expected.error is not None:
        written = storages_difference(actual.inputs, _typed(step, step.before), same_bits)
        return found if written is None else f"written before it failed, {written}"
    if found is None or actual.error is not None or expected.error is not None:
        return found
    exact = truth(step, False)
    if exact is None:
        return found
    name = operator_of(step.statement).removesuffix("_")
    scale = truth(step, True) if name in SUMMING else None
    if name in _STANDARDISING and exact.values:
        scale = (_deviations if step.results[0].dtype == "float64" else _shifted)(step, exact)
    if name == "log_softmax":
        scale = _beside(exact, 1.0)
    if name == "kl_div" and scale is not None:
        scale = _beside(scale, _LAST_BITS)
    if name in _RAISING and step.results and step.results[0].dtype.startswith("complex"):
        scale = _turned(step, exact)
    if name in _SQUARING and scale is not None:
        scale = _about_rounded_mean(step, scale)
    judges = _Judges(exact, scale)
    return difference(actual, expected, judges)


def rounds(step: Step) -> bool:
    """Whether a step's bits may differ: it gave floats that are not all among the bytes of its operands."""
    given = {element for array in _typed(step, step.before) for element in array.tolist()}
    arrays = [value.array for value in step.results] + [
        new
        for old, new in zip(_typed(step, step.before), _typed(step, step.after), strict=True)
        if not same_bits(old, new)
    ]
    floats = [array for array in arrays if array.dtype.kind in "fcV"]
    return any(element not in given and element == element for array in floats for element in array.ravel().tolist())


def _deviations(step: Step, exact: Outcome) -> Outcome:
    """What a last bit of the mean may become: elements over the least deviation, the root of `eps`, times weights."""
    largest = [_largest(array, 1.0) for array in _typed(step, step.before)]
    size = np.prod(largest) * _LEAST_DEVIATION
    return Outcome(tuple([replace(value, array=np.full(value.shape, size)) for value in exact.values]), (), ())


def _about_rounded_mean(step: Step, scale: Outcome) -> Outcome:
    """Sums of magnitudes, and beside the first result what the mean's last bit adds to a variance or deviation."""
    largest = max([_largest(array) for array in _typed(step, step.before)], default=0.0)
    first, *rest = scale.values
    if operator_of(step.statement).startswith("std"):
        return replace(scale, values=(replace(first, array=np.abs(first.array) + _LAST_BITS * largest), *rest))
    eps = float(ml_dtypes.finfo(step.results[0].array.dtype).eps)
    return replace(scale, values=(replace(first, array=np.abs(first.array) + eps * largest * largest), *rest))


def _shifted(step: Step, exact: Outcome) -> Outcome:
    """Results and shifts in magnitude: a result may be their difference, and magnitudes of operands cancel as well."""
    shift = max([_largest(array) for array in _typed(step, step.before)[1:]], default=0.0)
    return _beside(exact, 2 * shift + _LAST_BITS)  # of the mean, in terms of the deviation


def _largest(array: Array, least: float = 0.0) -> float:
    """The largest finite magnitude: a storage holds NaN also where no view of it has an element."""
    sizes = np.abs(array).astype(np.float64)
    return float(np.max(sizes, initial=least, where=np.isfinite(sizes)))


def _beside(exact: Outcome, size: float) -> Outcome:
    """Results in magnitude and the size of what is added to them: of log_softmax the sum, whose logarithm is taken.

    In kl_div the logarithm is of a probability near 1, whose own last bit the result may be.
    """
    return Outcome(tuple([replace(value, array=np.abs(value.array) + size) for value in exact.values]), (), ())


def _turned(step: Step, exact: Outcome) -> Outcome:
    """What last bits of w log z are of z^w: its magnitude times theirs, beside what is allowed of itself."""
    alone = step.program(Program(0, 0, (), (), ()))
    pair = operand_pair(alone.statements[0], {f"v{at}": given.array for at, given in enumerate(alone.inputs)})
    base, exponent = [np.asarray(part, np.complex128) for part in pair or (1, 0)]
    with np.errstate(all="ignore"):
        size = np.abs(exponent * np.log(base)) * _LAST_BITS
    largest = float(np.max(size, initial=0.0, where=np.isfinite(size)))
    values = [replace(value, array=np.abs(value.array) * size) for value in exact.values]
    return Outcome(tuple(values), tuple([np.abs(array) * largest for array in exact.inputs]), ())


class _Judges:
    """Asked for one array after the other, in the order of `difference`: results, then storages."""

    def __init__(self, exact: Outcome, scale: Outcome | None) -> None:
        self.exact = iter([*[value.array for value in exact.values], *exact.inputs])
        parts = [] if scale is None else [*[value.array for value in scale.values], *scale.inputs]
        self.scale = iter(parts)

    def __call__(self, actual: Array, expected: Array) -> bool:
        exact, scale = next(self.exact, None), next(self.scale, None)
        if same_bits(actual, expected):
            return True
        if exact is None or expected.dtype.kind not in "fcV" or exact.size != expected.size:
            return False
        if scale is not None and scale.size != expected.size:
            scale = None
        return bool(
            np.all(close(actual.ravel(), expected.ravel(), exact.ravel(), None if scale is None else scale.ravel()))
        )


def close(actual: Array, expected: Array, exact: Array, scale: Array | None) -> Array:
    """Where an array is no worse than PyTorch's, against exact values; `scale` has sums of magnitudes."""
    info = ml_dtypes.finfo(np.real(expected).dtype if expected.dtype.kind == "c" else expected.dtype)
    with np.errstate(all="ignore"):
        rounded = exact.astype(expected.dtype)
        wide = np.complex128 if expected.dtype.kind == "c" else np.float64
        one, other, wanted = actual.astype(wide), expected.astype(wide), exact.astype(wide)
        right = (one == other) | (np.isnan(one) & np.isnan(other)) | (one == rounded.astype(wide))
        own = np.where(np.isfinite(other), np.abs(other - wanted), 0.0)
        allowed = _WORSE * own + _ULPS * float(info.eps) * np.abs(wanted) + float(info.tiny) * 1e-2
        if scale is not None:
            magnitude = np.abs(scale.astype(wide))
            allowed = allowed + np.where(np.isfinite(magnitude), _ROUNDINGS * float(info.eps) * magnitude, 0.0)
            # Terms that overflow in some order and not in another: any order is right.
            right = right | (np.isfinite(wanted) & (magnitude > float(info.max) / 8) & ~np.isnan(magnitude))
        return right | (np.isfinite(one) & np.isfinite(wanted) & (np.abs(one - wanted) <= allowed))


def peer_truth(torch: Any) -> Truth:
    """Steps in float64, by PyTorch."""

    def truth(step: Step, magnitudes: bool) -> Outcome | None:
        scope: dict[str, Any] = {"torch": torch, "F": torch.nn.functional}
        arrays = [_widened(array, magnitudes) for array in _typed(step, step.before)]
        storages = dict(zip(step.before, arrays, strict=True))
        for name, view in step.views.items():
            flat = flat_tensor(storages[view.storage], torch)
            if view.dtype not in FLOATS and str(flat.dtype) != f"torch.{view.dtype}" and view.dtype[:7] != "complex":
                return None
            if flat.is_complex() and view.dtype[:7] != "complex":
                flat = torch.view_as_real(flat).reshape(-1)
            elif not flat.is_complex() and view.dtype[:7] == "complex":
                if flat.numel() % 2:
                    return None
                flat = torch.view_as_complex(flat.reshape(-1, 2))
            scope[name] = flat.as_strided(view.shape, view.strides, view.offset)
        text = _NARROW_METHOD.sub(".double()", _NARROW.sub("torch.float64", step.statement))
        if magnitudes:
            text = _FACTOR.sub(r"\1=", _DIFFERENCE.sub(r"add\1(", text))
            # input + weight * (end - input) adds most where the end has the other sign, and the weight too
            text = _BETWEEN.sub(
                lambda call: f"{call[1]}({call[2] + ', ' if call[2] else ''}-{call[3]}, -abs({call[4]}))", text
            )
            text = _REVERSED.sub(lambda call: f"rsub({call[1]}, alpha=-{call[2] or 1})", text)
        try:
            exec(text, scope)  # noqa: S102 - the generator's own text
            results = [value for name in targets(step.statement) for value in values_of(scope[name])]
        except Exception:  # noqa: BLE001 - no truth then
            return None
        return Outcome(tuple(results), tuple(arrays), ())

    return truth


def _widened(array: Array, magnitudes: bool) -> Array:
    if array.dtype.kind not in "fcV":
        return np.abs(array) if magnitudes and array.dtype.kind == "i" else array.copy()
    wide = array.astype(np.complex128 if array.dtype.kind == "c" else np.float64)
    return np.abs(wide).astype(wide.dtype) if magnitudes else wide


def _typed(step: Step, arrays: dict[int, Array]) -> tuple[Array, ...]:
    """Storages as arrays of the dtype of the first operand on each."""
    dtypes: dict[int, str] = {}
    for view in step.views.values():
        dtypes.setdefault(view.storage, view.dtype)
    return tuple([data.view(DTYPES[dtypes[number]]) for number, data in arrays.items()])


@lru_cache(64)
def _code(statement: str) -> CodeType:
    return compile(statement, "<step>", "exec")


def _parts(result: Any) -> list[Any]:
    if isinstance(result, (tuple, list)) and any(hasattr(part, "stride") for part in result):
        return [one for part in result for one in _parts(part)]
    return [result]


def _storage_of(result: Any, arrays: dict[int, Array]) -> int | None:
    """The storage that a tensor with elements lies in."""
    if not hasattr(result, "stride") or result.numel() == 0:
        return None
    address = array_of(result).__array_interface__["data"][0]
    for number, data in arrays.items():
        start = data.__array_interface__["data"][0]
        if start <= address < start + data.nbytes:
            return number
    return None


__all__ = ["close", "operator_of", "outcome_of", "peer_truth", "rounds", "run_step", "step_difference"]
