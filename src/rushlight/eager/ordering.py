"""Methods that order or count elements: operators of `ops.order` find places, and values are gathered there."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

from rushlight.eager.arguments import fixed_integer, integer, is_tensor
from rushlight.eager.boundary import checked_methods
from rushlight.eager.functions import broadcast_to, cat, full, gather, index_select, stack, where
from rushlight.eager.handle import Handle
from rushlight.eager.indexing import nonzero_places
from rushlight.eager.overloads import ConversionOverloads
from rushlight.eager.symbols import SymBool, check, wrap_size
from rushlight.ir.dtype import Kind, bool_, float32, float64, int64, uint8
from rushlight.ops import OPERATORS
from rushlight.ops.dims import wrap_dim
from rushlight.ops.promote import broadcast
from rushlight.support.errors import require
from rushlight.sym import eq

if TYPE_CHECKING:
    from rushlight.eager.tensor import Tensor

_ARGSORT, _DISTINCT = OPERATORS["argsort"], OPERATORS["distinct"]
_DISTINCT_VALUES = OPERATORS["distinct_values"]
_REPEAT, _REPEAT_INDICES = OPERATORS["repeat_interleave"], OPERATORS["repeat_interleave_indices"]
_FLATNONZERO = OPERATORS["flatnonzero"]


class Ordered(NamedTuple):
    """Values, and where in the input they stood."""

    values: Any
    indices: Any


def _ordered(
    tensor: ConversionOverloads, dim: int, descending: bool, op: str, part: tuple[object, object] | None = None
) -> Ordered:
    """The elements ordered along a dim, or those of a `part` of them: its first place, and how many."""
    dim = wrap_dim(dim, tensor.ndim, op)
    if tensor.ndim == 0:
        return Ordered(tensor.clone(), _ARGSORT(tensor, dim, descending))
    indices = _ARGSORT(tensor, dim, descending, *(part or ()))
    return Ordered(gather(tensor, dim, indices), indices)


def _without(ordered: Ordered, dim: int, keepdim: bool) -> Ordered:
    return ordered if keepdim or ordered.values.ndim == 0 else Ordered(*[tensor.squeeze(dim) for tensor in ordered])


def _length(tensor: Handle, dim: object, op: str) -> Any:
    along = wrap_dim(fixed_integer(dim), tensor.ndim, op)
    return tensor.shape[along] if tensor.ndim else 1


def _distinct_slices(tensor: ConversionOverloads, dim: int) -> tuple[Any, Any, Any]:
    """The distinct slices of a dim, each slice's index among them, and their counts."""
    along = wrap_dim(dim, tensor.ndim, "unique")
    whole: Any = tensor if tensor.ndim else tensor.reshape(1)
    size = whole.shape[along]
    rows = whole.movedim(along, 0).reshape(size, -1) if whole.numel() else full((size, 0), 0)
    order: Any = _ARGSORT(full((size,), 0), 0, False)
    for column in reversed(range(rows.shape[1])):  # stable, so that the first column counts most
        order = order[_ARGSORT(rows[:, column][order], 0, False)]
    ordered = rows[order]
    starts = cat((full((min(size, 1),), True), (ordered[1:] != ordered[:-1]).any(1))) if size else full((0,), True)
    begun = starts.nonzero().reshape(-1)
    ranks = starts.to(int64).cumsum(0) - 1
    inverse = full((size,), 0).scatter(0, order, ranks)
    counts = cat((begun[1:], full((min(size, 1),), size))) - begun
    return index_select(whole, along, order[begun]), inverse, counts


@checked_methods
class OrderMethods(ConversionOverloads):
    """Sorting, selecting by rank or mask, and counting."""

    __slots__ = ()

    def sort(self, dim: object = -1, descending: bool = False, *, stable: bool = True) -> Ordered:
        """The elements in order along a dim, and their indices; NaN is the largest, ties keep their order."""
        return _ordered(self, fixed_integer(dim), bool(descending), "sort")

    def argsort(self, dim: object = -1, descending: bool = False, *, stable: bool = True) -> Tensor:
        """Where the elements stand once ordered along a dim."""
        return OrderMethods.sort(self, dim, descending).indices

    def msort(self) -> Tensor:
        """The elements in order along the first dim."""
        return OrderMethods.sort(self, 0).values

    def topk(self, k: object, dim: object = -1, largest: bool = True, sorted: bool = True) -> Ordered:
        """The `k` largest, or smallest, elements along a dim, in order."""
        count, rank = _length(self, dim, "topk"), wrap_size(integer(k))
        require(0 <= rank <= count, "A002", f"topk: k is {rank}, and there are {count} elements", tensor=self)
        return _ordered(self, fixed_integer(dim), bool(largest), "topk", (0, rank))

    def kthvalue(self, k: object, dim: object = -1, keepdim: bool = False) -> Ordered:
        """The `k`-th smallest element along a dim, counted from 1."""
        count, rank = _length(self, dim, "kthvalue"), wrap_size(integer(k))
        require(1 <= rank <= count, "A002", f"kthvalue: k is {rank}, and there are {count} elements", tensor=self)
        along = fixed_integer(dim)
        return _without(_ordered(self, along, False, "kthvalue", (rank - 1, 1)), along, keepdim)

    def median(self, dim: object = None, keepdim: bool = False) -> Any:
        """The lower of the two middle elements; with a dim, values and indices along it. NaN where there is one."""
        flat = self.reshape(-1) if dim is None else self
        along = 0 if dim is None else fixed_integer(dim)
        count = _length(flat, along, "median")
        if dim is None and count == 0:
            if self.dtype.kind is Kind.FLOAT:
                return self.sum() + math.nan  # so that it has a gradient
            # A NaN as processors make an integer of it, of 32 bits or more.
            least = -(1 << self.dtype.bits - 1) if self.dtype.signed and self.dtype.bits >= 32 else 0
            return full((), least if self.dtype.kind is Kind.INT else math.nan, dtype=self.dtype)
        require(count > 0, "I007", "median: there is no element to choose from", tensor=self)
        middle = _ordered(flat, along, False, "median", ((count - 1) // 2, 1))
        if self.dtype.kind is Kind.FLOAT and flat.ndim:
            broken = flat.isnan()
            places = where(
                broken.any(along, keepdim=True), broken.to(uint8).argmax(along, keepdim=True), middle.indices
            )
            middle = Ordered(gather(flat, along, places), places)
        median = _without(middle, along, keepdim and dim is not None)
        return median.values if dim is None else median

    def unique(
        self,
        sorted: bool = True,
        return_inverse: bool = False,
        return_counts: bool = False,
        dim: int | None = None,
    ) -> Any:
        """The distinct elements in order; on request each element's index among them, and their counts.

        With a dim, the distinct slices of it, ordered by their first elements, then by the second ones, and so on.
        """
        if dim is None and not return_inverse and not return_counts:
            return _DISTINCT_VALUES(self)
        values, inverse, counts = _DISTINCT(self) if dim is None else _distinct_slices(self, fixed_integer(dim))
        results = [values, *([inverse] if return_inverse else []), *([counts] if return_counts else [])]
        return results[0] if len(results) == 1 else tuple(results)

    def bincount(self, weights: Any = None, minlength: object = 0) -> Tensor:
        """How often each number from 0 on occurs in a vector of them, or the sum of their weights."""
        fits = self.ndim == 1 and self.dtype.kind is Kind.INT
        require(fits, "A002", "bincount: a vector of integers from 0 on is expected", tensor=self)
        least = integer(minlength)
        require(least >= 0, "A002", "bincount: minlength is at least 0", minlength=least)
        padded = cat((self.to(int64), full((1,), least - 1, dtype=int64)))
        check(cat((self.to(int64), full((1,), 0))).amin().item() >= 0, "bincount: all numbers are at least 0")
        dtype = int64 if weights is None else weights.dtype if weights.dtype is float32 else float64
        counts = full((padded.amax().item() + 1,), 0, dtype=dtype)
        return counts.scatter_add(0, self.to(int64), full(self.shape, 1) if weights is None else weights.to(dtype))

    def repeat_interleave(self, repeats: object, dim: object = None, *, output_size: int | None = None) -> Any:
        """Each element, or slice of a dim, repeated in its place: so often each, or each so often as a vector says.

        `output_size`, if given, must be the size of the result along the dim.
        """
        repeated = OrderMethods._repeated(self, repeats, fixed_integer(dim))
        if output_size is not None:
            fits = eq(repeated.form.shape[fixed_integer(dim) or 0], integer(output_size))
            check(SymBool(fits), "repeat_interleave: output_size is the size of the result along the dim")
        return repeated

    def _repeated(self, repeats: object, dim: int | None) -> Any:
        if not is_tensor(repeats):
            return _REPEAT(self, integer(repeats), dim)
        if dim is None:
            return OrderMethods._repeated(self.reshape(-1), repeats, 0)
        dim = wrap_dim(dim, self.ndim, "repeat_interleave")
        self = self if self.ndim else self.reshape(1)
        if repeats.form.shape in ((), (1,)):
            return _REPEAT(self, integer(repeats), dim)
        fits = eq(repeats.form.shape[0], self.form.shape[dim])
        check(SymBool(fits), "repeat_interleave: there are as many repeats as elements along the dim")
        return index_select(self, dim, _REPEAT_INDICES(repeats))

    def nonzero(self, *, as_tuple: bool = False) -> Any:
        """The indices of all elements that are not 0: a row for each, or a tensor for each dim."""
        places = nonzero_places(self != 0)
        if as_tuple:
            return tuple(places)
        return stack(places, 1) if self.ndim else full((places[0].shape[0], 0), 0, dtype=int64)

    def argwhere(self) -> Tensor:
        """The indices of all elements that are not 0, a row for each."""
        return OrderMethods.nonzero(self)

    def masked_select(self, mask: Any) -> Tensor:
        """The elements where a bool mask holds, as a vector."""
        require(mask.dtype is bool_, "D001", "masked_select: the mask must be bool", mask=mask)
        shape = broadcast(self.form.shape, mask.form.shape)
        one, other = broadcast_to(self, shape), broadcast_to(mask, shape)
        return index_select(one.reshape(-1), 0, _FLATNONZERO(other.reshape(-1)))
