"""Functions that make tensors: ranges, strided memory, random integers and counts."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from rushlight.eager import functions as ops
from rushlight.eager.arguments import (
    default_dtype,
    element_type,
    fixed_integers,
    integers,
    number,
    required_tensor,
    shape_of,
)
from rushlight.eager.boundary import checked
from rushlight.eager.composite.forms import with_out
from rushlight.eager.creation import OPTIONS, arange, empty, linspace, spaced_dtype, with_gradient
from rushlight.eager.dispatch import call_function
from rushlight.eager.handle import Handle
from rushlight.eager.keywords import no_more
from rushlight.eager.random import randint, random_state
from rushlight.ir.dtype import complex128, float64
from rushlight.ops import OPERATORS
from rushlight.support.errors import require

if TYPE_CHECKING:
    from rushlight.eager.tensor import Tensor


@with_out
def logspace(
    start: Any,
    end: Any,
    steps: int,
    base: float = 10.0,
    *,
    dtype: object = None,
    device: object = None,
    requires_grad: bool = False,
    **rest: object,
) -> Tensor:
    """Return powers of a base whose exponents are evenly spaced, both ends included.

    For an integer dtype the first and the last exponent are cut to whole numbers.
    """
    if rest:
        no_more(rest, OPTIONS)
    require(not isinstance(base, complex), "A001", "logspace: base must be a real number", base=base)
    wanted = spaced_dtype((start, end), dtype)
    if wanted.is_integer:
        start, end = _whole(start), _whole(end)
    wide = complex128 if wanted.is_complex else float64
    exponents: Any = linspace(start, end, steps, dtype=wide, device=device)
    result: Any = ops.pow(number(base), exponents).to(wanted)
    return with_gradient(result, requires_grad)


def _whole(value: Any) -> Any:
    """A tensor or number, cut to a whole one."""
    if isinstance(value, Handle):
        tensor: Any = value
        return tensor.trunc()
    given = number(value)
    return math.trunc(given) if math.isfinite(given) else given


@with_out
def range(
    start: float = 0,
    end: float | None = None,
    step: float = 1,
    *,
    dtype: object = None,
    device: object = None,
    requires_grad: bool = False,
    **rest: object,
) -> Tensor:
    """Return start, start + step, ... up to the end, which is included; `arange` does not include it."""
    if rest:
        no_more(rest, OPTIONS)
    require(end is not None, "A003", "range: start and end are needed")
    first, last, stride = float(number(start)), float(number(end)), float(number(step))
    require(stride != 0, "A002", "range: step must not be 0")
    require((last - first) * stride >= 0, "A002", "range: the step leads away from the end", start=first, end=last)
    count = int((last - first) / stride) + 1
    wanted = element_type(dtype) or default_dtype()
    counted: Any = arange(count, dtype=float64, device=device)
    result = (counted * stride + first).to(wanted)
    return with_gradient(result, requires_grad)


@checked
def empty_strided(
    size: Any,
    stride: Any,
    *,
    dtype: object = None,
    device: object = None,
    requires_grad: bool = False,
    **rest: object,
) -> Tensor:
    """Return a tensor with undefined contents, of sizes and strides."""
    if rest:
        no_more(rest, OPTIONS)
    sizes, strides = shape_of((size,)), integers(stride) or ()
    require(len(sizes) == len(strides), "S002", "empty_strided: one stride for each size", size=sizes, stride=strides)
    fits = all(not isinstance(step, int) or step >= 0 for step in strides)
    require(fits, "A002", "empty_strided: strides are not negative", stride=strides)
    extent: Any = 1
    for length, step in zip(sizes, strides, strict=True):
        extent = extent + (length - 1) * step
    memory = empty((0 if any(length == 0 for length in sizes) else extent,), dtype=dtype, device=device)
    result = call_function(OPERATORS["as_strided"], (memory,), {"size": sizes, "stride": strides, "storage_offset": 0})
    return with_gradient(_alone(result), requires_grad)


def _alone(view: Any) -> Any:
    """A view whose base nobody sees, as a tensor of its own."""
    if view.backing is not None:
        view.view_of = None
        view.keys = view.form.keys
    return view


@checked
def new_empty_strided(
    input: Tensor, size: Any, stride: Any, *, dtype: object = None, device: object = None, requires_grad: bool = False
) -> Tensor:
    """Return a tensor with undefined contents, of sizes and strides, and by default of this dtype."""
    wanted = input.dtype if dtype is None else dtype
    where = input.device if device is None else device
    return empty_strided(size, stride, dtype=wanted, device=where, requires_grad=requires_grad)


@checked
def empty_permuted(
    size: Any,
    physical_layout: Any,
    *,
    dtype: object = None,
    device: object = None,
    requires_grad: bool = False,
    **rest: object,
) -> Tensor:
    """Return a tensor with undefined contents whose dims lie in an order, the longest stride first."""
    if rest:
        no_more(rest, OPTIONS)
    sizes, order = shape_of((size,)), fixed_integers(physical_layout) or ()
    fits = sorted(order) == [position for position, _ in enumerate(sizes)]
    require(fits, "A002", "empty_permuted: the layout is an order of the dims", size=sizes, physical_layout=order)
    strides: list[Any] = [1] * len(sizes)
    step: Any = 1
    for dim in reversed(order):
        strides[dim] = step
        step = step * sizes[dim]
    return empty_strided(sizes, strides, dtype=dtype, device=device, requires_grad=requires_grad)


@checked
def randint_like(
    input: Tensor,
    *bounds: Any,
    low: Any = None,
    high: Any = None,
    dtype: object = None,
    device: object = None,
    requires_grad: bool = False,
    **rest: object,
) -> Tensor:
    """Return integers of [low, high), or [0, high), in the shape and dtype of another tensor."""
    given = (*bounds, *[bound for bound in (low, high) if bound is not None])
    require(1 <= len(given) <= 2, "A003", "randint_like: takes high, or low and high")
    named: dict[str, Any] = {name: rest.pop(name) for name in ("generator",) if name in rest}
    if rest:
        no_more(rest, ("generator", *OPTIONS))
    like = required_tensor(input)
    wanted = element_type(dtype) or like.dtype
    least = given[0] if len(given) == 2 else 0
    drawn: Any = randint(least, given[-1], tuple(like.shape), device=like.device if device is None else device, **named)
    return with_gradient(drawn.to(wanted), requires_grad)


@checked
def poisson(input: Tensor, generator: object = None) -> Tensor:
    """Return Poisson numbers, each with its element as the rate. Errors: A002 for negative rates."""
    return call_function(OPERATORS["poisson"], (required_tensor(input), *_state(generator)), {})


@checked
def standard_gamma(input: Tensor, generator: object = None) -> Tensor:
    """Return gamma numbers of rate 1, each with its element as the concentration, which has a gradient."""
    return call_function(OPERATORS["standard_gamma"], (required_tensor(input), *_state(generator)), {})


@checked
def binomial(count: Tensor, prob: Tensor, generator: object = None) -> Tensor:
    """Return binomial numbers: successes of `count` trials, each with the chance `prob`."""
    operands = (required_tensor(count), required_tensor(prob), *_state(generator))
    return call_function(OPERATORS["binomial"], operands, {})


def _state(generator: object) -> tuple[object, object]:
    return (None, None) if generator is None else random_state(generator)
