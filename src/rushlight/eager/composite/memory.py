"""Methods of tensors about their memory: where it lies, how, and who else sees it."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any, NoReturn, Self

from rushlight.eager.arguments import flag, number, required_tensor, shape_of
from rushlight.eager.autograd.history import requires
from rushlight.eager.boundary import checked_methods
from rushlight.eager.composite import layout as in_place
from rushlight.eager.dispatch import STATE, call_user, dispatch
from rushlight.eager.handle import Handle, adopted, fail_without_data
from rushlight.eager.legacy import made
from rushlight.eager.memory import array_of
from rushlight.eager.methods import GeneratedMethods
from rushlight.eager.mutation import COPY
from rushlight.eager.storage.formats import (
    MemoryFormat,
    StorageLayout,
    lies_in,
    sparse_coo,
    sparse_csc,
    sparse_csr,
    strided,
)
from rushlight.eager.storage.untyped import UntypedStorage
from rushlight.eager.symbols import wrap_size
from rushlight.eager.typed_storage import TypedStorage
from rushlight.ir.dtype import DType
from rushlight.ops import OPERATORS
from rushlight.support.errors import fail, require

if TYPE_CHECKING:
    from rushlight.eager.tensor import Tensor


@checked_methods
class MemoryMethods(GeneratedMethods):
    """The side of a tensor that is memory. There is one kind of it: dense elements by strides, of the CPU or none."""

    __slots__ = ()

    is_cuda = is_xpu = is_ipu = is_maia = is_mps = is_mtia = is_vulkan = is_xla = False
    is_mkldnn = is_nested = is_quantized = is_sparse = is_sparse_csr = False
    name = None

    t_, transpose_, swapaxes_, swapdims_ = in_place.t_, in_place.transpose_, in_place.transpose_, in_place.transpose_
    squeeze_, unsqueeze_, as_strided_ = in_place.squeeze_, in_place.unsqueeze_, in_place.as_strided_
    set_, resize_, resize_as_ = in_place.set_, in_place.resize_, in_place.resize_as_

    @property
    def is_cpu(self) -> bool:
        """Whether it is on the CPU."""
        return self.device.type == "cpu"

    @property
    def layout(self) -> StorageLayout:
        """How elements are stored: `strided`."""
        return strided

    @property
    def grad_dtype(self) -> DType:
        """The dtype of its gradient: its own."""
        return self.dtype

    def is_pinned(self, device: object = None) -> bool:
        """False: there is no device that would read pinned memory."""
        return False

    def pin_memory(self, device: object = None) -> Self:
        """The tensor itself: there is no device that would read pinned memory."""
        return self

    def is_shared(self) -> bool:
        """Whether its memory is one that other processes can see. Errors: C002 in a compiled function."""
        _outside_of_graphs(self)
        return self.backing is not None and self.untyped_storage().is_shared()

    def share_memory_(self) -> Self:
        """Move its memory, and that of all tensors on it, to where other processes can see it.

        Forked processes see it then, and others that get the tensor by `multiprocessing`. Errors: V003, V004, M001.
        """
        storage = self.untyped_storage()
        if storage.memory is None:
            fail_without_data(self)
        storage.share_memory_()
        if type(self).__reduce_ex__ is adopted().__reduce_ex__:
            _sharing().announce(type(self))
        return self

    def storage(self) -> TypedStorage:
        """Its memory as elements of its dtype, PyTorch's older form of `untyped_storage`."""
        return TypedStorage.of(self.untyped_storage(), self.form.dtype)

    def storage_type(self) -> type:
        """The class of `storage()`: FloatStorage or its like. Errors: D001 where its dtype has none."""
        return getattr(import_module("rushlight.eager.typed_storage"), self.storage().pickle_storage_type())

    def is_set_to(self, tensor: Handle) -> bool:
        """Whether it shows the same elements of the same memory as another. Errors: C002 in a compiled function."""
        other = required_tensor(tensor)
        _outside_of_graphs(self)
        same = self.backing is other.backing and self.offset == other.offset and self.backing is not None
        return same and tuple(self.form.shape) == tuple(other.form.shape) and self.form.strides == other.form.strides

    def const_data_ptr(self) -> int:
        """The address of the first element; 0 without data. Errors: C002 in a compiled function."""
        _outside_of_graphs(self)
        return 0 if self.backing is None else self.address()

    def untyped_storage(self) -> UntypedStorage:
        """The memory that it shows a part of, shared with its views. Errors: C002 in a compiled function."""
        _outside_of_graphs(self)
        return UntypedStorage.of(self)

    def dense_dim(self) -> int:
        """The number of dims that are stored densely: all."""
        return len(self.form.shape)

    def sparse_dim(self) -> int:
        """The number of dims that are stored sparsely: none."""
        return 0

    def to_dense(self, dtype: object = None, *, masked_grad: bool | None = None) -> Tensor:
        """The tensor itself, of another dtype where one is given: its elements are all stored."""
        made_dense: Any = self
        return made_dense.to(dtype=dtype)

    def to_sparse(
        self, layout: object = None, *, sparse_dim: object = None, blocksize: object = None, dense_dim: object = None
    ) -> Any:
        """The tensor with its elements that are not 0 stored alone: by coordinates, or in a compressed layout.

        `to_sparse(1)` stores the places of the first dim, and the others densely. Errors: A006 for blocks.
        """
        if blocksize is not None or dense_dim is not None:
            fail("A006", "to_sparse: blocks and dense dims of compressed layouts are not supported")
        return _making().to_sparse(self, layout, sparse_dim)

    def to_sparse_coo(self) -> Any:
        """The tensor with its elements that are not 0 stored by coordinates."""
        return _making().to_sparse(self, sparse_coo, None, "to_sparse_coo")

    def to_sparse_csr(self, dense_dim: object = None) -> Any:
        """The matrix with its elements that are not 0 stored in rows."""
        _require_no_dense_dims("to_sparse_csr", dense_dim)
        return _making().to_sparse(self, sparse_csr, None, "to_sparse_csr")

    def to_sparse_csc(self, dense_dim: object = None) -> Any:
        """The matrix with its elements that are not 0 stored in columns."""
        _require_no_dense_dims("to_sparse_csc", dense_dim)
        return _making().to_sparse(self, sparse_csc, None, "to_sparse_csc")

    def sparse_mask(self, mask: object) -> Any:
        """The elements at the places of a sparse tensor."""
        return _making().sparse_mask(self, mask)

    def dim_order(self, *, ambiguity_check: bool | list[MemoryFormat] = False) -> tuple[int, ...]:
        """The dims from the longest stride to the shortest one.

        With `ambiguity_check` A002 where dims of size 1 or equal strides leave that open; with memory formats, unless
        exactly one of them fits.
        """
        formats = ambiguity_check if isinstance(ambiguity_check, list) else []
        if formats or flag(ambiguity_check):
            strides = [wrap_size(stride) for stride in self.form.strides]
            twice = any(a == b for a, b in itertools.pairwise(strides))
            open_ = twice or any(wrap_size(size) == 1 for size in self.form.shape)
            fitting = sum(lies_in(self, one) for one in formats)
            require(not open_ or fitting == 1, "A002", "dim_order: the order is not unique", tensor=self)
        return _order_of(self)

    def new(self, *args: object, device: object = None, size: object = None) -> Tensor:
        """A tensor of this dtype as the older constructors make it: from data, or undefined in a shape."""
        return made(args if size is None else tuple(shape_of((size,))), self.dtype, device)

    def resize(self, *sizes: object) -> Tensor:
        """The older name of `reshape`."""
        return dispatch(OPERATORS["reshape"], (self,), {"shape": shape_of(sizes)})

    def resize_as(self, tensor: Handle) -> Tensor:
        """The older name of a `reshape` to another tensor's shape."""
        return dispatch(OPERATORS["reshape"], (self,), {"shape": tuple(required_tensor(tensor).form.shape)})

    def reinforce(self, reward: object) -> NoReturn:
        """Refused with A006: PyTorch removed it."""
        fail("A006", "reinforce: PyTorch removed it", hint="use distributions: -dist.log_prob(action) * reward")

    def apply_(self, callable: Callable[[Any], Any]) -> Tensor:
        """Write `callable(element)` over each element, one call of Python's at a time."""
        return _each("apply_", self, (), callable)

    def map_(self, tensor: Any, callable: Callable[[Any, Any], Any]) -> Tensor:
        """Write `callable(element, other)` over each element, with another tensor's, which is broadcast."""
        return _each("map_", self, (tensor,), callable)

    def map2_(self, x: Any, y: Any, callable: Callable[[Any, Any, Any], Any]) -> Tensor:
        """Write `callable(element, x, y)` over each element, with two other tensors', which are broadcast."""
        return _each("map2_", self, (x, y), callable)


def _outside_of_graphs(tensor: Handle) -> None:
    """C002 for a tensor of a traced program, which has no memory yet."""
    if STATE.tracer is not None:
        fail_without_data(tensor)


def _sharing() -> Any:
    """What sends tensors to other processes, loaded when memory is first shared."""
    return import_module("rushlight.data.sharing")


def _making() -> Any:
    """What makes sparse tensors, loaded when one is first asked for."""
    return import_module("rushlight.eager.sparse.making")


def _order_of(tensor: Handle) -> tuple[int, ...]:
    """Dims by descending strides; those of no stride stay where they are."""
    order = list(range(len(tensor.form.shape)))
    if wrap_size(tensor.form.numel) == 0:
        return tuple(order)
    strides: Sequence[Any] = [wrap_size(stride) for stride in tensor.form.strides]
    for position in range(1, len(order)):
        at = position
        for before in range(position - 1, -1, -1):
            mine, other = strides[order[at]], strides[order[before]]
            if not mine or not other:
                continue
            if mine <= other:
                break
            order[at], order[before] = order[before], order[at]
            at = before
    return tuple(order)


def _each(name: str, target: Any, others: tuple[Any, ...], function: Callable[..., Any]) -> Any:
    _outside_of_graphs(target)
    for other in others:
        same = required_tensor(other).dtype is target.dtype
        require(same, "D002", f"{name}: the tensors differ in dtype", tensor=target, other=other)
    if any(requires(one) for one in (target, *others)):
        fail(
            "G002", f"{name}: elements of a tensor that requires gradients are not changed by a function", tensor=target
        )
    shape = tuple(target.form.shape)
    columns = [one.expand(shape).reshape(-1).tolist() for one in others]
    values = [call_user(function, *row) for row in zip(target.reshape(-1).tolist(), *columns, strict=True)]
    converted = target.new_empty(len(values))
    array = array_of(converted)
    for position, value in enumerate(values):
        try:
            array[position] = number(value)
        except (TypeError, ValueError, OverflowError):
            fail("A001", f"{name}: the function's results are numbers of the tensor's dtype", result=value)
    dispatch(COPY, (target, converted.reshape(shape)), {})
    return target


def _require_no_dense_dims(name: str, dense_dim: object) -> None:
    none = dense_dim is None or (isinstance(dense_dim, int) and dense_dim == 0)
    require(none, "A006", f"{name}: dense dims are not supported", dense_dim=dense_dim)
