"""NestedTensor: members of a batch one after the other, and where each begins."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NoReturn

import rushlight as rl
from rushlight import Tensor
from rushlight.eager.composite.segments import lengths_of, offsets_of, taken_segments
from rushlight.eager.dispatch import STATE
from rushlight.eager.handle import PYTHON, make
from rushlight.eager.storage.formats import StorageLayout, jagged
from rushlight.eager.tensor_meta import Size, form_of
from rushlight.ops.ragged import padded_segments, unpadded_segments
from rushlight.support.errors import fail, require
from rushlight.support.frozen import frozen

_numbers = itertools.count(1)
RULES: dict[str, Callable[..., Any]] = {}
"""What answers a function for nested tensors, by its name: it takes the function, and what that was given."""


class RaggedSize:
    """The size of the dim in which members differ: `j1`. It equals that of tensors with the same offsets alone."""

    __slots__ = ("_number",)

    def __init__(self) -> None:
        self._number = next(_numbers)

    def __repr__(self) -> str:
        return f"j{self._number}"

    def __int__(self) -> NoReturn:
        self._refuse()

    __index__ = __int__

    @staticmethod
    def _refuse() -> NoReturn:
        fail(
            "A006",
            "the members of a nested tensor differ in this size",
            hint="ask x.lengths(), or pad: x.to_padded_tensor(0.0)",
        )


@frozen
class Kind:
    """What graphs know of a nested tensor: its ragged dim, its layout, and whether members have gaps between them."""

    ragged: int
    layout: StorageLayout
    gaps: bool


class NestedTensor(Tensor):
    """A batch whose members differ in one size.

    `values()` has the members one after the other, in the dim before the ragged one; `offsets()` says where each
    begins, and where the last one ends. With `lengths()` members are shorter than that, and there are gaps. Gradients
    are those of the values.
    """

    _values: Tensor
    _offsets: Tensor
    _lengths: Tensor | None
    _kind: Kind

    is_nested = True

    @classmethod
    def __torch_function__(
        cls,
        func: Callable[..., Any],
        types: Iterable[type],
        args: tuple[object, ...] = (),
        kwargs: Mapping[str, object] | None = None,
    ) -> Any:
        """Answer a function by its rule. Errors: A006 where there is none."""
        name = getattr(func, "__name__", str(func))
        name = name[2:-2] if name.startswith("__") else name
        rule = RULES.get(name)
        if rule is None:
            fail("A006", f"{name}: not supported for nested tensors", hint="pad first: x.to_padded_tensor(0.0)")
        return rule(func, *args, **(kwargs or {}))

    @classmethod
    def __torch_dispatch__(
        cls, func: Any, types: Sequence[type], args: Sequence[object] = (), kwargs: object = None
    ) -> NoReturn:
        """Refuse operators that no rule has answered."""
        fail("A006", f"{func.__name__}: not supported for nested tensors", hint="pad first: x.to_padded_tensor(0.0)")

    def __tensor_flatten__(self) -> tuple[list[str], Kind]:
        return ["_values", "_offsets", *(["_lengths"] if self._kind.gaps else [])], self._kind

    @staticmethod
    def __tensor_unflatten__(inner: Mapping[str, Any], kind: Kind, size: object, stride: object) -> NestedTensor:
        return nested(inner["_values"], inner["_offsets"], inner.get("_lengths"), kind.ragged, kind.layout)

    # Sizes.

    @property
    def shape(self) -> Size:
        """The sizes of its dims, of which one is ragged."""
        sizes = list(self._values.shape)
        sizes[self._kind.ragged - 1] = self.ragged_size()
        return Size((self._offsets.shape[0] - 1, *sizes))

    def ragged_size(self) -> RaggedSize:
        """The size of the ragged dim."""
        return vars(self._offsets).setdefault("_ragged_size", RaggedSize())

    def size(self, dim: Any = None) -> Any:
        """Its shape, or one of the sizes."""
        return self.shape if dim is None else self.shape[self.place(dim)]

    def place(self, dim: int) -> int:
        """A dim by its number from the first one. Errors: I002."""
        rank = self.dim()
        if not -rank <= dim < rank:
            fail("I002", f"dim {dim} is out of range for a nested tensor of {rank} dims", tensor=self)
        return dim % rank

    def dim(self) -> int:
        """The number of dims, that of the batch among them."""
        return self._values.ndim + 1

    @property
    def ndim(self) -> int:
        """The number of dims."""
        return self.dim()

    def numel(self) -> Any:
        """The number of elements of all members."""
        return self.packed()._values.numel()

    def __len__(self) -> int:
        return int(self._offsets.shape[0]) - 1

    @property
    def layout(self) -> StorageLayout:
        """`jagged`, or `strided` as it was asked for."""
        return self._kind.layout

    def is_contiguous(self, memory_format: object = None) -> bool:
        """Whether members lie one after the other, in the first dim of the values."""
        return not self._kind.gaps and self._kind.ragged == 1 and self._values.is_contiguous()

    # Parts.

    def values(self) -> Tensor:
        """The members, one after the other."""
        return self._values

    def offsets(self) -> Tensor:
        """Where members begin, and where the last one ends."""
        return self._offsets

    def lengths(self) -> Tensor | None:
        """The lengths of members that have gaps between them; None where offsets say all."""
        return self._lengths

    def extents(self) -> Tensor:
        """The length of each member."""
        return lengths_of(self._offsets) if self._lengths is None else self._lengths

    def packed(self) -> NestedTensor:
        """Itself, or one with the same members without gaps."""
        if self._lengths is None:
            return self
        ends = offsets_of(self._lengths.to(self._offsets.dtype))
        places = taken_segments(self._offsets[:-1], self._lengths, self._lengths.sum().item())
        return nested(
            self._values.index_select(self._kind.ragged - 1, places), ends, None, self._kind.ragged, self.layout
        )

    def like(self, values: Tensor, ragged: int | None = None) -> NestedTensor:
        """Other values in members of the same lengths."""
        return nested(values, self._offsets, self._lengths, ragged or self._kind.ragged, self.layout)

    def rows(self) -> Tensor:
        """The values of packed members with the ragged dim in front."""
        return self._values.movedim(self._kind.ragged - 1, 0)

    def padded(self, padding: float = 0.0, length: Any = None) -> Tensor:
        """All members as one dense tensor, the ragged dim filled up to the longest one."""
        packed = self.packed()
        if length is None:
            extents = packed.extents()
            length = extents.max().item() if len(self) else 0
        filled = padded_segments(packed.rows(), packed._offsets, length, padding)
        return filled.movedim(1, self._kind.ragged)

    def unpadded(self, padded: Tensor) -> NestedTensor:
        """The members of a dense tensor that was made by `padded`, perhaps of other dense sizes."""
        ragged = self._kind.ragged
        rows = unpadded_segments(padded.movedim(ragged, 1), self._offsets, self._values.shape[ragged - 1])
        return nested(rows.movedim(0, ragged - 1), self._offsets, None, ragged, self.layout)

    def reshape(self, *shape: object, **named: object) -> NestedTensor:
        """Other dense sizes; the batch and the ragged dim, given as it is or as -1, stay."""
        return RULES["reshape"](None, self, *shape, **named)

    view = reshape

    def unbind(self, dim: int = 0, *, axis: object = None) -> tuple[Tensor, ...]:
        """The members."""
        require(self.place(dim) == 0, "A006", "unbind: members are those of dim 0", dim=dim)
        packed = self.packed()
        return tuple(packed._values.split(packed.extents().tolist(), self._kind.ragged - 1))

    def to_padded_tensor(self, padding: float, output_size: Sequence[int] | None = None) -> Tensor:
        """All members as one dense tensor, filled up with `padding`, to `output_size` if that is given."""
        padded = self.padded(padding)
        if output_size is None:
            return padded
        wide = [int(size) - own for size, own in zip(output_size, padded.shape, strict=True)]
        require(min(wide) >= 0, "S014", "to_padded_tensor: the output is smaller than the members", size=output_size)
        return rl.nn.functional.pad(padded, [part for more in reversed(wide) for part in (0, more)], value=padding)

    def tolist(self) -> list[object]:
        """The members as lists."""
        return [member.tolist() for member in self.unbind()]

    # Gradients are those of the values.

    @property
    def requires_grad(self) -> bool:
        """Whether gradients of the values are wanted."""
        return bool(self._values.requires_grad)

    @requires_grad.setter
    def requires_grad(self, value: bool) -> None:
        self._values.requires_grad = value

    def requires_grad_(self, requires_grad: bool = True) -> NestedTensor:
        """Ask for gradients of the values."""
        self._values.requires_grad_(requires_grad)
        return self

    @property
    def is_leaf(self) -> bool:
        """Whether its values were made by the user, or require no gradients."""
        return bool(self._values.is_leaf)

    @property
    def grad_fn(self) -> object:
        """The node that made its values, or None."""
        return self._values.grad_fn

    @property
    def grad(self) -> NestedTensor | None:
        """What backward passes have accumulated for the values; None without any."""
        gradient = self._values.grad
        return None if gradient is None else self.like(gradient)

    @grad.setter
    def grad(self, value: Any) -> None:
        self._values.grad = None if value is None else value._values

    @grad.deleter
    def grad(self) -> None:
        self._values.grad = None

    def backward(self, gradient: object = None, *args: Any, **kwargs: Any) -> None:
        """Compute gradients of the values, from a nested gradient."""
        self._values.backward(gradient._values if isinstance(gradient, NestedTensor) else gradient, *args, **kwargs)

    @property
    def data(self) -> NestedTensor:
        """The same members without history."""
        return self.like(self._values.data)

    @data.setter
    def data(self, value: Any) -> None:
        self._values.data = value._values

    def data_ptr(self) -> NoReturn:
        """Refused with A006: values and offsets are in two memories."""
        fail("A006", "a nested tensor is not one memory", hint="ask x.values()")

    untyped_storage = data_ptr

    def __repr__(self, *, tensor_contents: object = None) -> str:
        sizes = ", ".join(map(str, self.shape))
        tail = f", grad_fn=<{type(self.grad_fn).__name__}>" if self.grad_fn is not None else ""
        wanted = ", requires_grad=True" if self.requires_grad and not tail else ""
        return (
            f"NestedTensor(size=({sizes}), offsets={self._offsets!r}, contiguous={not self._kind.gaps}{wanted}{tail})"
        )

    def __reduce_ex__(self, protocol: object) -> tuple[object, ...]:
        parts = self._values, self._offsets, self._lengths, self._kind.ragged, repr(self.layout)
        return rebuilt, parts

    def __deepcopy__(self, memo: dict[int, object]) -> NestedTensor:
        copied: Any = self._values.__deepcopy__(memo)
        return self.like(copied)

    def __copy__(self) -> NestedTensor:
        return self.like(self._values)


def nested(
    values: Tensor, offsets: Tensor, lengths: Tensor | None = None, ragged: int = 1, layout: StorageLayout = jagged
) -> NestedTensor:
    """A nested tensor of parts that fit."""
    shape = (offsets.shape[0] - 1, *values.shape)
    form = form_of(tuple(getattr(size, "expr", size) for size in shape), values.dtype, values.device)
    tensor: NestedTensor = make(None, form, cls=NestedTensor)
    tensor.keys |= PYTHON
    if STATE.tracer is not None:
        STATE.tracer.note_wrapper(tensor)
    tensor._values, tensor._offsets, tensor._lengths = values, offsets, lengths
    tensor._kind = Kind(ragged, layout, lengths is not None)
    return tensor


def rebuilt(values: Tensor, offsets: Tensor, lengths: Tensor | None, ragged: int, layout: str) -> NestedTensor:
    """A nested tensor of what was pickled."""
    return nested(values, offsets, lengths, ragged, jagged if layout == repr(jagged) else rl.strided)
