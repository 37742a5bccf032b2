"""Rules about numbers at the ends of a dtype: overflow on the way, equal numbers, remainders beyond its precision."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import ml_dtypes
import numpy as np

import rushlight
from tools.fuzz.comparing import same_bits
from tools.fuzz.differing import Difference, apart_at_infinity, called, extreme, unlike_elements
from tools.fuzz.operand_pairs import operand_pair
from tools.fuzz.program import DTYPES, FLOATS, Array
from tools.fuzz.running import run


def overflowing_product(difference: Difference) -> bool:
    """Products which may overflow in one order and not in another, apart where a result is not finite."""
    given = [value.array for value in difference.program.inputs if value.dtype in FLOATS]
    if not called(difference, "prod", "cumprod") or not given or given[0].dtype.kind == "c":
        return False
    with np.errstate(all="ignore"):
        sizes = np.log2(np.abs(given[0].astype(np.float64)))
    reach = float(np.sum(sizes, where=np.isfinite(sizes) & (sizes > 0)))
    return reach >= _largest_exponent(given[0]) and apart_at_infinity(difference)


def overflowing_matrices(difference: Difference) -> bool:
    """Products in which the terms of a sum may overflow, factors too, apart where a result is not finite."""
    names = ("mm", "mv", "dot", "matmul", "bmm", "linear", "einsum", "baddbmm", "addmm", "addmv", "addbmm", "inner")
    names = (*names, "addcmul", "add", "sub", "rsub")
    matches = called(difference, *names) or " @ " in difference.program.statements[-1]
    given = [value.array for value in difference.program.inputs if value.dtype in FLOATS and value.array.size]
    if not matches or not given:
        return False
    largest = [np.abs(array.astype(np.float64)) for array in given]
    reach = sum([float(np.log2(np.max(one, initial=1.0, where=np.isfinite(one)))) for one in largest])
    return reach >= _largest_exponent(given[0]) - 6 and apart_at_infinity(difference)  # of 64 terms


def _largest_exponent(array: Array) -> int:
    return 15 if array.dtype == np.float16 else 1023 if array.dtype == np.float64 else 127


def huge_ratios(difference: Difference) -> bool:
    """Remainders of ratios beyond the precision of the dtype: PyTorch's is NaN, or its 16-bit divisor was rounded."""
    arrays = {f"v{at}": one.array for at, one in enumerate(difference.program.inputs)}
    pair = operand_pair(difference.program.statements[-1], arrays)
    remainder = called(difference, "fmod", "remainder") or " % " in difference.program.statements[-1]
    if pair is None or not remainder or len(difference.actual.values) != 1:
        return False
    a, b = [np.asarray(one, np.float64) for one in pair]
    number = not all(isinstance(one, np.ndarray) for one in pair)
    actual, expected = difference.actual.values[0].array, difference.expected.values[0].array
    rounded = number and actual.dtype.itemsize == 2
    with np.errstate(all="ignore"):
        one, other = actual.astype(np.float64), expected.astype(np.float64)
        exact = np.fmod(a, b) if called(difference, "fmod") else np.remainder(a, b)
        step = float(ml_dtypes.finfo(actual.dtype).eps)
        close = [np.abs(one - wanted) <= 2 * step * np.abs(b) for wanted in (exact, other)]
        huge = (np.abs(a / b) >= 1 / step) & (np.isnan(other) | rounded)
    alike = (one == other) | (np.isnan(one) & np.isnan(other))
    return bool(np.all(alike | close[0] | close[1] | huge))


_FRACTION = re.compile(r"(?<![\w.])\d+\.\d+(e[+-]?\d+)?")


def rounded_numbers(difference: Difference) -> bool:
    """A number beside 16-bit floats, which PyTorch rounds first: with it rounded, the result here is PyTorch's.

    With it as it is, the result is what float64 gives.
    """
    program, expected = difference.program, difference.expected.values
    narrow = {given.dtype for given in program.inputs} & {"bfloat16", "float16"}
    if len(narrow) != 1 or len(expected) != 1 or len(difference.actual.values) != 1:
        return False
    dtype = DTYPES[narrow.pop()]
    *before, last = program.statements
    rounded = _FRACTION.sub(lambda found: repr(float(np.array(float(found[0])).astype(dtype))), last)
    wide = [replace(given, dtype="float64", values=given.values.astype(np.float64)) for given in program.inputs]
    again = run(replace(program, statements=(*before, rounded)), rushlight)
    exact = run(replace(program, inputs=tuple(wide)), rushlight)
    pairs = ((again, expected[0].array), (exact, difference.actual.values[0].array))
    return rounded != last and all(
        outcome.error is None and _within_last_bit(outcome.values[0].array, array, dtype) for outcome, array in pairs
    )


def _within_last_bit(one: Array, other: Array, dtype: np.dtype[Any]) -> bool:
    a, b = one.astype(dtype).astype(np.float64), other.astype(np.float64)
    return a.shape == b.shape and bool(np.allclose(a, b, float(ml_dtypes.finfo(dtype).eps), 0.0, equal_nan=True))


def equal_numbers(difference: Difference) -> bool:
    """Variances of equal numbers: 0 here, and what rounding leaves of them in PyTorch."""
    array = difference.program.inputs[0].array if difference.program.inputs else np.zeros(0)
    if not called(difference, "var", "std", "var_mean", "std_mean") or array.dtype.kind not in "fV" or not array.size:
        return False
    values = array.astype(np.float64)
    noise = 8 * float(ml_dtypes.finfo(array.dtype).eps) * np.abs(values).max()
    power = 1 if called(difference, "std", "std_mean") else 2
    one, other = [side.values[0].array.astype(np.float64) for side in (difference.actual, difference.expected)]
    return values.min() == values.max() and not one.any() and bool(np.all(np.abs(other) <= noise**power))


def infinite_quantiles(difference: Difference) -> bool:
    """Quantiles of infinities that are infinite here, and NaN in PyTorch."""
    named = called(difference, "quantile", "nanquantile")
    return named and all(bool(np.all(np.isinf(one) & np.isnan(other))) for one, other in unlike_elements(difference))


def tiny_sigmoids(difference: Difference) -> bool:
    """Sigmoids below the smallest normal number, which are 0 in PyTorch."""
    results = difference.actual.values
    if not called(difference, "sigmoid", "expit", "silu", "logsigmoid", "swiglu") or not results:
        return False
    smallest = float(ml_dtypes.finfo(results[0].array.dtype).smallest_normal) if results[0].dtype in FLOATS else 0.0
    return all(bool(np.all((other == 0) & (np.abs(one) < smallest))) for one, other in unlike_elements(difference))


def rounded_steps(difference: Difference) -> bool:
    """Multiples of a rounded step, where one number is rounded once here."""
    narrow = any(value.dtype in ("float16", "bfloat16") for value in difference.expected.values)
    return narrow and called(difference, "linspace")


def narrow_renorm(difference: Difference) -> bool:
    """Gradients by the largest magnitude that are numbers here, and NaN in PyTorch."""
    pairs = [*zip(difference.actual.gradients, difference.expected.gradients, strict=False)]
    known = [(one.array, other.array) for one, other in pairs if one is not None and other is not None]
    narrow = called(difference, "renorm") and any(one.dtype == np.complex64 for one, _ in known)
    return narrow and all(bool(np.all(np.isfinite(one) & np.isnan(other))) for one, other in known)


def normalised_nothing(difference: Difference) -> bool:
    """Normalising a row of no channels, which is refused here as rows are."""
    empty = any(not given.array.size for given in difference.program.inputs)
    return empty and difference.actual.code == "S002" and called(difference, "batch_norm")


def pooled_nothing(difference: Difference) -> bool:
    """Pools of no channels, which are taken here as batches of size 0 are."""
    shape = difference.program.inputs[0].shape if difference.program.inputs else ()
    pooled = re.search(r"\b(max|avg)_pool[123]d\(", difference.program.statements[-1]) is not None
    return pooled and 0 in shape and difference.actual.error is None and difference.expected.error is not None


def unwritten_elements(difference: Difference) -> bool:
    """What memory held before."""
    return called(difference, r"(new_)?empty(_like|_strided|_permuted)?") and difference.actual.error is None


def overflowing_sum(difference: Difference) -> bool:
    """Sums or products which may overflow in one order and not in another, in float64, where no wider type tells."""
    names = ("sum", "mm", "mv", "dot", "matmul", "bmm", "linear", "std", "var", "einsum", "cumsum", "norm", "mean")
    names = (*names, "prod", "cumprod", "baddbmm", "addmm", r"conv\w*")
    matches = called(difference, *names) or " @ " in difference.program.statements[-1]
    pairs = zip(difference.actual.values, difference.expected.values, strict=False)
    unlike = [(a.array, b.array) for a, b in pairs if not same_bits(a.array, b.array)]
    huge = extreme(difference, 1e150)
    rest = _rounding_of_products(difference)
    return (
        matches
        and huge
        and all(
            bool(np.all(_near(a, b) | (np.abs(a - b) <= rest) | ~np.isfinite(a) & ~np.isfinite(b))) for a, b in unlike
        )
    )


def _rounding_of_products(difference: Difference) -> float:
    """What rounding may leave of terms that cancel: products of operands that are large, and do not overflow."""
    size = 1.0
    for given in difference.program.inputs:
        if given.dtype in FLOATS and given.array.size:
            sizes = np.abs(given.array.astype(np.float64))
            size *= float(np.max(sizes, initial=1.0, where=sizes < 1e150))
    return 64 * float(np.finfo(np.float64).eps) * size


def _near(one: Array, other: Array) -> Array:
    return np.abs(one - other) <= 1e-6 * np.abs(other) + 1e-300
