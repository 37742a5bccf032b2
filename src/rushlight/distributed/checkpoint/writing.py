"""Writing a checkpoint: each rank a shard, then one rank the index, by whose renaming all of it appears at once.

Boxes that several ranks hold are written by one of them, so that all write about as many bytes. The shards of the
checkpoint that was there before are removed only after the new index has taken its place.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType

from rushlight.data.atomic_file import write_atomically
from rushlight.data.safetensors_file import safetensors_parts
from rushlight.distributed.checkpoint.flat import Path
from rushlight.distributed.checkpoint.holding import Holding, Part
from rushlight.distributed.checkpoint.index import FILE_NAME, Entry, Index, Piece, read_index, serial_of_shard
from rushlight.distributed.checkpoint.ranks import Ranks
from rushlight.distributed.tensor.layout import count_of, shape_of, starts_of
from rushlight.eager.tensor import Tensor
from rushlight.support.errors import RushlightError, error, fail
from rushlight.support.frozen import frozen


@frozen(eq=False)
class Writing:
    """What is written to a folder: the parts that each rank writes. The same on all ranks.

    `serial` is larger than that of saves before it; `paths` are those of names that lie deeper in the state dict.
    """

    folder: str
    mark: str
    shares: Sequence[Sequence[Part]]
    serial: int = 0
    paths: Mapping[str, Path] = MappingProxyType({})

    def file(self, rank: int) -> str:
        """Return the name of a rank's shard."""
        return f"shard-{self.mark}-{self.serial:016x}-{rank:05}.safetensors"

    def files(self) -> list[str]:
        """Return the names of all shards."""
        return [self.file(rank) for rank, share in enumerate(self.shares) if share]

    def index(self, objects: Mapping[str, object]) -> Index:
        """Return the index of the shards."""
        pieces: dict[str, list[Piece]] = {}
        parts: dict[str, Part] = {}
        for rank, share in enumerate(self.shares):
            for part in share:
                parts.setdefault(part.name, part)
                pieces.setdefault(part.name, [])
                if count_of(part.box):
                    pieces[part.name].append(Piece(self.file(rank), _key(part), part.box))
        entries = {name: _entry(part, pieces[name]) for name, part in sorted(parts.items())}
        return Index(entries, objects, self.serial, self.paths)

    def write_shard(self, rank: int, held: Mapping[str, Sequence[Holding]]) -> None:
        """Write the shard of a rank. P003 where the disk refuses, P006 for a dtype that the format lacks."""
        have = {one.part: one.tensor for parts in held.values() for one in parts}
        tensors: dict[str, Tensor] = {_key(part): have[part] for part in self.shares[rank]}
        if tensors:
            write_atomically(os.path.join(self.folder, self.file(rank)), safetensors_parts(tensors, {}))

    def remove_shard(self, rank: int) -> None:
        """Remove the shard of a rank, after another one has failed."""
        with contextlib.suppress(OSError):
            os.unlink(os.path.join(self.folder, self.file(rank)))

    def commit(self, index: Index) -> None:
        """Make the checkpoint the folder's, and then remove the shards of earlier saves.

        Those of later ones may be under way. Where a later one has its index already, that one stays.
        """
        kept = self.later_index()
        if kept is None:
            write_atomically(os.path.join(self.folder, FILE_NAME), [index.text().encode()])
            kept = index
        names = {*kept.files(), *self.files()} if kept is index else {*kept.files()}
        for name in os.listdir(self.folder):
            serial = serial_of_shard(name)
            if serial is not None and serial <= self.serial and name not in names:
                with contextlib.suppress(OSError):
                    os.unlink(os.path.join(self.folder, name))

    def later_index(self) -> Index | None:
        """Return the index that a later save has written to the folder, if any has."""
        with contextlib.suppress(RushlightError):
            there = read_index(self.folder)
            return there if there.serial > self.serial else None
        return None


@frozen(eq=False)
class Save:
    """One rank's part of a save."""

    ranks: Ranks
    writing: Writing
    held: Mapping[str, Sequence[Holding]]
    objects: Mapping[str, object]
    complete: Callable[[], None]

    def commit(self) -> None:
        """Make the checkpoint the folder's, and let its writer complete it."""
        self.writing.commit(self.writing.index(self.objects))
        self.complete()


def make_folder(folder: str) -> None:
    """Make the folder of a checkpoint where it is missing. P003 where the system refuses."""
    try:
        os.makedirs(folder, exist_ok=True)
    except OSError as cause:
        raise error("P003", f"checkpoint: {folder} cannot be a folder: {cause.strerror}") from cause


def shares_of(held: Sequence[Sequence[Part]]) -> list[list[Part]]:
    """Return what each rank writes, given what each holds: each box once, large ones first, by who has least."""
    holders: dict[Part, list[int]] = {}
    for rank, parts in enumerate(held):
        for part in parts:
            holders.setdefault(part, []).append(rank)
    _check(list(holders))
    shares: list[list[Part]] = [[] for _ in held]
    load = [0] * len(held)
    for part in sorted(holders, key=lambda part: (-part.nbytes, part.name, starts_of(part.box))):
        writer = min(holders[part], key=lambda rank: (load[rank], rank))
        shares[writer].append(part)
        load[writer] += part.nbytes
    return shares


def _check(parts: Sequence[Part]) -> None:
    """Boxes of one tensor are of one tensor, and make up all of it once."""
    first: dict[str, Part] = {}
    covered: dict[str, int] = {}
    for part in parts:
        known = first.setdefault(part.name, part)
        if (known.dtype, known.shape) != (part.dtype, part.shape):
            fail("P006", f"checkpoint: ranks hold different tensors under the name {part.name}", one=known, other=part)
        covered[part.name] = covered.get(part.name, 0) + part.nbytes
    for name, part in first.items():
        if covered[name] != _nbytes(part):
            fail("P006", f"checkpoint: what the ranks hold of {name} does not make up all of it", shape=part.shape)


def _nbytes(part: Part) -> int:
    total = part.dtype.itemsize
    for size in part.shape:
        total *= size
    return total


def _entry(part: Part, pieces: Sequence[Piece]) -> Entry:
    return Entry(part.dtype, part.shape, tuple(sorted(pieces, key=lambda piece: starts_of(piece.box))))


def _key(part: Part) -> str:
    """Return the name of a box in its shard: the tensor's, and where the box begins if that is not all of it."""
    whole = shape_of(part.box) == part.shape
    return part.name if whole else f"{part.name}@{','.join([str(offset) for offset in starts_of(part.box)])}"
