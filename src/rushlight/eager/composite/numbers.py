"""Functions of single numbers that are short programs: parts of floats, degrees, the most frequent element."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

from rushlight.eager import functions as ops
from rushlight.eager.arguments import fixed_integer, flag, required_operand, required_tensor
from rushlight.eager.autograd.history import shown_by_base
from rushlight.eager.boundary import checked
from rushlight.eager.composite.facts import result_type
from rushlight.eager.composite.forms import in_place, with_out
from rushlight.eager.creation import arange, zeros
from rushlight.ir.dtype import bool_, complex128, float64, int64
from rushlight.ops import OPERATORS
from rushlight.ops.dims import wrap_dim
from rushlight.support.errors import require

if TYPE_CHECKING:
    from rushlight.eager.tensor import Tensor

_MANTISSA, _EXPONENT = OPERATORS["frexp_mantissa"], OPERATORS["frexp_exponent"]
_CONJUGATED = OPERATORS["conjugated"]


class Parts(NamedTuple):
    """The results of `frexp`."""

    mantissa: Any
    exponent: Any


@with_out
def frexp(input: Tensor) -> Parts:
    """Return fractions from 1/2 to 1 and powers of two whose products are the elements."""
    return Parts(_MANTISSA(required_tensor(input)), _EXPONENT(input))


@with_out
def ldexp(input: Tensor, other: object) -> Tensor:
    """Return each element times two to the power of the other's."""
    result: Any = ops.mul(required_tensor(input), ops.pow(2.0, required_operand(other)))
    wanted = result_type(input, other)
    return result.to(wanted) if wanted.is_floating_point else result


ldexp_ = in_place(ldexp)


def _require_real(name: str, input: Tensor) -> Any:
    require(not required_tensor(input).dtype.is_complex, "D006", f"{name}: complex operands are not supported")
    return input


@with_out
def deg2rad(input: Tensor) -> Tensor:
    """Return angles in radians of angles in degrees."""
    return _require_real("deg2rad", input) * (math.pi / 180)


@with_out
def rad2deg(input: Tensor) -> Tensor:
    """Return angles in degrees of angles in radians."""
    return _require_real("rad2deg", input) * (180 / math.pi)


deg2rad_, rad2deg_ = in_place(deg2rad), in_place(rad2deg)


@checked
def positive(input: Tensor) -> Tensor:
    """Return the tensor itself. Errors: D001 for bools."""
    require(required_tensor(input).dtype is not bool_, "D001", "positive: not supported for bool", input=input)
    return input


@checked
def isreal(input: Tensor) -> Tensor:
    """Return whether the imaginary part of each element is 0."""
    if required_tensor(input).dtype.is_complex:
        return ops.eq(ops.imag(input), 0)
    return ops.full_like(input, True, dtype=bool_)


@with_out
def conj_physical(input: Tensor) -> Tensor:
    """Return the complex conjugates, in storage of their own."""
    return _CONJUGATED(required_tensor(input))


conj_physical_ = in_place(conj_physical)


@checked
def float_power_(input: Tensor, exponent: object) -> Tensor:
    """Raise a float64 or complex128 tensor to a power in place. Errors: D003 for other dtypes."""
    base = required_tensor(input)
    result = ops.float_power(shown_by_base(base), required_operand(exponent))
    same = input.dtype is result.dtype and input.dtype in (float64, complex128)
    require(same, "D003", "float_power_: the tensor must have the result's dtype", input=input, result=result)
    return input.copy_(result)


class Frequent(NamedTuple):
    """The results of `mode`."""

    values: Any
    indices: Any


@with_out
def mode(input: Tensor, dim: int = -1, keepdim: bool = False) -> Frequent:
    """Return the most frequent elements along a dim, and where they are last.

    Of equally frequent ones the least. NaNs differ from each other.
    """
    along = wrap_dim(fixed_integer(dim), required_tensor(input).ndim, "mode")
    kept = flag(keepdim)
    if not input.ndim:
        return Frequent(input.clone(), zeros((), dtype=int64, device=input.device))
    require(input.shape[along] != 0, "S002", "mode: the dim must not be empty", input=input, dim=dim)
    ordered, order = input.movedim(along, -1).sort(-1, stable=True)
    begins = ops.ne(ordered[..., 1:], ordered[..., :-1])
    count = ordered.shape[-1]
    places = arange(count, device=input.device).expand(ordered.shape)
    starts = ops.where(ops.constant_pad_nd(begins, (1, 0), True), places, 0)
    longest = ops.argmax(places - ops.cummax(starts, -1)[0], -1, True)
    modes = ops.gather(order, -1, longest)
    values = ops.gather(input.movedim(along, -1), -1, modes)
    results = [part.movedim(-1, along) if kept else part.squeeze(-1) for part in (values, modes)]
    return Frequent(*results)
