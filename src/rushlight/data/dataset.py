"""Datasets: samples by index or by iteration, and ways to combine them."""

from __future__ import annotations

import bisect
import itertools
import math
from collections.abc import Iterable, Iterator, Sequence, Sized
from typing import Any, Generic, Protocol, TypeVar, cast

from rushlight.data.permutation import permutation
from rushlight.eager.boundary import Constructed
from rushlight.eager.tensor import Tensor
from rushlight.runtime.generator import Generator, default_generator
from rushlight.support.errors import fail, require, warn

T = TypeVar("T", covariant=True)
S = TypeVar("S")


class Dataset(Constructed, Generic[T]):
    """Samples by index. Subclasses define `__getitem__` and, for most samplers, `__len__`."""

    def __getitem__(self, index: Any) -> T:
        fail("A006", f"{type(self).__name__}: a Dataset defines __getitem__")

    def __add__(self, other: Dataset[S]) -> ConcatDataset[T | S]:
        return ConcatDataset([self, other])


class IterableDataset(Dataset[T]):
    """Samples in the order in which `__iter__` yields them.

    Each worker of a DataLoader iterates over the dataset on its own: divide the samples by `get_worker_info()`.
    """

    def __iter__(self) -> Iterator[T]:
        fail("A006", f"{type(self).__name__}: an IterableDataset defines __iter__")

    def __add__(self, other: Dataset[S]) -> Any:
        return ChainDataset([self, other])


class TensorDataset(Dataset[tuple[Tensor, ...]]):
    """Rows of tensors of equal first size: sample i is `(a[i], b[i], ...)`."""

    tensors: tuple[Tensor, ...]

    def __init__(self, *tensors: Tensor) -> None:
        require(bool(tensors), "A003", "TensorDataset: takes at least one tensor")
        sizes = [len(tensor) for tensor in tensors]
        require(len(set(sizes)) == 1, "S014", "TensorDataset: tensors differ in their first size", sizes=sizes)
        self.tensors = tensors

    def __getitem__(self, index: object) -> tuple[Tensor, ...]:
        return tuple([tensor[index] for tensor in self.tensors])

    def __len__(self) -> int:
        return len(self.tensors[0])


class Indexable(Protocol):
    """A dataset of known length, or a list."""

    def __getitem__(self, index: Any, /) -> object: ...
    def __len__(self) -> int: ...


class StackDataset(Dataset[Any]):
    """Samples of several datasets side by side: tuples of positional datasets, dicts of named ones."""

    datasets: tuple[Indexable, ...] | dict[str, Indexable]

    def __init__(self, *args: Indexable, **kwargs: Indexable) -> None:
        require(bool(args) != bool(kwargs), "A002", "StackDataset: takes datasets either by position or by name")
        self.datasets = kwargs or args
        sizes = [len(dataset) for dataset in (kwargs.values() or args)]
        require(len(set(sizes)) == 1, "A002", "StackDataset: datasets differ in length", lengths=sizes)
        self._length = sizes[0]

    def __getitem__(self, index: object) -> Any:
        if isinstance(self.datasets, dict):
            return {name: dataset[index] for name, dataset in self.datasets.items()}
        return tuple([dataset[index] for dataset in self.datasets])

    def __getitems__(self, indices: Sequence[object]) -> list[Any]:
        """Samples of several indices, asked of each dataset at once where it can."""
        if isinstance(self.datasets, dict):
            columns = [_samples(dataset, indices) for dataset in self.datasets.values()]
            return [dict(zip(self.datasets, row, strict=True)) for row in zip(*columns, strict=True)]
        return list(zip(*[_samples(dataset, indices) for dataset in self.datasets], strict=True))

    def __len__(self) -> int:
        return self._length


def _samples(dataset: Indexable, indices: Sequence[object]) -> list[Any]:
    several = getattr(dataset, "__getitems__", None)
    found = [dataset[index] for index in indices] if several is None else several(indices)
    fits = len(found) == len(indices)
    require(
        fits, "A002", "StackDataset: a dataset gives other numbers of samples", given=len(found), wanted=len(indices)
    )
    return list(found)


class ConcatDataset(Dataset[T]):
    """Datasets one after the other."""

    datasets: list[Dataset[T]]
    cumulative_sizes: list[int]

    def __init__(self, datasets: Iterable[Dataset[T]]) -> None:
        self.datasets = list(datasets)
        require(bool(self.datasets), "A002", "ConcatDataset: takes at least one dataset")
        iterable = any(isinstance(dataset, IterableDataset) for dataset in self.datasets)
        require(not iterable, "A002", "ConcatDataset: cannot index an IterableDataset", hint="use ChainDataset")
        self.cumulative_sizes = list(itertools.accumulate([len(cast(Sized, dataset)) for dataset in self.datasets]))

    def __len__(self) -> int:
        return self.cumulative_sizes[-1]

    def __getitem__(self, index: int) -> T:
        length = len(self)
        at = index + length if index < 0 else index
        require(0 <= at < length, "I001", f"ConcatDataset: index {index} is out of range for {length} samples")
        which = bisect.bisect_right(self.cumulative_sizes, at)
        return self.datasets[which][at - (self.cumulative_sizes[which - 1] if which else 0)]


class ChainDataset(IterableDataset[T]):
    """IterableDatasets one after the other."""

    def __init__(self, datasets: Iterable[Dataset[T]]) -> None:
        self.datasets = datasets

    def __iter__(self) -> Iterator[T]:
        for dataset in self.datasets:
            if not isinstance(dataset, IterableDataset):
                fail("A001", f"ChainDataset: takes IterableDatasets, not {type(dataset).__name__}")
            yield from dataset

    def __len__(self) -> int:
        return sum([len(cast(Sized, dataset)) for dataset in self.datasets])


class Subset(Dataset[T]):
    """The samples of a dataset at some indices."""

    dataset: Dataset[T]
    indices: Sequence[int]

    def __init__(self, dataset: Dataset[T], indices: Sequence[int]) -> None:
        self.dataset = dataset
        self.indices = indices

    def __getitem__(self, index: int | list[int]) -> T:
        if isinstance(index, list):
            return self.dataset[[self.indices[one] for one in index]]
        return self.dataset[self.indices[index]]

    def __getitems__(self, indices: list[int]) -> list[T]:
        """Return several samples, by one call of the dataset where it can."""
        chosen = [self.indices[index] for index in indices]
        several = getattr(self.dataset, "__getitems__", None)
        return several(chosen) if several else [self.dataset[index] for index in chosen]

    def __len__(self) -> int:
        return len(self.indices)


def random_split(
    dataset: Dataset[T], lengths: Sequence[float], generator: Generator = default_generator
) -> list[Subset[T]]:
    """Split a dataset at random into subsets of the given lengths.

    Lengths that sum to 1 are fractions of the dataset.
    """
    total = len(cast(Sized, dataset))
    sizes = _sizes_of_fractions(total, lengths) if math.isclose(sum(lengths), 1) and sum(lengths) <= 1 else lengths
    require(sum(sizes) == total, "A002", f"random_split: lengths sum to {sum(sizes)}, the dataset has {total} samples")
    order = permutation(total, generator)
    ends = itertools.accumulate([int(size) for size in sizes])
    return [Subset(dataset, order[end - int(size) : end]) for end, size in zip(ends, sizes)]


def _sizes_of_fractions(total: int, fractions: Sequence[float]) -> list[int]:
    """Round sizes down and give the remainder to the first parts, one each, as in PyTorch."""
    wrong = [fraction for fraction in fractions if not 0 <= fraction <= 1]
    require(not wrong, "A002", "random_split: a fraction is not between 0 and 1", fractions=wrong)
    sizes = [math.floor(total * fraction) for fraction in fractions]
    for at in range(total - sum(sizes)):
        sizes[at % len(sizes)] += 1
    for at, size in enumerate(sizes):
        if size == 0:
            warn("A008", f"random_split: part {at} has no samples", key=("random_split", at))
    return sizes
