"""Indexing: ints, slices, None and ... are views; integer tensors, lists and bool masks gather and scatter.

A uint8 tensor is a mask, as in PyTorch.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np

from rushlight.eager.arguments import flag, integer, is_tensor, required_operand, required_tensor
from rushlight.eager.boundary import checked_methods
from rushlight.eager.creation import tensor as make_tensor
from rushlight.eager.dispatch import called, dispatch
from rushlight.eager.handle import Handle
from rushlight.eager.memory import copied
from rushlight.eager.mutation import COPY, in_place
from rushlight.eager.overloads import ConversionOverloads
from rushlight.eager.symbols import SymInt, wrap_size
from rushlight.eager.tracing.number import TracedNumber
from rushlight.ir.dtype import Kind, bool_, int64, uint8
from rushlight.ops import OPERATORS
from rushlight.ops.dims import same_shape
from rushlight.support.errors import error, fail, require, warn
from rushlight.sym import Size, eq, required

if TYPE_CHECKING:
    from rushlight.eager.tensor import Tensor

_SELECT, _SLICE, _UNSQUEEZE = OPERATORS["select"], OPERATORS["slice"], OPERATORS["unsqueeze"]
_ALIAS = OPERATORS["alias"]
_RESHAPE, _FLATNONZERO = OPERATORS["reshape"], OPERATORS["flatnonzero"]
_INDEX, _INDEX_PUT, _MASKED_FILL = OPERATORS["index"], OPERATORS["index_put"], OPERATORS["masked_fill"]


class Answer(NamedTuple):
    """Who answers where objects of a class index a tensor: `get(tensor, index)` and `put(tensor, index, value)`."""

    get: Callable[[Any, Any], Any]
    put: Callable[[Any, Any, Any], None]


_PLAIN: frozenset[type] = frozenset([int, slice, type(None), type(Ellipsis)])
_WHOLE = slice(None)
_LONGEST_TUPLE = 32  # a list of indices from this length on is one index: PyTorch's rule
ANSWERS: dict[type, Answer] = {}
"""Classes of indices beside Python's and tensors."""


def _answer(index: object) -> Answer | None:
    for part in index if isinstance(index, tuple) else (index,):
        if part.__class__ in ANSWERS:
            return ANSWERS[part.__class__]
    return None


class Selection(NamedTuple):
    """The view that the basic indices make, and the dims of it that tensors index."""

    view: Handle
    dims: tuple[int, ...]
    indices: tuple[Handle, ...]


def _listed(index: object) -> list[object]:
    """The indices. A short list that holds more than numbers is meant as a tuple, as in PyTorch, which warns (A009)."""
    if isinstance(index, list) and len(index) < _LONGEST_TUPLE and any(map(_is_an_index, index)):
        warn("A009", "a list of indices is deprecated", key="list of indices", hint="write tensor[tuple(indices)]")
        return list(index)
    return list(index) if isinstance(index, tuple) else [index]


def _is_an_index(part: object) -> bool:
    """Whether a part of a list is an index of its own, and no element of one."""
    if isinstance(part, TracedNumber):  # a number, although of a tensor's class
        return False
    return part is None or part is Ellipsis or isinstance(part, (slice, Handle, list, tuple, range, np.ndarray))


def _as_tensor(index: Any) -> Tensor:
    """A list or array index as a tensor of integers or bools. Numbers that a trace leaves open stay open."""
    if _holds_open_numbers(index):
        return make_tensor(index)
    try:
        array = np.asarray([int(part) for part in index] if _holds_tensors(index) else index)
    except Exception as cause:
        raise error("I004", "this cannot be an index", index=index) from cause
    if array.size == 0:
        array = array.astype(np.int64)
    if array.dtype.kind not in "iub":
        fail("I004", "this cannot be an index", index=index)
    return copied(array, bool_ if array.dtype.kind == "b" or array.dtype == np.uint8 else int64)


def _as_index(index: Handle) -> Handle:
    """A tensor as an index: one of uint8 is a mask. Errors: I004 for floats and complex numbers."""
    if index.dtype.kind not in (Kind.BOOL, Kind.INT):
        fail("I004", "a tensor index must hold integers or bools", index=index)
    return OPERATORS["to_dtype"](index, bool_) if index.dtype is uint8 else index


def _holds_open_numbers(index: object) -> bool:
    return isinstance(index, (list, tuple)) and any(
        isinstance(part, TracedNumber) or _holds_open_numbers(part) for part in index
    )


def _holds_tensors(index: object) -> bool:
    return isinstance(index, (list, tuple)) and any(isinstance(part, Handle) for part in index)


def dims_taken(index: object) -> int:
    """How many of the tensor's dims an index uses up."""
    if index is None or index is True or index is False:
        return 0
    return index.ndim if isinstance(index, Handle) and index.dtype.kind is Kind.BOOL else 1


def _plain_index(index: Any, ndim: int) -> Sequence[Any] | None:
    """The indices where all are ints, slices and None of Python's own classes, and fit; None for others.

    These are most, and are told by their classes alone. Of dims at the end without an index all is taken.
    """
    parts: tuple[Any, ...] = index if index.__class__ is tuple else (index,)
    if not _PLAIN.issuperset(map(type, parts)):
        return None
    ellipses = parts.count(Ellipsis)
    whole = ndim - len(parts) + parts.count(None) + ellipses
    if whole < 0 or ellipses > 1:
        return None
    if not ellipses:
        return parts
    at = parts.index(Ellipsis)
    return (*parts[:at], *[_WHOLE] * whole, *parts[at + 1 :])


def normal_index(index: object, ndim: int) -> Sequence[Any]:
    """The indices with lists as tensors and the ellipsis written out.

    Errors: I003 if there are too many, I004 for an object that is no index.
    """
    plain = _plain_index(index, ndim)
    if plain is not None:
        return plain
    items: list[Any] = []
    for part in _listed(index):
        if part is None or part is Ellipsis or isinstance(part, (bool, int, slice, SymInt, Handle)):
            items.append(part)
        elif isinstance(part, (list, tuple, range, np.ndarray)):
            items.append(_as_tensor(list(part) if isinstance(part, range) else part))
        elif isinstance(part, np.bool_):
            items.append(bool(part))
        elif hasattr(type(part), "__index__"):
            items.append(integer(part))
        else:
            fail("I004", "this cannot be an index", index=part)
    for at, part in enumerate(items):
        if isinstance(part, Handle) and part.dtype is not int64:
            items[at] = _as_index(part)
    taken = sum([dims_taken(part) for part in items if part is not Ellipsis])
    require(taken <= ndim, "I003", f"{taken} indices for a tensor of {ndim} dims")
    places = [at for at, part in enumerate(items) if part is Ellipsis]
    require(len(places) <= 1, "I004", "an index can have only one ellipsis")
    at = places[0] if places else len(items)
    return [*items[:at], *[slice(None)] * (ndim - taken), *items[at + 1 :]]


def _is_place(index: object) -> bool:
    """Whether an index is one integer: an int, or a tensor of one with data and without dims."""
    if isinstance(index, TracedNumber):
        return index.is_integer
    if isinstance(index, Handle):
        return index.ndim == 0 and index.dtype.kind is Kind.INT and index.backing is not None
    return isinstance(index, (int, SymInt)) and not isinstance(index, bool)


def select(tensor: Handle, index: object) -> Selection:
    """Applies the basic indices as views and collects the others."""
    result = tensor
    dim = 0
    dims: list[int] = []
    indices: list[Handle] = []
    for part in normal_index(index, len(tensor.form.shape)):
        if part.__class__ is int or _is_place(part):
            result = dispatch(_SELECT, (result,), {"dim": dim, "index": integer(part)})
        elif isinstance(part, slice):
            if not (part.start is None and part.stop is None and part.step is None):
                result = _sliced(result, dim, part)
            dim += 1
        elif part is None:
            result = dispatch(_UNSQUEEZE, (result,), {"dim": dim})
            dim += 1
        elif isinstance(part, bool):
            result = dispatch(_UNSQUEEZE, (result,), {"dim": dim})
            dims.append(dim)
            indices.append(copied(np.zeros(1 if part else 0, np.int64), int64))
            dim += 1
        else:
            if part.dtype.kind is Kind.BOOL and part.ndim == 0:  # a mask over a new dim of size 1
                result = dispatch(_UNSQUEEZE, (result,), {"dim": dim})
                part = dispatch(_UNSQUEEZE, (part,), {"dim": 0})
            dims.append(dim)
            indices.append(part)
            dim += part.ndim if part.dtype.kind is Kind.BOOL else 1
    return Selection(result, tuple(dims), tuple(indices))


def _sliced(tensor: Handle, dim: int, slice_: slice) -> Tensor:
    step = 1 if slice_.step is None else integer(slice_.step)
    if isinstance(step, int) and step <= 0:
        fail("I008", "a slice's step must be positive", step=step)
    attrs = {"dim": dim, "start": _bound(slice_.start), "end": _bound(slice_.stop), "step": step}
    return dispatch(_SLICE, (tensor,), attrs)


def _bound(value: object) -> Any:
    """Where a slice begins or ends: it takes a bool as the int that it is, as in Python and PyTorch."""
    if value is None or value.__class__ is int:  # without a call, as most are
        return value
    return int(value is True) if value.__class__ is bool else integer(value)


def _places(selection: Selection) -> tuple[tuple[int, ...], tuple[Handle, ...]]:
    """Integer tensors and their dims; a bool mask becomes one integer tensor per dim that it covers."""
    dims: list[int] = []
    indices: list[Handle] = []
    for dim, index in zip(selection.dims, selection.indices, strict=True):
        if index.dtype.kind is not Kind.BOOL:
            dims.append(dim)
            indices.append(index)
            continue
        _require_fit(selection.view, dim, index)
        for offset, positions in enumerate(nonzero_places(index)):
            dims.append(dim + offset)
            indices.append(positions)
    return tuple(dims), tuple(indices)


def _require_fit(view: Handle, dim: int, mask: Handle) -> None:
    """I005 unless a bool mask has the sizes of the dims from `dim` on, which it covers."""
    fits = same_shape(view.form.shape[dim : dim + mask.ndim], mask.form.shape)
    require(fits, "I005", "a mask does not fit what it selects from", mask=mask)


def nonzero_places(mask: Handle) -> list[Tensor]:
    """For each dim the indices of the elements that are true, in row-major order, as int64 tensors."""
    places = _FLATNONZERO(_RESHAPE(mask, (-1,)))
    indices: list[Tensor] = []
    for size in mask.form.shape[:0:-1]:
        outer = places // wrap_size(size)
        indices.append(places - outer * wrap_size(size))
        places = outer
    return [places, *reversed(indices)]


def get(tensor: Handle, index: object) -> Any:
    """`tensor[index]`."""
    if index.__class__ is int and tensor.form.shape:  # by far the most frequent, and one view whatever else holds
        return dispatch(_SELECT, (tensor,), {"dim": 0, "index": index})
    answer = _answer(index) if ANSWERS else None
    if answer is not None:
        return answer.get(tensor, index)
    selection = select(tensor, index)
    if not selection.dims:
        return dispatch(_ALIAS, (tensor,), {}) if selection.view is tensor else selection.view
    dims, indices = _places(selection)
    return dispatch(_INDEX, (selection.view, indices), {"dims": dims})


def put(tensor: Handle, index: object, value: object) -> None:
    """`tensor[index] = value`."""
    answer = _answer(index) if ANSWERS else None
    if answer is not None:
        answer.put(tensor, index, value)
        return
    if not isinstance(value, Handle) and isinstance(value, (list, tuple, np.ndarray)):
        value = make_tensor(value, dtype=tensor.dtype)
    value = required_operand(value)
    selection = select(tensor, index)
    view = selection.view
    if not selection.dims:
        dispatch(COPY, (view, _squeezed(value, view.ndim)), {})
        return
    if len(selection.dims) == 1 and _is_mask_fill(selection.indices[0], value):
        mask = selection.indices[0]
        _require_fit(view, selection.dims[0], mask)
        for _ in range(view.ndim - selection.dims[0] - mask.ndim):
            mask = dispatch(_UNSQUEEZE, (mask,), {"dim": -1})
        dispatch(in_place(_MASKED_FILL), (view, mask, value), {})
        return
    dims, indices = _places(selection)
    if is_tensor(value) and value.dtype is not view.dtype:
        value = OPERATORS["to_dtype"](value, view.dtype)
    value = _squeezed(value, view.ndim - len(dims) + max([index.ndim for index in indices]))
    write_at(view, dims, indices, value)


def put_at(tensor: Handle, indices: object, values: object, accumulate: bool) -> None:
    """`tensor[indices] = values`, or `+=`, where values at repeated indices add up.

    None among the indices selects a whole dim. Errors: D002 for values of another dtype, and those of an assignment.
    """
    if not isinstance(indices, (tuple, list)):
        fail("A001", "indices are expected as a tuple", indices=indices)
    source = required_tensor(values)
    require(source.dtype is tensor.dtype, "D002", "the values have another dtype", values=source, input=tensor)
    selection = select(tensor, tuple([slice(None) if index is None else required_tensor(index) for index in indices]))
    if not selection.dims:
        in_place(OPERATORS["add"])(selection.view, source) if accumulate else dispatch(
            COPY, (selection.view, source), {}
        )
        return
    dims, positions = _places(selection)
    write_at(selection.view, dims, positions, source, accumulate=accumulate)


def write_at(
    target: Handle,
    dims: tuple[int, ...],
    places: tuple[Handle, ...],
    values: object,
    *,
    accumulate: bool = False,
    ascending: bool = False,
) -> Any:
    """Write values at places of dims, or add them; the target. `ascending`: each place is above the one before."""
    attrs = {"dims": dims, "accumulate": accumulate, "ascending": ascending}
    return dispatch(in_place(_INDEX_PUT), (target, places, values), attrs)


def _is_mask_fill(index: Handle, value: object) -> bool:
    single = not isinstance(value, Handle) or value.ndim == 0
    return single and index.dtype.kind is Kind.BOOL


def _squeezed(value: object, ndim: int) -> Any:
    """A value without leading dims of size 1 that its target of `ndim` dims lacks."""
    while isinstance(value, Handle) and value.ndim > ndim and is_extra(value.form.shape[0]):
        value = dispatch(_SELECT, (value,), {"dim": 0, "index": 0})
    return value


def is_extra(size: Size) -> bool:
    """Whether a leading dim, which the target lacks, may be dropped."""
    return required(eq(size, 1))


@checked_methods
class IndexMethods(ConversionOverloads):
    """Writing at places by a method."""

    __slots__ = ()

    def index_put_(self, indices: object, values: object, accumulate: object = False) -> Self:
        """Writes values at the positions that index tensors name, as an assignment does, or adds them.

        Where a position is repeated, all its values are added. None among the indices selects a whole dim. Errors: D002
        for values of another dtype; I001 to I005, I009.
        """
        with called("index_put_"):
            put_at(self, indices, values, flag(accumulate))
        return self

    def index_put(self, indices: object, values: object, accumulate: object = False) -> Tensor:
        """A copy with values written at, or added to, the places of index tensors, as `index_put_` does."""
        with called("index_put"):
            return self.clone().index_put_(indices, values, accumulate)
