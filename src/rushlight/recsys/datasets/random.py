"""Random batches: ids, dense numbers and labels without meaning, to try a model out."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

import rushlight as rl
from rushlight import Generator
from rushlight.recsys.datasets.batches import Batch
from rushlight.recsys.sparse import KeyedJaggedTensor
from rushlight.support.errors import fail, require
from rushlight.utils.data import IterableDataset


class RandomRecDataset(IterableDataset[Batch]):
    """Random batches, without end unless `num_batches` says so.

    RandomRecDataset(["user", "words"], batch_size=16, hash_sizes=[1000, 50], ids_per_features=[1, 5])

    Ids of a feature are below its entry of `hash_sizes`, or below `hash_size` (100). An example has as many as
    `ids_per_features` says, or `ids_per_feature` (2), at most; at least as `min_ids_per_features`,
    `min_ids_per_feature` or, without both, `ids_per_feature` says. The first `num_generated_batches` come again and
    again; below 0 each batch is new. Lists with other lengths than `keys` are A002.
    """

    def __init__(
        self,
        keys: Sequence[str],
        batch_size: int,
        hash_size: int | None = None,
        hash_sizes: Sequence[int] | None = None,
        ids_per_feature: int | None = None,
        ids_per_features: Sequence[int] | None = None,
        num_dense: int = 50,
        manual_seed: int | None = None,
        num_batches: int | None = None,
        num_generated_batches: int = 10,
        min_ids_per_feature: int | None = None,
        min_ids_per_features: Sequence[int] | None = None,
    ) -> None:
        super().__init__()
        least = min_ids_per_feature if min_ids_per_feature is not None else ids_per_feature or 0
        self._keys, self._batch_size, self._num_dense = list(keys), batch_size, num_dense
        self._hash_sizes = _each("hash_sizes", hash_sizes, hash_size or 100, keys)
        self._most = _each("ids_per_features", ids_per_features, ids_per_feature or 2, keys)
        self._least = _each("min_ids_per_features", min_ids_per_features, least, keys)
        self._generator: Generator | None = None
        if manual_seed is not None:
            self._generator = Generator()
            self._generator.manual_seed(manual_seed)
        self.num_batches = num_batches
        self._kept = [self._batch() for _ in range(max(num_generated_batches, 0))]
        self._renewed = num_generated_batches < 0

    def __iter__(self) -> Iterator[Batch]:
        endless = iter(self._batch, None) if self._renewed else itertools.cycle(self._kept)
        return itertools.islice(endless, self.num_batches)

    def __len__(self) -> int:
        if self.num_batches is None:
            fail("A001", "RandomRecDataset: batches have no end", hint="set num_batches")
        return self.num_batches

    def _batch(self) -> Batch:
        generator, size = self._generator, (self._batch_size,)
        lengths = [
            rl.randint(least, most + 1, size, dtype=rl.int32, generator=generator)
            for least, most in zip(self._least, self._most, strict=True)
        ]
        values = [
            rl.randint(0, limit, (int(own.sum()),), generator=generator)
            for limit, own in zip(self._hash_sizes, lengths, strict=True)
        ]
        features = KeyedJaggedTensor(self._keys, rl.cat(values), lengths=rl.cat(lengths))
        dense = rl.randn(self._batch_size, self._num_dense, generator=generator)
        return Batch(dense, features, rl.randint(0, 2, size, generator=generator))


def _each(name: str, given: Sequence[int] | None, otherwise: int, keys: Sequence[str]) -> list[int]:
    """One number for each feature."""
    numbers = [otherwise] * len(keys) if given is None else list(given)
    fits = len(numbers) == len(keys)
    require(fits, "A002", f"RandomRecDataset: {name} has one number for each key", given=numbers, keys=list(keys))
    return numbers
