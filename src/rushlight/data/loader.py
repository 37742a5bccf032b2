"""DataLoader: batches of a dataset, in the loop's own thread or prefetched by worker threads."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence, Sized
from typing import Any, Generic, TypeVar, cast

from rushlight.data.collate import default_collate, default_convert
from rushlight.data.dataset import Dataset, IterableDataset
from rushlight.data.sampler import BatchSampler, RandomSampler, Sampler, SequentialSampler
from rushlight.data.worker import Fetch, Worker, WorkerInfo
from rushlight.eager.boundary import checked
from rushlight.runtime.generator import Generator, default_generator
from rushlight.support.errors import fail, require

T = TypeVar("T", covariant=True)
_END: Any = object()  # a worker's iterable dataset has no more samples
_ENDLESS = itertools.repeat(None)  # "the next batch", the only task of an iterable dataset
_FIXED = frozenset(["batch_size", "batch_sampler", "sampler", "drop_last", "dataset", "persistent_workers"])


class DataLoader(Generic[T]):
    """Iterates over batches of a dataset.

    `num_workers` threads load ahead, `prefetch_factor` batches each (2 unless given); the order of batches does not
    depend on them, and an error in a worker is raised where its batch would have come. `pin_memory` has no effect on
    the CPU; `persistent_workers` neither: threads cost next to nothing to start.
    """

    @checked
    def __init__(
        self,
        dataset: Dataset[T],
        batch_size: int | None = 1,
        shuffle: bool | None = None,
        sampler: Sampler[object] | Iterable[object] | None = None,
        batch_sampler: Sampler[Sequence[object]] | Iterable[Sequence[object]] | None = None,
        num_workers: int = 0,
        collate_fn: Callable[[list[Any]], object] | None = None,
        pin_memory: bool = False,
        drop_last: bool = False,
        timeout: float = 0,
        worker_init_fn: Callable[[int], None] | None = None,
        multiprocessing_context: object = None,
        generator: Generator | None = None,
        *,
        prefetch_factor: int | None = None,
        persistent_workers: bool = False,
        pin_memory_device: str = "",
        in_order: bool = True,
    ) -> None:
        require(num_workers >= 0, "A002", f"DataLoader: num_workers should not be negative, not {num_workers}")
        require(timeout >= 0, "A002", f"DataLoader: timeout should not be negative, not {timeout}")
        ahead = prefetch_factor is None or (num_workers > 0 and prefetch_factor > 0)
        require(ahead, "A002", "DataLoader: prefetch_factor is positive, and needs num_workers > 0")
        lasting = num_workers > 0 or not persistent_workers
        require(lasting, "A002", "DataLoader: persistent_workers needs num_workers > 0")
        if multiprocessing_context is not None:
            fail("A006", "DataLoader: workers are threads, so there is no multiprocessing_context", hint="leave it out")
        self.dataset: Any = dataset
        self.num_workers = num_workers
        self.prefetch_factor = 2 if prefetch_factor is None and num_workers else prefetch_factor
        self.pin_memory = pin_memory
        self.pin_memory_device = pin_memory_device
        self.persistent_workers = persistent_workers
        self.in_order = in_order
        self.timeout = timeout
        self.worker_init_fn = worker_init_fn
        self.multiprocessing_context = None  # workers are threads
        self.generator = generator
        self._choose_order(batch_size, shuffle, sampler, batch_sampler, drop_last)
        self.collate_fn = collate_fn or (default_convert if self.batch_sampler is None else default_collate)
        if self.is_iterable:
            self.collate_fn = collate_fn or (default_convert if batch_size is None else default_collate)
        self._is_made = True

    def __setattr__(self, name: str, value: object) -> None:
        changeable = not (name in _FIXED and vars(self).get("_is_made"))
        require(changeable, "A002", f"DataLoader: {name} cannot be set after it was made", hint="make another loader")
        object.__setattr__(self, name, value)

    @property
    def is_iterable(self) -> bool:
        """Whether the dataset is iterated over rather than indexed."""
        return isinstance(self.dataset, IterableDataset)

    def _choose_order(
        self,
        batch_size: int | None,
        shuffle: bool | None,
        sampler: Iterable[object] | None,
        batch_sampler: Iterable[Sequence[object]] | None,
        drop_last: bool,
    ) -> None:
        alone = batch_sampler is None or (batch_size == 1 and not shuffle and sampler is None and not drop_last)
        require(
            alone,
            "A002",
            "DataLoader: batch_sampler excludes batch_size, shuffle, sampler and drop_last",
        )
        require(sampler is None or not shuffle, "A002", "DataLoader: sampler and shuffle exclude each other")
        require(
            batch_size is not None or not drop_last or batch_sampler is not None,
            "A002",
            "DataLoader: without batch_size there is no drop_last",
        )
        if self.is_iterable:
            plain = sampler is None and batch_sampler is None and not shuffle
            require(plain, "A002", "DataLoader: an IterableDataset has an order of its own: no sampler, no shuffle")
            if batch_size is not None:
                BatchSampler((), batch_size, drop_last)  # for its checks
        elif sampler is None and batch_sampler is None:
            sampler = (
                RandomSampler(self.dataset, generator=self.generator) if shuffle else SequentialSampler(self.dataset)
            )
        if batch_sampler is not None:
            batch_size, sampler = None, getattr(batch_sampler, "sampler", None)
        elif batch_size is not None and sampler is not None:
            batch_sampler = BatchSampler(sampler, batch_size, drop_last)
        self.batch_size = batch_size
        self.drop_last = drop_last
        self.sampler = sampler
        self.batch_sampler = batch_sampler

    def __iter__(self) -> Iterator[Any]:
        if self.num_workers == 0:
            return _batches(self)
        return _Prefetching(self)

    def __len__(self) -> int:
        if self.is_iterable:
            count = len(self.dataset)
            if self.batch_size is None:
                return count
            return count // self.batch_size if self.drop_last else -(-count // self.batch_size)
        return len(cast(Sized, self._order()))

    def _order(self) -> Iterable[object]:
        order = self.sampler if self.batch_sampler is None else self.batch_sampler
        assert order is not None
        return order

    def tasks(self) -> Iterator[object]:
        """Yield one task a batch: a list of indices, an index, or None for the next samples in turn."""
        if self.is_iterable:
            return _ENDLESS
        return iter(self._order())

    def fetcher(self) -> Fetch:
        """Return the function that makes a batch of a task.

        For an iterable dataset the function returns `_END` when no batch is left.
        """
        if self.is_iterable:
            return _from_iterable(self)
        if self.batch_sampler is None:
            return lambda index: self.collate_fn(self.dataset[index])
        several = getattr(self.dataset, "__getitems__", None)
        if several is not None:
            return lambda indices: self.collate_fn(several(indices))
        return lambda indices: self.collate_fn([self.dataset[index] for index in indices])


def _from_iterable(loader: DataLoader[object]) -> Fetch:
    samples = iter(loader.dataset)
    size = loader.batch_size

    def fetch(_: object) -> object:
        if size is None:
            sample = next(samples, _END)
            return _END if sample is _END else loader.collate_fn(sample)
        batch = list(itertools.islice(samples, size))
        short = loader.drop_last and len(batch) < size
        return _END if short or not batch else loader.collate_fn(batch)

    return fetch


def _batches(loader: DataLoader[object]) -> Iterator[object]:
    fetch = loader.fetcher()
    for task in loader.tasks():
        batch = fetch(task)
        if batch is _END:
            return
        yield batch


class _Prefetching(Iterator[object]):
    """One iteration with workers. Workers take turns; one whose iterable dataset has ended leaves the round."""

    def __init__(self, loader: DataLoader[object]) -> None:
        # Looked at, not drawn from: the order of samples must not depend on whether there are workers.
        seed, ordinal = (loader.generator or default_generator).position()
        self._tasks = loader.tasks()
        self._timeout = loader.timeout
        self._workers = [
            Worker(
                WorkerInfo(index, loader.num_workers, (seed + ordinal + index) % 2**63, loader.dataset),
                _starter(loader, index),
                owner=self,
            )
            for index in range(loader.num_workers)
        ]
        self._round = list(self._workers)
        self._turn = 0
        self._waiting = dict.fromkeys(self._workers, 0)
        for _ in range(cast(int, loader.prefetch_factor)):
            for worker in self._workers:
                self._submit(worker)

    def __next__(self) -> object:
        while self._round:
            worker = self._round[self._turn]
            if not self._waiting[worker]:
                break
            self._waiting[worker] -= 1
            turn = self._turn
            self._turn = (turn + 1) % len(self._round)
            self._submit(worker)
            batch = worker.receive(self._timeout)
            if batch is not _END:
                return batch
            self._round.remove(worker)
            self._turn = turn % max(len(self._round), 1)
        for worker in self._workers:
            worker.stop()
        raise StopIteration

    def _submit(self, worker: Worker) -> None:
        task = next(self._tasks, _END)
        if task is not _END:
            worker.submit(task)
            self._waiting[worker] += 1


def _starter(loader: DataLoader[object], index: int) -> Callable[[], Fetch]:
    def start() -> Fetch:
        if loader.worker_init_fn is not None:
            loader.worker_init_fn(index)
        return loader.fetcher()

    return start
