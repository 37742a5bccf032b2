"""Sequences of unequal length as one tensor: packed without padding, or padded to the longest."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from rushlight.eager.boundary import checked
from rushlight.eager.creation import arange, empty_like, full, tensor
from rushlight.eager.functions import stack
from rushlight.eager.symbols import SymBool, check, sym_max
from rushlight.eager.tensor import Tensor
from rushlight.ir.dtype import int64
from rushlight.nn import functional
from rushlight.support.errors import require

__all__ = [
    "PackedSequence",
    "PackedSequence_",
    "invert_permutation",
    "pack_padded_sequence",
    "pack_sequence",
    "pad_packed_sequence",
    "pad_sequence",
    "unpack_sequence",
    "unpad_sequence",
]


class PackedSequence_(NamedTuple):  # noqa: N801 - PyTorch's name
    """The fields of a PackedSequence."""

    data: Tensor
    batch_sizes: Tensor
    sorted_indices: Tensor | None
    unsorted_indices: Tensor | None


class PackedSequence(PackedSequence_):
    """The elements of several sequences, step by step.

    `data` has those of step 0 first, in each step those of longer sequences first. `batch_sizes` says how many
    sequences have each step. `sorted_indices` is the order of the sequences by length, and `unsorted_indices` takes it
    back; both are None where the sequences came sorted.
    """

    __slots__ = ()

    def __new__(
        cls,
        data: Tensor | Sequence[Tensor],
        batch_sizes: Tensor | None = None,
        sorted_indices: Tensor | None = None,
        unsorted_indices: Tensor | None = None,
    ) -> PackedSequence:
        """Take the fields, or data and batch sizes as a pair."""
        if batch_sizes is None:
            pair = isinstance(data, (tuple, list)) and len(data) == 2
            require(pair, "A001", "PackedSequence: takes data and batch_sizes, also as a pair", data=data)
            data, batch_sizes = data[0], data[1]
        if unsorted_indices is None:
            unsorted_indices = invert_permutation(sorted_indices)
        return super().__new__(cls, data, batch_sizes, sorted_indices, unsorted_indices)  # pyright: ignore[reportArgumentType] - data is one tensor here

    def to(self, *args: Any, **kwargs: Any) -> PackedSequence:
        """Convert the data to a dtype or device; the same object where nothing changes."""
        data = self.data.to(*args, **kwargs)
        return self if data is self.data else self._replace(data=data)

    def cpu(self, *args: Any, **kwargs: Any) -> PackedSequence:
        """Move to the CPU."""
        return self.to(*args, **{**kwargs, "device": "cpu"})

    def double(self) -> PackedSequence:
        """Convert to float64."""
        return self._replace(data=self.data.double())

    def float(self) -> PackedSequence:
        """Convert to float32."""
        return self._replace(data=self.data.float())

    def half(self) -> PackedSequence:
        """Convert to float16."""
        return self._replace(data=self.data.half())

    def long(self) -> PackedSequence:
        """Convert to int64."""
        return self._replace(data=self.data.long())

    def int(self) -> PackedSequence:
        """Convert to int32."""
        return self._replace(data=self.data.int())

    def short(self) -> PackedSequence:
        """Convert to int16."""
        return self._replace(data=self.data.short())

    def char(self) -> PackedSequence:
        """Convert to int8."""
        return self._replace(data=self.data.char())

    def byte(self) -> PackedSequence:
        """Convert to uint8."""
        return self._replace(data=self.data.byte())

    @property
    def is_cuda(self) -> bool:
        """False: there is no such device."""
        return False

    def is_pinned(self) -> bool:
        """Return False: no memory is pinned."""
        return False


def cells_of(batch_sizes: Tensor) -> Tensor:
    """Which elements of a padded (length, batch) belong to a sequence, sequences sorted by length: bools."""
    return arange(batch_sizes[0].item()) < batch_sizes.unsqueeze(1)


@checked
def invert_permutation(permutation: Tensor | None) -> Tensor | None:
    """Return the permutation that takes another one back; None for None."""
    if permutation is None:
        return None
    count = arange(permutation.shape[0], dtype=permutation.dtype, device=permutation.device)
    return empty_like(permutation).scatter(0, permutation, count)


@checked
def pack_padded_sequence(
    input: Tensor, lengths: Tensor | Sequence[int], batch_first: bool = False, enforce_sorted: bool = True
) -> PackedSequence:
    """Pack a padded (length, batch, ...), or (batch, length, ...) when `batch_first`.

    Without `enforce_sorted` the sequences are put in order of their lengths first; with it they have to be (A004).
    """
    require(input.ndim >= 2, "I002", "pack_padded_sequence: the input has no dims of length and batch", input=input)
    steps_first = input.transpose(0, 1) if batch_first else input
    longest, batch = steps_first.shape[0], steps_first.shape[1]
    counts = lengths.to(int64) if isinstance(lengths, Tensor) else tensor(list(lengths), dtype=int64)
    fits = counts.ndim == 1 and counts.shape[0] == batch
    require(fits, "S014", f"Expected `len(lengths)` to be equal to batch_size (batch_size={batch})", lengths=counts)
    require(batch != 0, "A004", "Cannot pack empty tensors.")
    indices = None
    if not enforce_sorted:
        counts, indices = counts.sort(descending=True)
        steps_first = steps_first.index_select(1, indices)
    first, last = counts[0].item(), counts[-1].item()
    _require(last > 0, "Length of all samples has to be greater than 0")
    if enforce_sorted:
        rising = (counts[1:] > counts[:-1]).sum().item()
        _require(rising == 0, "`lengths` array must be sorted in decreasing order when `enforce_sorted` is True")
    _require(first <= longest, f"pack_padded_sequence: a length is more than that of the input, {longest}")
    cells = arange(first).unsqueeze(1) < counts
    return PackedSequence(steps_first[:first][cells], cells.sum(1), indices)


def _require(condition: object, message: str) -> None:
    """Raise A004 unless a condition holds; a compiled function checks in each run what only a run tells."""
    if isinstance(condition, SymBool):
        check(condition, message)
    else:
        require(bool(condition), "A004", message)


@checked
def pad_packed_sequence(
    sequence: PackedSequence,
    batch_first: bool = False,
    padding_value: float = 0.0,
    total_length: int | None = None,
) -> tuple[Tensor, Tensor]:
    """Return the sequences in their own order, padded to the longest or `total_length`, and lengths."""
    data, cells = sequence.data, cells_of(sequence.batch_sizes)
    padded = unpacked(data, cells, padding_value)
    if total_length is not None:
        more = total_length - cells.shape[0]
        message = f"Expected total_length to be at least the length of the longest sequence, {cells.shape[0]}"
        require(more >= 0, "A002", message, total_length=total_length)
        padded = functional.pad(padded, (0, 0) * (padded.ndim - 1) + (0, more), value=padding_value)
    lengths = cells.sum(0)
    if sequence.unsorted_indices is not None:
        padded = padded.index_select(1, sequence.unsorted_indices)
        lengths = lengths[sequence.unsorted_indices]
    return (padded.transpose(0, 1) if batch_first else padded), lengths


def unpacked(data: Tensor, cells: Tensor, padding: float = 0.0) -> Tensor:
    """Return packed data as padded (length, batch, ...), sequences sorted by length."""
    padded = full((*cells.shape, *data.shape[1:]), padding, dtype=data.dtype, device=data.device)
    return padded.index_put((cells,), data)


@checked
def pad_sequence(
    sequences: Tensor | Iterable[Tensor],
    batch_first: bool = False,
    padding_value: float = 0.0,
    padding_side: str = "right",
) -> Tensor:
    """Stack tensors (length, ...) of unequal length, padded to the longest: (length, batch, ...)."""
    sides = ("left", "right")
    require(padding_side in sides, "A004", f"Expected padding_side to be one of left or right, but got {padding_side}.")
    listed = list(sequences)
    require(bool(listed), "A004", "received an empty list of sequences")
    require(all(one.ndim for one in listed), "A004", "pad_sequence: a sequence has at least one dim", sequences=listed)
    longest: Any = listed[0].shape[0]
    for one in listed[1:]:
        longest = sym_max(longest, one.shape[0])
    padded: list[Tensor] = []
    for one in listed:
        more = longest - one.shape[0]
        sides_of_first = (more, 0) if padding_side == "left" else (0, more)
        widened = functional.pad(one, (0, 0) * (one.ndim - 1) + sides_of_first, value=padding_value)
        padded.append(widened.to(listed[0].dtype))
    return stack(padded, 0 if batch_first else 1)


@checked
def unpad_sequence(padded_sequences: Tensor, lengths: Tensor, batch_first: bool = False) -> list[Tensor]:
    """Return the sequences of a padded tensor, each of its own length."""
    rows = padded_sequences if batch_first else padded_sequences.transpose(0, 1)
    return [row[:length] for row, length in zip(rows.unbind(0), lengths.tolist(), strict=True)]


@checked
def pack_sequence(sequences: Sequence[Tensor], enforce_sorted: bool = True) -> PackedSequence:
    """Pack tensors (length, ...) of unequal length."""
    lengths = tensor([int(one.shape[0]) for one in sequences], dtype=int64)
    return pack_padded_sequence(pad_sequence(sequences), lengths, enforce_sorted=enforce_sorted)


@checked
def unpack_sequence(packed_sequences: PackedSequence) -> list[Tensor]:
    """Return the sequences of a packed one."""
    padded, lengths = pad_packed_sequence(packed_sequences, batch_first=True)
    return unpad_sequence(padded, lengths, batch_first=True)
