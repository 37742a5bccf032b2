"""Functions that read and write at places that tensors give."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from rushlight.eager import functions as ops
from rushlight.eager.arguments import fixed_integer, flag, integer, integers, required_operand, required_tensor
from rushlight.eager.boundary import checked
from rushlight.eager.composite.forms import in_place, with_out
from rushlight.eager.creation import full, zeros
from rushlight.eager.dispatch import dispatch
from rushlight.eager.handle import Handle
from rushlight.eager.indexing import write_at
from rushlight.eager.mutation import in_place as form_in_place
from rushlight.eager.symbols import wrap_size
from rushlight.ir.dtype import Kind, bool_, int64
from rushlight.ops import OPERATORS
from rushlight.ops.dims import own_dim, same_shape, wrap_dim
from rushlight.ops.promote import promote_dtypes
from rushlight.support.errors import require

if TYPE_CHECKING:
    from rushlight.eager.tensor import Tensor

_INDEX, _INDEX_PUT, _SCATTER = OPERATORS["index"], OPERATORS["index_put"], OPERATORS["scatter"]


def _require_index(name: str, index: Handle) -> None:
    require(index.dtype.kind is Kind.INT, "I004", f"{name}: indices must be integers", index=index)


@with_out
def take(input: Tensor, index: object) -> Tensor:
    """Return the elements at places of the flattened tensor, in the shape of the index."""
    _require_index("take", required_tensor(index))
    return _INDEX(input.reshape(-1), (index,), (0,))


@checked
def put(input: Tensor, index: Any, source: Any, accumulate: bool = False) -> Tensor:
    """Return a copy with the source's elements written at, or added to, places of the flattened tensor."""
    _require_index("put", required_tensor(index))
    values = required_tensor(source)
    require(values.dtype is input.dtype, "D002", "put: input and source differ in dtype", input=input, source=values)
    fits = index.numel() == values.numel()
    require(fits, "S014", "put: index and source differ in their number of elements", index=index, source=values)
    flat = _INDEX_PUT(input.reshape(-1), (index.reshape(-1),), values.reshape(-1), (0,), flag(accumulate))
    return flat.reshape(input.shape)


put_ = in_place(put)


def _vector(name: str, index: Any) -> Any:
    """An index of slices as a vector."""
    _require_index(name, required_tensor(index))
    require(index.ndim <= 1, "S002", f"{name}: the index must have 1 dim", index=index)
    return index if index.ndim else index.reshape(1)


@with_out
def index_copy(input: Tensor, dim: int, index: object, source: object) -> Tensor:
    """Return a copy with slices of the source at the places of a 1-D index. Of equal places the last counts."""
    along, places, values = _slices_to_copy(input, dim, index, source)
    if not input.ndim or not values.ndim:
        return _INDEX_PUT(input.reshape(-1), (places,), values.reshape(-1), (0,)).reshape(input.shape)
    return _INDEX_PUT(input, (places,), values, (along,))


@checked
def index_copy_(input: Tensor, dim: int, index: object, source: object) -> Tensor:
    """Write slices of the source to the places of a 1-D index. Of equal places the last counts."""
    along, places, values = _slices_to_copy(input, dim, index, source)
    if not input.ndim or not values.ndim:
        return input.copy_(index_copy(input, dim, index, source))
    return write_at(input, (along,), (places,), values)


def write_rows(input: Tensor, places: Tensor, rows: Tensor) -> Tensor:
    """Write rows to places of the first dim that ascend, each above the one before.

    These are distinct, so the loop that makes the rows can write them, and threads share it. Errors: I001 for others.
    """
    return write_at(input, (0,), (places,), rows, ascending=True)


def _slices_to_copy(input: Tensor, dim: int, index: object, source: object) -> tuple[int, Any, Tensor]:
    """The dim, the places along it, and the slices."""
    places, values = _vector("index_copy", index), required_tensor(source)
    along = wrap_dim(fixed_integer(dim), input.ndim, "index_copy")
    same = values.dtype is input.dtype
    require(same, "D002", "index_copy: input and source differ in dtype", input=input, source=values)
    if not input.ndim or not values.ndim:
        fits = input.ndim <= 1 and values.numel() == 1 and places.shape[0] == 1
    else:
        shape = (*input.shape[:along], places.shape[0], *input.shape[along + 1 :])
        fits = same_shape([integer(size) for size in shape], values.form.shape)
    require(fits, "S014", "index_copy: the source does not fit", input=input, index=places, source=values)
    return along, places, values


@checked
def index_fill(input: Tensor, dim: int, index: object, value: object) -> Tensor:
    """Return a copy with one value in the slices at the places of a 1-D index."""
    places, filling = _vector("index_fill", index), required_operand(value)
    along = wrap_dim(fixed_integer(dim), input.ndim, "index_fill")
    if isinstance(filling, Handle):
        require(filling.ndim == 0, "S002", "index_fill: the value must have no dims", value=filling)
        whole = input if input.ndim else input.reshape(1)
        chosen = _INDEX_PUT(zeros(whole.shape[along], dtype=bool_, device=input.device), (places,), True, (0,))
        column = chosen.reshape([-1 if at == along else 1 for at in range(whole.ndim)])
        # A place that is named twice is filled once, which the gradient of the value has to know.
        return ops.where(column, OPERATORS["to_dtype"](filling, input.dtype), whole).reshape(input.shape)
    if not isinstance(filling, complex) and input.dtype.kind is not Kind.FLOAT and not input.dtype.is_complex:
        filling = bool(filling) if input.dtype is bool_ else int(filling)
    if not input.ndim:
        return _INDEX_PUT(input.reshape(1), (places,), filling, (0,)).reshape(())
    return _INDEX_PUT(input, (places,), filling, (along,))


index_fill_ = in_place(index_fill)


@with_out
def index_reduce(
    input: Tensor, dim: int, index: object, source: object, reduce: str, *, include_self: bool = True
) -> Tensor:
    """Return the input with slices of the source reduced into the places of a 1-D index: prod, mean, amax or amin."""
    names = ("prod", "mean", "amax", "amin")
    require(reduce in names, "A002", f"index_reduce: reduce is one of {', '.join(names)}", given=reduce)
    places, values = _vector("index_reduce", index), required_tensor(source)
    along = wrap_dim(fixed_integer(dim), input.ndim, "index_reduce")
    one, other = (input, values) if input.ndim else (input.reshape(1), values.reshape(-1))
    shape = (*one.shape[:along], places.shape[0], *one.shape[along + 1 :])
    fits = same_shape([integer(size) for size in shape], other.form.shape)
    require(fits, "S014", "index_reduce: the source does not fit", input=input, index=places, source=values)
    spread = places.reshape([-1 if at == along else 1 for at in range(one.ndim)]).expand(shape)
    combined = ops.scatter_reduce(one, along, spread, other, reduce, include_self=flag(include_self))
    return combined if input.ndim else combined.reshape(())


index_reduce_ = in_place(index_reduce)


@checked
def masked_scatter(input: Tensor, mask: object, source: object) -> Tensor:
    """Return a copy with the source's elements, in order, where a bool mask holds. Errors: I001 where they run out."""
    where, values = required_tensor(mask), required_tensor(source)
    require(where.dtype is bool_, "D001", "masked_scatter: the mask must be bool", mask=where)
    require(values.dtype is input.dtype, "D002", "masked_scatter: dtypes differ", input=input, source=values)
    flags = where if same_shape(where.form.shape, input.form.shape) else (where | ops.zeros_like(input, dtype=bool_))
    ranks = ops.cumsum(flags.reshape(-1), 0).reshape(flags.shape) * flags  # from 1 on; 0 where nothing is taken
    given = ops.cat((zeros(1, dtype=values.dtype, device=values.device), values.reshape(-1)))
    return ops.where(flags, _INDEX(given, (ranks,), (0,)), input).contiguous()


masked_scatter_ = in_place(masked_scatter)


@with_out
def nonzero_static(input: Tensor, *, size: int, fill_value: int = -1) -> Tensor:
    """Return the indices of the first `size` elements that are not 0, in rows. Missing rows are filled."""
    count = wrap_size(integer(size))
    require(count >= 0, "A002", "nonzero_static: size must not be negative", size=size)
    rest = full((count, input.ndim), fixed_integer(fill_value), dtype=int64)
    return ops.narrow(ops.cat((input.nonzero(), rest)), 0, 0, count)


@checked
def unravel_index(indices: Tensor, shape: object) -> tuple[Tensor, ...]:
    """Return for each dim of a shape the coordinates of flat indices into a tensor of that shape."""
    _require_index("unravel_index", indices)
    sizes = integers(shape) or ()
    coordinates: list[Tensor] = []
    rest = indices
    for size in reversed(sizes):
        require(not isinstance(size, int) or size >= 0, "S007", "unravel_index: a size is negative", shape=sizes)
        width = wrap_size(size)
        coordinates.append(ops.remainder(rest, width))
        rest = ops.floor_divide(rest, width)
    return tuple(reversed(coordinates))


@with_out
def scatter(
    input: Tensor, dim: int, index: Any, src: object = None, *, value: object = None, reduce: str | None = None
) -> Tensor:
    """Return a copy with the source's elements, or one value, at the places given along a dim.

    Of equal places the last element stays. With `reduce`, add or multiply, elements are combined with those there.
    """
    source = required_operand(value if src is None else src)
    if reduce is None:
        return _SCATTER(required_tensor(input), fixed_integer(dim), required_tensor(index), source)
    methods = {"add": "sum", "multiply": "prod"}
    require(reduce in methods, "A002", "scatter: reduce is add or multiply", given=reduce)
    if not isinstance(source, Handle):
        source = full(tuple(index.shape), source, dtype=input.dtype, device=input.device)
    return ops.scatter_reduce(input, dim, index, source, methods[reduce])


@checked
def scatter_(
    input: Tensor, dim: int, index: object, src: object = None, *, value: object = None, reduce: str | None = None
) -> Tensor:
    """Write the source's elements, or one value, at the places given along a dim, as `scatter` does."""
    source = required_operand(value if src is None else src)
    attrs = {"dim": fixed_integer(dim)}
    if reduce is None:
        return dispatch(form_in_place(_SCATTER), (required_tensor(input), required_tensor(index), source), attrs)
    return input.copy_(scatter(input, dim, index, source, reduce=reduce))


@with_out
def isin(elements: object, test_elements: object, *, assume_unique: bool = False, invert: bool = False) -> Tensor:
    """Return whether each element is among others; `assume_unique` changes nothing here."""
    flag(assume_unique)
    one, other = required_operand(elements), required_operand(test_elements)
    tensors = [operand for operand in (one, other) if isinstance(operand, Handle)]
    require(tensors, "A001", "isin: one of the two must be a tensor", elements=elements, test_elements=test_elements)
    values: Any = one if isinstance(one, Handle) else full((), one, dtype=_as_dtype(one, tensors[0]))
    choices: Any = other if isinstance(other, Handle) else full((), other, dtype=_as_dtype(other, tensors[0]))
    dtype = promote_dtypes(values.dtype, choices.dtype)
    present = ops.any(ops.eq(values.to(dtype).unsqueeze(-1), choices.to(dtype).reshape(-1)), -1)
    return ~present if flag(invert) else present


def _as_dtype(number: complex, tensor: Handle) -> Any:
    """The dtype of a Python number beside a tensor: the tensor's, but for a float beside integers."""
    if isinstance(number, float) and tensor.dtype.kind < Kind.FLOAT:
        return None
    return int64 if tensor.dtype is bool_ and not isinstance(number, bool) else tensor.dtype


@checked
def unique_consecutive(
    input: Tensor, return_inverse: bool = False, return_counts: bool = False, dim: int | None = None
) -> Any:
    """Return a tensor without those elements, or slices of a dim, that equal the one before them."""
    flat = input.reshape(-1) if dim is None else input
    along = own_dim(fixed_integer(0 if dim is None else dim), flat.shape, "unique_consecutive")
    size = flat.shape[along]
    rows = flat.movedim(along, 0).reshape(size, -1) if flat.numel() else zeros(size, 0)
    first = ops.ones((min(size, 1),), dtype=bool_)
    starts = ops.cat((first, ops.any(ops.ne(rows[1:], rows[:-1]), 1))) if size else first
    places = starts.nonzero().reshape(-1)
    results: list[Any] = [ops.index_select(flat, along, places)]
    if flag(return_inverse):
        results.append((ops.cumsum(starts, 0) - 1).reshape(input.shape if dim is None else (size,)))
    if flag(return_counts):
        results.append(ops.cat((places[1:], full((min(size, 1),), size, dtype=int64))) - places)
    return results[0] if len(results) == 1 else tuple(results)


@checked
def index(input: Tensor, indices: Sequence[object]) -> Tensor:
    """Return `input[indices]`, where None stands for a whole dim."""
    require(isinstance(indices, (tuple, list)), "A001", "index: indices are a list or a tuple", indices=indices)
    return input[tuple([slice(None) if index is None else index for index in indices])]
