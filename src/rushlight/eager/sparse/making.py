"""How sparse tensors are made: of places and values, of compressed rows or columns, and of dense tensors."""

from __future__ import annotations

from typing import Any

from rushlight.eager import functions as ops
from rushlight.eager.arguments import fixed_integer, fixed_integers, flag, place, required_tensor
from rushlight.eager.boundary import checked
from rushlight.eager.creation import arange, as_tensor, empty
from rushlight.eager.handle import Handle
from rushlight.eager.sparse.tensor import SparseTensor, sparse
from rushlight.eager.storage.formats import StorageLayout, sparse_coo, sparse_csc, sparse_csr
from rushlight.eager.tensor import Tensor
from rushlight.ir.dtype import Kind, int64
from rushlight.support.errors import fail, require


@checked
def sparse_coo_tensor(
    indices: Tensor | None = None,
    values: Tensor | None = None,
    size: Any = None,
    *,
    dtype: object = None,
    device: object = None,
    requires_grad: bool = False,
    check_invariants: bool | None = None,
    is_coalesced: bool | None = None,
    pin_memory: bool = False,
) -> SparseTensor:
    """Return a sparse tensor of coordinates: `indices` has a row for each sparse dim, a column for each of the values.

    Places that occur twice are added up. Without a size it is the least that holds all places. Places and sizes are
    always checked. Errors: S002, S014, I001.
    """
    place(device)
    if indices is None:
        require(size is not None, "A003", "sparse_coo_tensor: a size is needed without indices")
        shape = fixed_integers(size) or ()
        places, kept = empty((len(shape), 0), dtype=int64), empty((0,), dtype=dtype)
        return _finished(places, kept, shape, requires_grad, merged=True)
    places, kept = _integers("sparse_coo_tensor", indices).to(int64), as_tensor(values, dtype)
    require(places.ndim == 2, "S002", "sparse_coo_tensor: indices have 2 dims", indices=places)
    count = places.shape[0]
    fits = kept.ndim >= 1 and kept.shape[0] == places.shape[1]
    require(fits, "S014", "sparse_coo_tensor: there is one value for each column", indices=places, values=kept)
    most = [int(row.amax()) + 1 if row.numel() else 0 for row in places]
    shape = (*most, *kept.shape[1:]) if size is None else fixed_integers(size) or ()
    same = len(shape) == count + kept.ndim - 1 and tuple(shape[count:]) == tuple(kept.shape[1:])
    require(same, "S014", "sparse_coo_tensor: the size does not fit", size=shape, indices=places, values=kept)
    inside = all(end <= length for end, length in zip(most, shape, strict=False))
    inside = inside and (not places.numel() or int(places.amin()) >= 0)
    require(inside, "I001", "sparse_coo_tensor: an index is outside of the size", size=shape, indices=places)
    return _finished(places, kept, shape, requires_grad, merged=bool(is_coalesced))


def _finished(
    places: Tensor, values: Tensor, shape: Any, requires_grad: bool, merged: bool, **more: Any
) -> SparseTensor:
    if flag(requires_grad):
        values = values.detach().requires_grad_()
    return sparse(places, values, shape, merged=merged, **more)


def _integers(name: str, values: Tensor) -> Tensor:
    indices: Tensor = values if isinstance(values, Handle) else as_tensor(values)
    if not indices.numel() and indices.dtype.kind is Kind.FLOAT:
        indices = indices.to(int64)
    require(indices.dtype.kind is Kind.INT, "I004", f"{name}: indices are integers", indices=indices)
    return indices


@checked
def sparse_csr_tensor(
    crow_indices: Tensor, col_indices: Tensor, values: Tensor, size: Any = None, **named: Any
) -> SparseTensor:
    """Return a sparse matrix in compressed rows: where each row begins, the columns, and the values."""
    return sparse_compressed_tensor(crow_indices, col_indices, values, size, layout=sparse_csr, **named)


@checked
def sparse_csc_tensor(
    ccol_indices: Tensor, row_indices: Tensor, values: Tensor, size: Any = None, **named: Any
) -> SparseTensor:
    """Return a sparse matrix in compressed columns: where each column begins, the rows, and the values."""
    return sparse_compressed_tensor(ccol_indices, row_indices, values, size, layout=sparse_csc, **named)


@checked
def sparse_compressed_tensor(
    compressed_indices: Tensor,
    plain_indices: Tensor,
    values: Tensor,
    size: Any = None,
    *,
    dtype: object = None,
    layout: StorageLayout | None = None,
    device: object = None,
    requires_grad: bool = False,
    check_invariants: bool | None = None,
    pin_memory: bool = False,
) -> SparseTensor:
    """Return a sparse matrix in compressed rows or columns, as `layout` says. Errors: A006 for blocks and batches."""
    place(device)
    if layout not in (sparse_csr, sparse_csc):
        fail("A006", "sparse_compressed_tensor: layouts are sparse_csr and sparse_csc", layout=layout)
    name = "sparse_compressed_tensor"
    pointers, plain = _integers(name, compressed_indices), _integers(name, plain_indices)
    kept = as_tensor(values, dtype)
    single = pointers.ndim == plain.ndim == kept.ndim == 1
    require(single, "A006", f"{name}: one matrix of numbers is supported", values=kept)
    count = plain.shape[0]
    ordered = pointers.numel() and int(pointers[0]) == 0 and int(pointers[-1]) == count == kept.shape[0]
    lengths = pointers[1:] - pointers[:-1]
    ordered = ordered and (not lengths.numel() or int(lengths.amin()) >= 0)
    require(bool(ordered), "A002", f"{name}: where rows begin does not fit", pointers=pointers, values=kept)
    most = int(plain.amax()) + 1 if count else 0
    rows = layout is sparse_csr
    lines = pointers.shape[0] - 1
    shape = ((lines, most) if rows else (most, lines)) if size is None else fixed_integers(size) or ()
    fits = len(shape) == 2 and shape[0 if rows else 1] == lines
    require(fits, "S014", f"{name}: the size does not fit", size=shape, pointers=pointers)
    inside = most <= shape[1 if rows else 0] and (not count or int(plain.amin()) >= 0)
    require(inside, "I001", f"{name}: an index is outside of the size", size=shape, plain=plain)
    line = arange(lines).repeat_interleave(lengths)
    places = ops.stack((line, plain.to(int64)) if rows else (plain.to(int64), line))
    return _finished(places, kept, shape, requires_grad, merged=True, pointers=pointers, layout=layout)


# Conversions.


def to_sparse(tensor: Tensor, layout: Any = None, sparse_dim: Any = None, name: str = "to_sparse") -> Tensor:
    """A tensor in another layout, by default of coordinates; see `Tensor.to_sparse`."""
    if isinstance(layout, int) and not isinstance(layout, bool):
        layout, sparse_dim = None, layout
    wanted: Any = sparse_coo if layout is None else layout
    if not any(wanted is known_layout for known_layout in (sparse_coo, sparse_csr, sparse_csc)):
        fail("A006", f"{name}: layouts are sparse_coo, sparse_csr and sparse_csc", layout=wanted)
    converted = tensor if isinstance(tensor, SparseTensor) else _of_dense(tensor, sparse_dim, name)
    if converted.layout is wanted:
        return converted
    if converted.layout is not sparse_coo:
        order = converted.keys_of_places().argsort() if converted.layout is sparse_csc else None
        places = converted.places if order is None else converted.places[:, order]
        converted = sparse(
            places, converted.kept if order is None else converted.kept[order], converted.shape, merged=True
        )
    return converted if wanted is sparse_coo else _compressed(converted.coalesce(), wanted, name)


def _of_dense(tensor: Tensor, sparse_dim: Any, name: str) -> SparseTensor:
    count = required_tensor(tensor).ndim if sparse_dim is None else fixed_integer(sparse_dim)
    fits = 0 < count <= tensor.ndim
    require(fits, "A002", f"{name}: sparse_dim is from 1 to the number of dims", sparse_dim=count, input=tensor)
    stored = tensor.detach() != 0
    if count < tensor.ndim:
        stored = stored.reshape(*tensor.shape[:count], -1).any(-1)
    places = stored.nonzero().t()
    return sparse(places, tensor[tuple(places)], tensor.shape, merged=True)


def _compressed(tensor: SparseTensor, layout: StorageLayout, name: str) -> SparseTensor:
    plain = tensor.sparse_dim() == 2 and tensor.dense_dim() == 0
    require(plain, "S002", f"{name}: compressed layouts are for matrices", input=tensor)
    places, values = tensor.places, tensor.kept
    at = 0
    if layout is sparse_csc:
        order = places[1].argsort()
        places, values, at = places[:, order], values[order], 1
    lines = arange(tensor.shape[at] + 1)
    pointers = ops.searchsorted(places[at].contiguous(), lines)
    return sparse(places, values, tensor.shape, merged=True, pointers=pointers, layout=layout)


def sparse_mask(tensor: Tensor, mask: Tensor) -> SparseTensor:
    """The elements of a dense tensor at the places of a sparse one."""
    if not isinstance(mask, SparseTensor):
        fail("A001", "sparse_mask: the mask is a sparse tensor", mask=mask)
    same = tuple(required_tensor(tensor).shape) == tuple(mask.shape)
    require(same, "S014", "sparse_mask: the shapes differ", input=tensor, mask=mask)
    whole = tensor.to_dense() if isinstance(tensor, SparseTensor) else tensor
    return mask.with_values(whole[tuple(mask.places)])
