"""`torch.utils.data.dataloader`: the iterator of loaders that packages write themselves."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Generic, Protocol, Self, TypeVar

__all__ = ["_DatasetKind", "_SingleProcessDataLoaderIter"]

T = TypeVar("T")


class _DatasetKind:
    """What a loader reads: a dataset by indices, or one that is iterated."""

    Map = 0
    Iterable = 1


class _Loader(Protocol[T]):
    """What a loader has, by PyTorch's names."""

    dataset: Iterable[object]
    collate_fn: Callable[[object], T]
    _dataset_kind: int
    _auto_collation: bool
    _index_sampler: Iterable[object]


class _SingleProcessDataLoaderIter(Generic[T]):
    """Iterates over the batches of a loader, in the thread that asks for them."""

    def __init__(self, loader: _Loader[T]) -> None:
        self._loader = loader
        self._indices = iter(loader._index_sampler)
        self._samples = iter(loader.dataset) if loader._dataset_kind == _DatasetKind.Iterable else None

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> T:
        return self._loader.collate_fn(self._sample(next(self._indices)))

    def _sample(self, index: object) -> object:
        """One sample, or the list of those of a batch."""
        if not self._loader._auto_collation:
            return self._one(index)
        assert isinstance(index, Iterable), "a sampler of batches gives lists of indices"
        return [self._one(one) for one in index]

    def _one(self, index: object) -> object:
        if isinstance(self._samples, Iterator):
            return next(self._samples)
        dataset: object = self._loader.dataset
        return dataset[index]  # pyright: ignore[reportIndexIssue] - a dataset of another library
