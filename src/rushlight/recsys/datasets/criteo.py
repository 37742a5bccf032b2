"""Criteo's click logs as arrays of numpy: names of columns, and batches for each rank."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

import rushlight as rl
from rushlight.recsys.datasets.batches import Batch
from rushlight.recsys.sparse import KeyedJaggedTensor
from rushlight.support.errors import require
from rushlight.utils.data import IterableDataset

INT_FEATURE_COUNT = 13
CAT_FEATURE_COUNT = 26
DAYS = 24
DEFAULT_LABEL_NAME = "label"
DEFAULT_INT_NAMES = [f"int_{number}" for number in range(INT_FEATURE_COUNT)]
DEFAULT_CAT_NAMES = [f"cat_{number}" for number in range(CAT_FEATURE_COUNT)]
DEFAULT_COLUMN_NAMES = [DEFAULT_LABEL_NAME, *DEFAULT_INT_NAMES, *DEFAULT_CAT_NAMES]
TOTAL_TRAINING_SAMPLES = 4195197692  # of days 0 to 22 of the log of a terabyte
_STAGES = ("train", "val", "test")

Arrays = tuple[NDArray[np.generic], NDArray[np.generic], NDArray[np.generic]]
"""Dense numbers, ids and labels of the same examples: [examples, columns] each."""


class InMemoryBinaryCriteoIterDataPipe(IterableDataset[Batch]):
    """Batches of files of dense numbers, ids and labels, of which each rank takes every so many-th.

    InMemoryBinaryCriteoIterDataPipe("train", ["dense.npy"], ["sparse.npy"], ["labels.npy"], 1024, rank, ranks)

    The first file's first half is the stage "val", its second half "test". All ranks have as many batches; the last
    ones are smaller by what is missing, or left out with `drop_last`. `hashes` are numbers of rows that ids are taken
    modulo of. `shuffle_training_set` takes examples of all files in one random order, `shuffle_batches` those of a
    batch. With `mmap_mode` files are read as batches need them. Errors: A002 for stages that do not exist, and for
    files whose lengths differ.
    """

    def __init__(
        self,
        stage: str,
        dense_paths: Sequence[str | os.PathLike[str]],
        sparse_paths: Sequence[str | os.PathLike[str]],
        labels_paths: Sequence[str | os.PathLike[str]],
        batch_size: int,
        rank: int,
        world_size: int,
        drop_last: bool | None = False,
        shuffle_batches: bool = False,
        shuffle_training_set: bool = False,
        shuffle_training_set_random_seed: int = 0,
        mmap_mode: bool = False,
        hashes: Sequence[int] | None = None,
    ) -> None:
        require(stage in _STAGES, "A002", "there is no such stage", stage=stage, known=_STAGES)
        self.stage, self.batch_size, self.rank, self.world_size = stage, batch_size, rank, world_size
        self._shuffles = shuffle_batches
        self._random = np.random.RandomState(shuffle_training_set_random_seed)
        self._hashes = None if hashes is None else np.array(hashes).reshape(1, CAT_FEATURE_COUNT)
        mode = "r" if mmap_mode or (shuffle_training_set and stage == "train") else None
        read = [
            [np.load(path, mmap_mode=mode) for path in paths] for paths in (dense_paths, sparse_paths, labels_paths)
        ]
        lengths = [[len(array) for array in of_kind] for of_kind in read]
        same = lengths[0] == lengths[1] == lengths[2]
        require(same, "A002", "files of dense numbers, ids and labels have other lengths", lengths=lengths)
        self._files: list[Arrays] = list(zip(*read, strict=True))
        self._take_stage()
        if shuffle_training_set and stage == "train":
            self._files = [self._shuffled()]
            self.world_size, self.rank = 1, 0
        self._sizes = batch_sizes(sum(len(dense) for dense, *_ in self._files), batch_size, self.world_size, drop_last)

    def _take_stage(self) -> None:
        """Leave of the first file what the stage has."""
        if self.stage != "train":
            first, *others = self._files
            middle = (len(first[0]) + 1) // 2
            own = slice(middle) if self.stage == "val" else slice(middle, None)
            self._files = [(first[0][own], first[1][own], first[2][own]), *others]

    def _shuffled(self) -> Arrays:
        """This rank's part of all examples in a random order."""
        lengths = [len(dense) for dense, *_ in self._files]
        places, total = self._random.permutation(sum(lengths)), sum(lengths)
        bounds = np.cumsum(
            [0] + [total // self.world_size + (rank < total % self.world_size) for rank in self._ranks()]
        )
        low, high = bounds[self.rank], bounds[self.rank + 1]
        made = [np.empty((high - low, one.shape[1]), one.dtype) for one in self._files[0]]
        for arrays, own in zip(self._files, np.split(places, np.cumsum(lengths)[:-1]), strict=True):
            chosen = np.flatnonzero((own >= low) & (own < high))
            for target, array in zip(made, arrays, strict=True):
                target[own[chosen] - low] = array[chosen]
        return made[0], made[1], made[2]

    def _ranks(self) -> range:
        return range(self.world_size)

    def __iter__(self) -> Iterator[Batch]:
        ends = list(itertools.accumulate(self._sizes, initial=0))
        for number in range(self.rank, len(self._sizes), self.world_size):
            yield self._batch(*self._examples(ends[number], ends[number + 1]))

    def __len__(self) -> int:
        return len(self._sizes) // self.world_size

    def _examples(self, low: int, high: int) -> Arrays:
        """Some examples of the files one after another."""
        parts: list[Arrays] = []
        first = 0
        for dense, sparse, labels in self._files:
            own = slice(max(low - first, 0), max(high - first, 0))
            parts.append((dense[own], sparse[own], labels[own]))
            first += len(dense)
        joined = [np.concatenate(list(column)) for column in zip(*parts, strict=True)]
        return joined[0], joined[1], joined[2]

    def _batch(self, dense: NDArray[np.generic], sparse: NDArray[np.generic], labels: NDArray[np.generic]) -> Batch:
        if self._shuffles:
            order = self._random.permutation(len(dense))
            dense, sparse, labels = dense[order], sparse[order], labels[order]
        if self._hashes is not None:
            sparse = sparse % self._hashes
        ids = rl.from_numpy(np.ascontiguousarray(sparse.T).reshape(-1))
        lengths = rl.ones(ids.shape[0], dtype=rl.int32)
        features = KeyedJaggedTensor(DEFAULT_CAT_NAMES, ids, lengths=lengths, stride=len(dense))
        return Batch(rl.from_numpy(dense), features, rl.from_numpy(np.ascontiguousarray(labels).reshape(-1)))


def batch_sizes(total: int, batch_size: int, world_size: int, drop_last: bool | None) -> list[int]:
    """Return the sizes of all ranks' batches in order, as many for each rank.

    batch_sizes(25, 4, 2, False) == [4, 4, 4, 4, 4, 4] + ... : what whole rounds leave is shared among the ranks
    """
    rounds, left = total // batch_size // world_size, total % (world_size * batch_size)
    if drop_last or not left:
        return [batch_size] * (rounds * world_size)
    if left < world_size and rounds:  # too few for all: the last whole round takes them
        rounds, left = rounds - 1, left + world_size * batch_size
    last = [left // world_size + (rank < left % world_size) for rank in range(world_size)]
    return [batch_size] * (rounds * world_size) + last
