"""SparseTensor: the places of elements that are stored, and their values. All other elements are 0."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NoReturn

from rushlight.eager import functions as ops
from rushlight.eager.creation import zeros
from rushlight.eager.handle import SPARSE, make
from rushlight.eager.override.foreign import disabled
from rushlight.eager.storage.formats import StorageLayout, sparse_coo, sparse_csc, sparse_csr
from rushlight.eager.tensor import Tensor
from rushlight.eager.tensor_meta import form_of
from rushlight.ir.dtype import DType
from rushlight.ops import OPERATORS
from rushlight.support.errors import fail, require


class SparseTensor(Tensor):
    """A tensor of which few elements are stored; operators at `Key.SPARSE` answer for it.

    `places` has a row for each sparse dim and a column for each stored element, `kept` their values, whose further dims
    are dense. Places that occur twice are added up. `pointers` has in compressed layouts where each row, or column,
    begins. Gradients are those of `kept`.
    """

    __torch_function__ = disabled

    places: Tensor
    kept: Tensor
    merged: bool
    pointers: Tensor | None
    stored_as: StorageLayout

    @property
    def layout(self) -> StorageLayout:
        """How elements are stored: by coordinates, or compressed by rows or columns."""
        return self.stored_as

    @property
    def is_sparse(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride] - a constant of other tensors
        """Whether elements are stored by coordinates."""
        return self.stored_as is sparse_coo

    @property
    def is_sparse_csr(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride] - a constant of other tensors
        """Whether elements are stored in rows."""
        return self.stored_as is sparse_csr

    def sparse_dim(self) -> int:
        """The number of dims whose places are stored."""
        return int(self.places.shape[0])

    def dense_dim(self) -> int:
        """The number of dims that values have."""
        return self.kept.ndim - 1

    def _nnz(self) -> int:
        return int(self.kept.shape[0])

    def _indices(self) -> Tensor:
        return self.places

    def _values(self) -> Tensor:
        return self.kept

    def is_coalesced(self) -> bool:
        """Whether places are in order and none occurs twice."""
        self._need(sparse_coo)
        return self.merged

    def coalesce(self) -> SparseTensor:
        """Itself if it is coalesced, else with equal places added up, in order."""
        if self.merged:
            return self
        keys = self.keys_of_places()
        distinct_keys, inverse, _ = OPERATORS["distinct"](keys)
        values = zeros(distinct_keys.shape[0], *self.kept.shape[1:], dtype=self.dtype)
        values = ops.index_add(values, 0, inverse, self.kept)
        return sparse(self._places_of(distinct_keys), values, self.shape, merged=True)

    def keys_of_places(self) -> Tensor:
        """The number of each place, with places in row-major order."""
        keys: Tensor | None = None
        for at in range(self.sparse_dim()):
            keys = self.places[at] if keys is None else keys * self.shape[at] + self.places[at]
        return zeros(self._nnz(), dtype=self.places.dtype) if keys is None else keys

    def _places_of(self, keys: Tensor) -> Tensor:
        rows: list[Any] = []
        for size in reversed(self.shape[: self.sparse_dim()]):
            rows.insert(0, keys % max(size, 1))
            keys = keys // max(size, 1)
        return ops.stack(rows) if rows else self.places[:, :0]

    def indices(self) -> Tensor:
        """The places of stored elements: a row for each sparse dim. Errors: A004 before `coalesce`."""
        self._need(sparse_coo)
        require(self.merged, "A004", "indices: the tensor is not coalesced", hint="x.coalesce().indices()")
        return self.places

    def values(self) -> Tensor:
        """The stored elements. Errors: A004 before `coalesce`."""
        merged = self.merged or self.stored_as is not sparse_coo
        require(merged, "A004", "values: the tensor is not coalesced", hint="x.coalesce().values()")
        return self.kept

    def crow_indices(self) -> Tensor | None:
        """Where each row begins among the stored elements, and the number of these."""
        self._need(sparse_csr)
        return self.pointers

    def col_indices(self) -> Tensor:
        """The column of each stored element."""
        self._need(sparse_csr)
        return self.places[1]

    def ccol_indices(self) -> Tensor | None:
        """Where each column begins among the stored elements, and the number of these."""
        self._need(sparse_csc)
        return self.pointers

    def row_indices(self) -> Tensor:
        """The row of each stored element."""
        self._need(sparse_csc)
        return self.places[0]

    def _need(self, layout: StorageLayout) -> None:
        require(self.stored_as is layout, "A004", f"the layout must be {layout!r}", layout=self.stored_as)

    def to_dense(self, dtype: object = None, *, masked_grad: bool | None = None) -> Tensor:
        """The tensor with all elements stored."""
        count = self.sparse_dim()
        total = 1
        for size in self.shape[:count]:
            total *= size
        flat = zeros(total, *self.kept.shape[1:], dtype=self.dtype)
        return ops.index_add(flat, 0, self.keys_of_places(), self.kept).reshape(self.shape).to(dtype=dtype)

    # Gradients are those of the values.

    @property
    def requires_grad(self) -> bool:
        """Whether gradients of the stored elements are wanted."""
        return bool(self.kept.requires_grad)

    @requires_grad.setter
    def requires_grad(self, value: bool) -> None:
        self.kept.requires_grad = value

    @property
    def is_leaf(self) -> bool:
        """Whether its stored elements were made by the user, or require no gradients."""
        return bool(self.kept.is_leaf)

    @property
    def grad_fn(self) -> Tensor:
        """The node that made its stored elements, or None."""
        return self.kept.grad_fn

    @property
    def grad(self) -> SparseTensor | None:
        """What backward passes have accumulated for the stored elements, at their places; None without any."""
        gradient = self.kept.grad
        if gradient is None or self.merged:
            return None if gradient is None else self.with_values(gradient)
        keys, inverse, _ = OPERATORS["distinct"](self.keys_of_places())
        values = zeros(keys.shape[0], *gradient.shape[1:], dtype=gradient.dtype)  # equal places have equal gradients
        return sparse(self._places_of(keys), values.index_copy(0, inverse, gradient), self.shape, merged=True)

    @grad.setter
    def grad(self, value: object) -> None:
        require(value is None, "A006", "grad: that of a sparse tensor is set to None alone", grad=value)
        self.kept.grad = None

    @grad.deleter
    def grad(self) -> None:
        self.kept.grad = None

    def with_values(self, values: Tensor) -> SparseTensor:
        """Other values at the same places."""
        return sparse(self.places, values, self.shape, merged=self.merged, pointers=self.pointers, layout=self.layout)

    def taken_apart(self) -> tuple[Callable[..., SparseTensor], tuple[Tensor, ...]]:
        """What makes a tensor of its shape and layout of parts, and its own parts."""
        parts = (self.places, self.kept) if self.pointers is None else (self.places, self.kept, self.pointers)
        return partial(_of_parts, tuple(self.shape), self.merged, self.stored_as), parts

    def data_ptr(self) -> NoReturn:
        """Refused with A006: places and values are in two memories."""
        fail("A006", "data_ptr: a sparse tensor is not one memory", hint="x.values().data_ptr()")

    def untyped_storage(self) -> NoReturn:
        """Refused with A006: places and values are in two memories."""
        fail("A006", "untyped_storage: a sparse tensor is not one memory", hint="x.values().untyped_storage()")

    def __repr__(self, *, tensor_contents: str | None = None) -> str:
        if self.stored_as is sparse_coo:
            parts: Mapping[str, Any] = {"indices": self.places}
        elif self.stored_as is sparse_csr:
            parts = {"crow_indices": self.pointers, "col_indices": self.places[1]}
        else:
            parts = {"ccol_indices": self.pointers, "row_indices": self.places[0]}
        lines: list[str] = []
        for name, value in {**parts, "values": self.kept}.items():
            text = repr(value.detach()).replace("\n", "\n" + " " * (len(name) + 8))
            lines.append(f"{name}={text},\n       ")
        tail = f"size={tuple(self.shape)}, nnz={self._nnz()}, layout={self.layout!r}"
        return f"tensor({''.join(lines)}{tail}{', requires_grad=True' if self.requires_grad else ''})"

    def __reduce_ex__(self, protocol: object) -> Any:
        return rebuilt, (self.places, self.kept, tuple(self.shape), self.merged, self.pointers, repr(self.stored_as))

    def __deepcopy__(self, memo: dict[int, object]) -> Any:
        copied: Any = self.kept.__deepcopy__(memo)
        return self.with_values(copied)

    def __copy__(self) -> Any:
        return self.with_values(self.kept)


def sparse(
    places: Tensor,
    values: Tensor,
    shape: Any,
    *,
    merged: bool = False,
    pointers: Tensor | None = None,
    layout: StorageLayout = sparse_coo,
) -> SparseTensor:
    """A sparse tensor of parts that fit."""
    dtype: DType = values.dtype
    tensor: SparseTensor = make(None, form_of(tuple([int(size) for size in shape]), dtype), cls=SparseTensor)
    tensor.keys = SPARSE
    tensor.places, tensor.kept, tensor.pointers, tensor.stored_as = places, values, pointers, layout
    count: object = values.shape[0]
    tensor.merged = merged or (isinstance(count, int) and count < 2)
    return tensor


def _of_parts(
    shape: tuple[int, ...],
    merged: bool,
    layout: StorageLayout,
    places: Tensor,
    values: Tensor,
    pointers: Tensor | None = None,
) -> SparseTensor:
    return sparse(places, values, shape, merged=merged, pointers=pointers, layout=layout)


def rebuilt(
    places: Tensor, values: Tensor, shape: Any, merged: bool, pointers: Tensor | None, layout: str
) -> SparseTensor:
    """A sparse tensor of what was pickled."""
    layouts = {repr(one): one for one in (sparse_coo, sparse_csr, sparse_csc)}
    return sparse(places, values, shape, merged=merged, pointers=pointers, layout=layouts[layout])
