"""Functions that rearrange elements: splitting, joining, diagonals, turning."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from rushlight.eager import functions as ops
from rushlight.eager.arguments import (
    fixed_integer,
    fixed_integers,
    flag,
    integer,
    operand_list,
    required_operand,
    required_tensor,
)
from rushlight.eager.autocast import autocasts
from rushlight.eager.boundary import checked
from rushlight.eager.composite.forms import as_copies, with_out
from rushlight.eager.creation import tensor, zeros
from rushlight.eager.handle import Handle
from rushlight.eager.symbols import sym_min, wrap_size
from rushlight.ir.dtype import int64
from rushlight.ops.dims import own_dim, wrap_dim
from rushlight.ops.promote import promote
from rushlight.support.errors import require

if TYPE_CHECKING:
    from rushlight.eager.tensor import Tensor

_MOST_PARTS = 1_000_000
Sections = Any  # how many parts, or where they begin: an int, several, or a tensor of these


# Splitting.


@checked
def tensor_split(input: Tensor, indices_or_sections: Sections, dim: int = 0) -> tuple[Tensor, ...]:
    """Return parts of a tensor along a dim: so many of about one size, or those between the indices given."""
    along = own_dim(fixed_integer(dim), input.shape, "tensor_split")
    cuts = _plain(indices_or_sections, "tensor_split")
    if isinstance(cuts, (tuple, list)):
        starts, ends = [None, *cuts], [*cuts, None]
        return tuple([ops.slice(input, along, start, end) for start, end in zip(starts, ends, strict=True)])
    count = fixed_integer(cuts)
    require(0 < count <= _MOST_PARTS, "A002", f"tensor_split: parts are 1 to {_MOST_PARTS:,}", given=count)
    size = input.shape[along]
    length, rest = size // count, size % count
    bounds = [position * length + sym_min(position, rest) for position in range(count + 1)]
    return tuple([ops.narrow(input, along, a, b - a) for a, b in itertools.pairwise(bounds)])


def _plain(cuts: Any, name: str) -> Any:
    """Sections as an int or a list of ints; a tensor's values are read."""
    if not isinstance(cuts, Handle):
        require(cuts is not None, "A001", f"{name}: sections are a number or several, not None")
        return cuts
    read: Any = cuts
    fits = cuts.dtype is int64 and cuts.ndim <= 1
    require(fits, "A001", f"{name}: a tensor of sections is a number or a vector of int64", given=cuts)
    return read.tolist()


def _split_along(input: Tensor, sections: Sections, dim: int, name: str, least: int) -> tuple[Tensor, ...]:
    require(input.ndim >= least, "S002", f"{name}: the tensor needs at least {least} dims", input=input)
    if isinstance(sections, int):
        require(sections > 0, "A002", f"{name}: the number of parts must be positive", given=sections)
        even = input.shape[dim] % sections == 0
        require(even, "A002", f"{name}: the dim is no multiple of the number of parts", input=input, given=sections)
    return tensor_split(input, sections, dim)


@checked
def hsplit(input: Tensor, indices_or_sections: Sections) -> tuple[Tensor, ...]:
    """Return parts of a tensor along its second dim, of a vector along its only one; see `tensor_split`."""
    return _split_along(input, indices_or_sections, 0 if input.ndim == 1 else 1, "hsplit", 1)


@checked
def vsplit(input: Tensor, indices_or_sections: Sections) -> tuple[Tensor, ...]:
    """Return parts of a tensor along its first dim; see `tensor_split`."""
    return _split_along(input, indices_or_sections, 0, "vsplit", 2)


@checked
def dsplit(input: Tensor, indices_or_sections: Sections) -> tuple[Tensor, ...]:
    """Return parts of a tensor along its third dim; see `tensor_split`."""
    return _split_along(input, indices_or_sections, 2, "dsplit", 3)


@checked
def split_with_sizes(input: Tensor, split_sizes: Sequence[int], dim: int = 0) -> tuple[Tensor, ...]:
    """Return parts of the sizes given along a dim."""
    return ops.split(input, tuple(split_sizes), dim)


@checked
def unsafe_split(tensor: Tensor, split_size: int, dim: int = 0) -> tuple[Tensor, ...]:
    """Return what `split` does: here it is no less safe."""
    return ops.split(tensor, split_size, dim)


@checked
def unsafe_split_with_sizes(input: Tensor, split_sizes: Sequence[int], dim: int = 0) -> tuple[Tensor, ...]:
    """Return what `split_with_sizes` does: here it is no less safe."""
    return ops.split(input, tuple(split_sizes), dim)


@checked
def unsafe_chunk(input: Tensor, chunks: int, dim: int = 0) -> tuple[Tensor, ...]:
    """Return what `chunk` does: here it is no less safe."""
    return ops.chunk(input, chunks, dim)


# Joining.


@checked
def atleast_3d(*tensors: Any) -> Any:
    """Return a tensor with at least three dims; for several tensors, or a list of them, a tuple."""
    if len(tensors) == 1 and isinstance(tensors[0], Handle):
        return _of_three_dims(tensors[0])
    listed = tensors[0] if len(tensors) == 1 and isinstance(tensors[0], (list, tuple)) else tensors
    return tuple([_of_three_dims(required_tensor(operand)) for operand in listed])


def _of_three_dims(given: Any) -> Tensor:
    if given.ndim == 2:
        return given.unsqueeze(-1)
    return given if given.ndim > 2 else given.reshape(1, -1, 1)


@with_out
def column_stack(tensors: object) -> Tensor:
    """Return tensors joined along the second dim, vectors and numbers as columns."""
    parts = [required_tensor(operand) for operand in operand_list(tensors)]
    require(parts, "A002", "column_stack: there is nothing to join")
    return ops.cat([part if part.ndim > 1 else part.reshape(-1, 1) for part in parts], 1)


@with_out
def dstack(tensors: object) -> Tensor:
    """Return tensors joined along the third dim, those of fewer dims as `atleast_3d` makes them."""
    parts = [_of_three_dims(required_tensor(operand)) for operand in operand_list(tensors)]
    require(parts, "A002", "dstack: there is nothing to join")
    return ops.cat(parts, 2)


@checked
def block_diag(*tensors: object) -> Tensor:
    """Return a matrix with the tensors, as matrices, along its diagonal and zeros elsewhere."""
    listed = tensors[0] if len(tensors) == 1 and isinstance(tensors[0], (list, tuple)) else tensors
    parts = [required_tensor(operand) for operand in operand_list(listed)]
    for part in parts:
        require(part.ndim <= 2, "S002", "block_diag: tensors have at most 2 dims", given=part)
    blocks = [element if element.ndim == 2 else element.reshape(1, -1) for element in parts]
    if not blocks:
        return zeros(1, 0)
    dtype = promote(*[element.form.type for element in parts])
    rows: list[Tensor] = []
    before: Any = 0
    after: Any = sum([element.shape[1] for element in blocks])
    for block in blocks:
        after = after - block.shape[1]
        rows.append(ops.constant_pad_nd(block.to(dtype), (before, after)))
        before = before + block.shape[1]
    return ops.cat(rows, 0)


@checked
def cartesian_prod(*tensors: object) -> Tensor:
    """Return all combinations of one element of each vector, a row for each; of one vector itself."""
    listed = tensors[0] if len(tensors) == 1 and isinstance(tensors[0], (list, tuple)) else tensors
    parts = [required_tensor(operand) for operand in operand_list(listed)]
    for part in parts:
        require(part.ndim == 1, "S002", "cartesian_prod: vectors are expected", given=part)
    require(parts, "A002", "cartesian_prod: there is nothing to combine")
    if len(parts) == 1:
        return parts[0]
    shape = [element.shape[0] for element in parts]
    grids = [
        element.reshape([-1 if at == dim else 1 for at in range(len(parts))]).expand(*shape)
        for dim, element in enumerate(parts)
    ]
    return ops.stack(grids, -1).reshape(-1, len(parts))


@checked
def combinations(input: Tensor, r: int = 2, with_replacement: bool = False) -> Tensor:
    """Return all combinations of `r` elements of a vector, in rows, in the order of Python's itertools."""
    require(input.ndim == 1, "S002", "combinations: a vector is expected", input=input)
    count = fixed_integer(r)
    require(count >= 0, "A002", "combinations: r must not be negative", r=r)
    if count == 0:
        return ops.zeros((0,), dtype=input.dtype)
    choose = itertools.combinations_with_replacement if flag(with_replacement) else itertools.combinations
    places = list(choose(range(fixed_integer(input.shape[0])), count))
    return input[tensor(places, dtype=int64).reshape(-1, count)]


# Diagonals.


@checked
def diag_embed(input: Tensor, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Tensor:
    """Return zeros with the last dim's elements on a diagonal of two dims."""
    require(input.ndim, "S002", "diag_embed: the tensor needs a dim", input=input)
    rank = input.ndim + 1
    first, second = [wrap_dim(fixed_integer(dim), rank, "diag_embed") for dim in (dim1, dim2)]
    require(first != second, "I006", "diag_embed: the two dims are the same", dim1=dim1, dim2=dim2)
    shift = fixed_integer(offset)
    sizes = list(input.shape[:-1])
    for dim in sorted((first, second)):
        sizes.insert(dim, input.shape[-1] + abs(shift))
    return ops.diagonal_backward(input, sizes, shift, first, second)


@with_out
def diag(input: Tensor, diagonal: int = 0) -> Tensor:
    """Return a matrix with a vector on a diagonal, or a copy of the diagonal of a matrix."""
    require(input.ndim in (1, 2), "S002", "diag: a vector or a matrix is expected", input=input)
    return diag_embed(input, diagonal) if input.ndim == 1 else ops.clone(ops.diagonal(input, diagonal))


@checked
def diagflat(input: Tensor, offset: int = 0) -> Tensor:
    """Return a matrix with all elements of a tensor on a diagonal."""
    return diag_embed(input.reshape(-1), offset)


@autocasts("float32")
@checked
def trace(input: Tensor) -> Tensor:
    """Return the sum of a matrix's diagonal."""
    require(input.ndim == 2, "S002", "trace: a matrix is expected", input=input)
    return ops.sum(ops.diagonal(input))


@checked
def fill_diagonal_(input: Tensor, fill_value: object, wrap: bool = False) -> Tensor:
    """Fill the main diagonal with one value, in place; `wrap`: a new one begins below the end of a tall matrix's."""
    require(input.ndim >= 2, "S002", "fill_diagonal_: the tensor needs at least 2 dims", input=input)
    shape, strides = input.shape, input.stride()
    if input.ndim > 2:
        even = all(size == shape[0] for size in shape)
        require(even, "S005", "fill_diagonal_: all dims are of one size where there are more than 2", input=input)
    value = required_operand(fill_value)
    step, length = sum(strides), min(shape)
    input.as_strided((length,), (step,)).fill_(value)
    if flag(wrap) and input.ndim == 2 and shape[0] > shape[1] + 1:
        period = shape[1] + 1
        more = (input.numel() + period - 1) // period - length
        input.as_strided((more,), (step,), input.storage_offset() + strides[0] * period).fill_(value)
    return input


# Turning.


@checked
def fliplr(input: Tensor) -> Tensor:
    """Return a tensor with its second dim reversed, as a copy."""
    require(input.ndim >= 2, "S002", "fliplr: the tensor needs at least 2 dims", input=input)
    return ops.flip(input, 1)


@checked
def flipud(input: Tensor) -> Tensor:
    """Return a tensor with its first dim reversed, as a copy."""
    require(input.ndim >= 1, "S002", "flipud: the tensor needs a dim", input=input)
    return ops.flip(input, 0)


@checked
def rot90(input: Tensor, k: int = 1, dims: Sequence[int] = (0, 1)) -> Tensor:
    """Return a tensor turned `k` times by 90 degrees in the plane of two dims, from first to second."""
    plane = fixed_integers(dims) or ()
    require(len(plane) == 2 and input.ndim >= 2, "A002", "rot90: two dims of a tensor are expected", dims=dims)
    first, second = [wrap_dim(dim, input.ndim, "rot90") for dim in plane]
    require(first != second, "I006", "rot90: the two dims are the same", dims=dims)
    turns = fixed_integer(k) % 4
    if turns == 0:
        return ops.clone(input)
    if turns == 2:
        return ops.flip(input, (first, second))
    return ops.transpose(ops.flip(input, second if turns == 1 else first), first, second)


@checked
def sum_to_size(input: Tensor, *size: Any) -> Tensor:
    """Return the sum over the dims in which a tensor of `size` is expanded to the input's shape."""
    listed = size[0] if len(size) == 1 and isinstance(size[0], (tuple, list)) else size
    sizes = [wrap_size(integer(element)) for element in listed]
    lead = input.ndim - len(sizes)
    fits = lead >= 0 and all(new in (1, old) for new, old in zip(sizes, input.shape[lead:], strict=True))
    require(fits, "S009", "sum_to_size: the size does not expand to the input's", input=input, size=tuple(listed))
    dims = [dim for dim in range(input.ndim) if dim < lead or (sizes[dim - lead] == 1 and input.shape[dim] != 1)]
    if not sizes:
        return ops.sum(input)  # of integers in int64, as in PyTorch, where other sizes keep what is not summed
    if not dims:
        return input
    result = ops.sum(input, dims, True)
    return result.reshape(sizes) if lead else result


# Views as copies.

alias_copy, as_strided_copy = as_copies(ops.alias), as_copies(ops.as_strided)
detach_copy, diagonal_copy = as_copies(ops.detach), as_copies(ops.diagonal)
expand_copy, narrow_copy = as_copies(ops.expand), as_copies(ops.narrow)
permute_copy, select_copy = as_copies(ops.permute), as_copies(ops.select)
slice_copy, split_copy = as_copies(ops.slice), as_copies(ops.split)
split_with_sizes_copy, squeeze_copy = as_copies(split_with_sizes), as_copies(ops.squeeze)
t_copy, transpose_copy = as_copies(ops.t), as_copies(ops.transpose)
unbind_copy, unsqueeze_copy = as_copies(ops.unbind), as_copies(ops.unsqueeze)
view_as_complex_copy, view_as_real_copy = as_copies(ops.view_as_complex), as_copies(ops.view_as_real)


@with_out
def unfold_copy(input: Tensor, dimension: int, size: int, step: int) -> Tensor:
    """Return all windows of a dim as a new last dim, as `Tensor.unfold` does. As a copy."""
    return ops.clone(input.unfold(dimension, size, step)).contiguous()


@with_out
def view_copy(input: Tensor, size: Any = None, *, dtype: object = None) -> Tensor:
    """Return the same elements in another shape, or their bytes as another dtype, as `Tensor.view` does. As a copy."""
    return ops.clone(input.view(size if dtype is None else dtype))
