"""Samplers: in which order, and in which batches, a DataLoader visits a dataset's indices."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence, Sized
from typing import Any, Generic, TypeVar, cast

import numpy as np

from rushlight.data.permutation import (
    as_fractions,
    permutation,
    random_chunks,
    random_fractions,
    random_indices,
)
from rushlight.eager.boundary import Constructed
from rushlight.ir.process_group import default
from rushlight.runtime.generator import Generator
from rushlight.support.errors import fail, require

T = TypeVar("T", covariant=True)


class Sampler(Constructed, Generic[T]):
    """An order of indices, or of lists of indices.

    Subclasses define `__iter__`, and `__len__` where the length is known.
    """

    def __iter__(self) -> Iterator[T]:
        fail("A006", f"{type(self).__name__}: a Sampler defines __iter__")


class SequentialSampler(Sampler[int]):
    """0, 1, 2, ..."""

    def __init__(self, data_source: Sized) -> None:
        self.data_source = data_source

    def __iter__(self) -> Iterator[int]:
        return iter(range(len(self.data_source)))

    def __len__(self) -> int:
        return len(self.data_source)


class RandomSampler(Sampler[int]):
    """A random order, another one each time; with `replacement`, independent draws."""

    def __init__(
        self,
        data_source: Sized,
        replacement: bool = False,
        num_samples: int | None = None,
        generator: Generator | None = None,
    ) -> None:
        valid = num_samples is None or (isinstance(num_samples, int) and num_samples > 0)
        require(valid, "A002", f"RandomSampler: num_samples should be a positive integer, not {num_samples}")
        require(
            isinstance(replacement, bool), "A001", f"RandomSampler: replacement should be a bool, not {replacement!r}"
        )
        self.data_source = data_source
        self.replacement = replacement
        self.generator = generator
        self._num_samples = num_samples

    @property
    def num_samples(self) -> int:
        """How many indices one iteration yields; the dataset's length unless given."""
        return len(self.data_source) if self._num_samples is None else self._num_samples

    def __iter__(self) -> Iterator[int]:
        total = len(self.data_source)
        if self.replacement:
            require(total > 0, "A002", "RandomSampler: the dataset has no samples")
            yield from random_indices(self.num_samples, total, self.generator)
            return
        require(total > 0 or self.num_samples == 0, "A002", "RandomSampler: the dataset has no samples")
        rounds = -(-self.num_samples // max(total, 1))
        orders = (permutation(total, self.generator) for _ in range(rounds))
        yield from itertools.islice(itertools.chain.from_iterable(orders), self.num_samples)

    def __len__(self) -> int:
        return self.num_samples


class SubsetRandomSampler(Sampler[int]):
    """Some indices in a random order."""

    def __init__(self, indices: Sequence[int], generator: Generator | None = None) -> None:
        self.indices = indices
        self.generator = generator

    def __iter__(self) -> Iterator[int]:
        return (self.indices[at] for at in permutation(len(self.indices), self.generator))

    def __len__(self) -> int:
        return len(self.indices)


class WeightedRandomSampler(Sampler[int]):
    """Indices drawn with the given weights, which need not sum to 1."""

    def __init__(
        self, weights: Sequence[float], num_samples: int, replacement: bool = True, generator: Generator | None = None
    ) -> None:
        require(num_samples > 0, "A002", f"WeightedRandomSampler: num_samples should be positive, not {num_samples}")
        self.weights = np.asarray([float(weight) for weight in weights])
        usable = bool(np.all(self.weights >= 0)) and float(self.weights.sum()) > 0
        require(usable, "A002", "WeightedRandomSampler: weights must not be negative, and not all be 0")
        enough = replacement or int(np.count_nonzero(self.weights)) >= num_samples
        require(enough, "A002", f"WeightedRandomSampler: fewer than {num_samples} weights are not 0")
        self.num_samples = num_samples
        self.replacement = replacement
        self.generator = generator

    def __iter__(self) -> Iterator[int]:
        if self.replacement:
            bounds = np.cumsum(self.weights)
            last = int(np.flatnonzero(self.weights)[-1])  # a draw may round up to the last bound
            chunks = random_chunks(self.num_samples, self.generator)
            places = (np.searchsorted(bounds, as_fractions(words) * bounds[-1], side="right") for words in chunks)
            return itertools.chain.from_iterable(np.minimum(positions, last).tolist() for positions in places)
        # Exponential clocks (Efraimidis and Spirakis 2006): the first to ring are a draw without replacement.
        with np.errstate(divide="ignore"):
            clocks = -np.log1p(-random_fractions(len(self.weights), self.generator)) / self.weights
        clocks[self.weights == 0] = np.inf
        return iter(np.argsort(clocks, kind="stable")[: self.num_samples].tolist())

    def __len__(self) -> int:
        return self.num_samples


class BatchSampler(Sampler[list[int]]):
    """Batches of another sampler's indices; the last one may be smaller unless `drop_last`."""

    def __init__(self, sampler: Iterable[Any], batch_size: int, drop_last: bool) -> None:
        valid = isinstance(batch_size, int) and not isinstance(batch_size, bool) and batch_size > 0
        require(valid, "A002", f"BatchSampler: batch_size should be a positive integer, not {batch_size}")
        require(isinstance(drop_last, bool), "A002", f"BatchSampler: drop_last should be a bool, not {drop_last}")
        self.sampler = sampler
        self.batch_size = batch_size
        self.drop_last = drop_last

    def __iter__(self) -> Iterator[list[int]]:
        indices = iter(self.sampler)
        while batch := list(itertools.islice(indices, self.batch_size)):
            if len(batch) == self.batch_size or not self.drop_last:
                yield batch

    def __len__(self) -> int:
        count = len(cast(Sized, self.sampler))  # TypeError where the sampler has no length
        return count // self.batch_size if self.drop_last else -(-count // self.batch_size)


class DistributedSampler(Sampler[T]):
    """The part of a dataset that one of several replicas visits: every `num_replicas`-th index, from its `rank` on.

    All replicas draw the same order, from `seed` and the epoch that `set_epoch` gives. Indices from the beginning are
    repeated until all parts are of one length, or with `drop_last` the last ones are left out. Replicas are the
    ranks of the default process group unless they are given; W001 where there is no group to ask.
    """

    def __init__(
        self,
        dataset: Sized,
        num_replicas: int | None = None,
        rank: int | None = None,
        shuffle: bool = True,
        seed: int = 0,
        drop_last: bool = False,
    ) -> None:
        num_replicas = default().size if num_replicas is None else num_replicas
        rank = default().rank if rank is None else rank
        valid = 0 <= rank < num_replicas
        require(valid, "A002", f"DistributedSampler: rank {rank} should lie between 0 and {num_replicas - 1}")
        self.dataset = dataset
        self.num_replicas = num_replicas
        self.rank = rank
        self.epoch = 0
        self.shuffle = shuffle
        self.seed = seed
        self.drop_last = drop_last
        total = len(dataset)
        self.num_samples = total // num_replicas if drop_last else -(-total // num_replicas)
        self.total_size = self.num_samples * num_replicas

    def __iter__(self) -> Iterator[Any]:
        total = len(self.dataset)
        order = permutation(total, Generator(self.seed + self.epoch)) if self.shuffle else range(total)
        indices = list(order)[: self.total_size]
        indices = list(itertools.islice(itertools.cycle(indices), self.total_size))
        return iter(indices[self.rank :: self.num_replicas])

    def __len__(self) -> int:
        return self.num_samples

    def set_epoch(self, epoch: int) -> None:
        """Makes the next iteration's order that of an epoch."""
        self.epoch = epoch
