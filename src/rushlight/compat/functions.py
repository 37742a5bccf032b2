"""Functions that PyTorch overloads, or that are short in terms of others."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from rushlight.eager import functions as ops
from rushlight.eager import random
from rushlight.eager.arguments import integers, operand_list, required_operand, required_tensor
from rushlight.eager.boundary import checked
from rushlight.eager.composite.forms import as_function, with_out
from rushlight.eager.dispatch import dispatch
from rushlight.eager.indexing import nonzero_places
from rushlight.eager.overloads import spread_attributes
from rushlight.eager.override.answering import answer, relevant
from rushlight.eager.override.foreign import foreign_in
from rushlight.eager.symbols import wrap_size
from rushlight.eager.tensor import Tensor
from rushlight.eager.tensor_meta import Size
from rushlight.ops.promote import broadcast
from rushlight.ops.record import OPERATORS
from rushlight.support.errors import require


@with_out
def max(input: Tensor, dim: object = None, keepdim: bool = False, *, other: object = None) -> Any:
    """Return the largest element.

    With a dim, return values and indices along it; with a tensor, the larger of each pair.
    """
    return input.max(dim, keepdim, other=other)


@with_out
def min(input: Tensor, dim: object = None, keepdim: bool = False, *, other: object = None) -> Any:
    """Return the smallest element.

    With a dim, return values and indices along it; with a tensor, the smaller of each pair.
    """
    return input.min(dim, keepdim, other=other)


@checked
def einsum(equation: str, *operands: object) -> Tensor:
    """Return the sum of products that an equation in Einstein's notation says: `einsum("ij,jk->ik", a, b)`.

    Where nothing is summed, as in `"ii->i"` of one operand, it is a view.
    """
    if len(operands) == 1 and isinstance(operands[0], list | tuple):
        operands = tuple(operands[0])
        if foreign_in(operands):  # who overrides it is given the operands themselves
            return answer(einsum, relevant(operands), (equation, *operands), {})
    operator = OPERATORS["einsum"]
    if len(operands) == 1 and _sums_nothing(equation) and operator.decompose_rule is not None:
        operand = required_tensor(operands[0])
        shown: Tensor = operator.decompose_rule(equation=equation, operands=(operand,))
        return operand[...] if shown is operand else shown
    return operator(equation, operands)


def _sums_nothing(equation: object) -> bool:
    """Return whether all letters of one operand are those of the result."""
    if not isinstance(equation, str):
        return False
    given, arrow, result = equation.replace(" ", "").partition("->")
    if not arrow:
        return len(set(given)) == len(given) and "..." not in given
    return set(given) == set(result)


@with_out
def where(condition: Tensor, input: object = None, other: object = None) -> Any:
    """Return elements of `input` where the condition holds, and of `other` elsewhere.

    With the condition alone, return the indices where it holds.
    """
    if input is None and other is None:
        return tuple(nonzero_places(condition != 0))
    return ops.where(condition, input, other)


@checked
def broadcast_shapes(*shapes: Sequence[int] | int) -> Size:
    """Return the shape that tensors of these shapes broadcast to; an int is the shape of a vector."""
    sizes = [integers(shape) or () for shape in shapes]
    for shape in sizes:
        known = [size for size in shape if isinstance(size, int)]
        require(all(size >= 0 for size in known), "S007", "broadcast_shapes: a size is negative", size=shape)
    return Size([wrap_size(size) for size in broadcast(*sizes)])


@checked
def broadcast_tensors(*tensors: Any) -> tuple[Tensor, ...]:
    """Return the tensors expanded to the shape that they broadcast to."""
    shape = broadcast_shapes(*[tuple(required_tensor(tensor).shape) for tensor in tensors])
    return tuple([tensor.expand(*shape) for tensor in tensors])


@checked
def meshgrid(*tensors: Any, indexing: str = "ij") -> tuple[Tensor, ...]:
    """Return grids of coordinates; "xy" exchanges the first two dims, as plots do."""
    listed = list(tensors[0] if len(tensors) == 1 and isinstance(tensors[0], list | tuple) else tensors)
    require(indexing in ("ij", "xy"), "A002", f'meshgrid: indexing must be "ij" or "xy", not {indexing!r}')
    for tensor in listed:
        required_tensor(tensor)
        require(tensor.dtype is listed[0].dtype, "D002", "meshgrid: tensors differ in dtype", tensors=listed)
    swap = indexing == "xy" and len(listed) > 1
    order = [listed[1], listed[0], *listed[2:]] if swap else listed
    shape = [tensor.numel() for tensor in order]
    grids = [
        tensor.reshape([-1 if at == dim else 1 for at in range(len(order))]).expand(*shape)
        for dim, tensor in enumerate(order)
    ]
    return (grids[1], grids[0], *grids[2:]) if swap else tuple(grids)


@checked
def atleast_1d(*tensors: object) -> Any:
    """Return a tensor with at least one dim; for several tensors, or a list of them, a tuple."""
    return _of_each(tensors, lambda tensor: tensor if tensor.ndim else tensor.reshape(1))


@checked
def atleast_2d(*tensors: object) -> Any:
    """Return a tensor with at least two dims, new ones in front.

    For several tensors, or a list of them, return a tuple.
    """
    return _of_each(tensors, lambda tensor: tensor if tensor.ndim >= 2 else tensor.reshape(1, *(tensor.shape or (1,))))


def _of_each(tensors: tuple[object, ...], function: Callable[[Tensor], Tensor]) -> Any:
    if len(tensors) == 1 and isinstance(tensors[0], Tensor):
        return function(tensors[0])
    listed = tensors[0] if len(tensors) == 1 and isinstance(tensors[0], list | tuple) else tensors
    return tuple([function(required_tensor(tensor)) for tensor in listed])


@checked
def clone(input: Tensor, *, memory_format: object = None) -> Tensor:
    """Return a copy of a tensor with storage of its own, whose elements lie in the order of a format."""
    return required_tensor(input).clone(memory_format=memory_format)


@checked
def concatenate(tensors: object, dim: object = 0, *, axis: object = None, out: object = None) -> Tensor:
    """Return tensors joined along a dim, as `cat`; `axis` is NumPy's name for it."""
    return ops.cat(tensors, dim if axis is None else axis, out=out)


@with_out
def gather(input: Tensor, dim: int, index: Tensor, *, sparse_grad: bool = False) -> Tensor:
    """Return the elements at the places along a dim that `index` gives.

    The places in the other dims are those of the index. With `sparse_grad` the gradient of `input` is a sparse tensor
    with a place for each element that was read.
    """
    return input.gather(dim, index, sparse_grad=sparse_grad)


@with_out
def hstack(tensors: object) -> Tensor:
    """Return tensors joined along the second dim, vectors along their only one."""
    parts = [atleast_1d(required_tensor(tensor)) for tensor in operand_list(tensors)]
    require(parts, "A002", "hstack: there is nothing to join")
    return ops.cat(parts, 0 if parts[0].ndim == 1 else 1)


@with_out
def vstack(tensors: object) -> Tensor:
    """Return tensors joined along the first dim, vectors as rows."""
    return ops.cat([atleast_2d(required_tensor(tensor)) for tensor in operand_list(tensors)], 0)


@with_out
def var(
    input: Tensor, dim: object = None, unbiased: bool | None = None, keepdim: bool = False, *, correction: object = None
) -> Tensor:
    """Return the variance: squared distances from the mean, summed and divided by their number less `correction`."""
    return input.var(dim, unbiased, keepdim, correction=correction)


@with_out
def std(
    input: Tensor, dim: object = None, unbiased: bool | None = None, keepdim: bool = False, *, correction: object = None
) -> Tensor:
    """Return the standard deviation: the square root of the variance."""
    return input.std(dim, unbiased, keepdim, correction=correction)


@checked
def var_mean(
    input: Tensor, dim: object = None, unbiased: bool | None = None, keepdim: bool = False, *, correction: object = None
) -> tuple[Tensor, Tensor]:
    """Return the variance, as `var`, and the mean."""
    operand = required_operand(input)
    return dispatch(OPERATORS["var_mean"], (operand,), spread_attributes(dim, unbiased, keepdim, correction))


# Functions that are methods without `out=`, and methods that are functions too.
bernoulli, multinomial = with_out(random.bernoulli), with_out(random.multinomial)
argsort, argwhere, bincount = as_function(Tensor.argsort), as_function(Tensor.argwhere), as_function(Tensor.bincount)
index_put, index_put_ = as_function(Tensor.index_put), as_function(Tensor.index_put_)
repeat_interleave, unique = as_function(Tensor.repeat_interleave), as_function(Tensor.unique)
kthvalue, masked_select = with_out(as_function(Tensor.kthvalue)), with_out(as_function(Tensor.masked_select))
median, msort = with_out(as_function(Tensor.median)), with_out(as_function(Tensor.msort))
nonzero, sort = with_out(as_function(Tensor.nonzero)), with_out(as_function(Tensor.sort))
topk = with_out(as_function(Tensor.topk))

# PyTorch's second names.
absolute, fix = ops.abs, ops.trunc
arccos, arcsin, arctan, arctan2 = ops.acos, ops.asin, ops.atan, ops.atan2
arccosh, arcsinh, arctanh = ops.acosh, ops.asinh, ops.atanh
clip = ops.clamp
divide = true_divide = ops.div
greater, greater_equal, less, less_equal, not_equal = ops.gt, ops.ge, ops.lt, ops.le, ops.ne
moveaxis = ops.movedim
multiply, negative, subtract = ops.mul, ops.neg, ops.sub
row_stack = vstack
