"""Datasets and samplers: what they yield, in which order, and what they refuse."""

from collections import Counter

import pytest

import rushlight as rl
from rushlight.utils import data


class Squares(data.Dataset):
    def __init__(self, length):
        self.length = length

    def __len__(self):
        return self.length

    def __getitem__(self, index):
        if not 0 <= index < self.length:
            raise IndexError(index)
        return index * index


def test_tensor_dataset_gives_rows():
    rows = data.TensorDataset(rl.arange(6).view(3, 2), rl.tensor([7.0, 8.0, 9.0]))
    assert len(rows) == 3
    x, y = rows[1]
    assert x.tolist() == [2, 3] and y.item() == 8
    with pytest.raises(RuntimeError, match="differ in their first size"):
        data.TensorDataset(rl.zeros(3), rl.zeros(4))
    with pytest.raises(TypeError, match="at least one tensor"):
        data.TensorDataset()


def test_datasets_combine():
    both = Squares(3) + Squares(2)
    assert [both[at] for at in range(len(both))] == [0, 1, 4, 0, 1]
    assert both[-1] == 1
    with pytest.raises(IndexError):
        both[5]
    assert [data.Subset(Squares(9), [8, 2])[at] for at in range(2)] == [64, 4]
    assert data.Subset(Squares(9), [8, 2]).__getitems__([1, 0]) == [4, 64]
    assert data.StackDataset(Squares(3), Squares(3))[2] == (4, 4)
    assert data.StackDataset(a=Squares(3))[2] == {"a": 4}
    with pytest.raises(ValueError, match="differ in length"):
        data.StackDataset(Squares(3), Squares(4))
    with pytest.raises(ValueError, match="at least one dataset"):
        data.ConcatDataset([])


def test_iterable_datasets_chain():
    class Letters(data.IterableDataset):
        def __iter__(self):
            return iter("ab")

    assert list(Letters() + Letters()) == ["a", "b", "a", "b"]
    with pytest.raises(ValueError, match="use ChainDataset"):
        data.ConcatDataset([Letters()])
    with pytest.raises(NotImplementedError, match="defines __iter__"):
        iter(data.IterableDataset())
    with pytest.raises(NotImplementedError, match="defines __getitem__"):
        data.Dataset()[0]


def test_random_split_partitions_and_repeats_with_its_seed():
    parts = data.random_split(Squares(10), [3, 7], generator=rl.Generator(4))
    assert [len(part) for part in parts] == [3, 7]
    assert sorted(parts[0].indices + parts[1].indices) == list(range(10))
    again = data.random_split(Squares(10), [3, 7], generator=rl.Generator(4))
    assert again[0].indices == parts[0].indices
    assert [len(part) for part in data.random_split(Squares(10), [0.5, 0.25, 0.25])] == [6, 2, 2]
    with pytest.raises(ValueError, match="lengths sum to 9"):
        data.random_split(Squares(10), [4, 5])


def test_random_sampler_visits_everything_in_another_order_each_time():
    sampler = data.RandomSampler(Squares(100), generator=rl.Generator(1))
    first, second = list(sampler), list(sampler)
    assert sorted(first) == sorted(second) == list(range(100)) and first != second
    assert list(data.RandomSampler(Squares(100), generator=rl.Generator(1))) == first
    assert len(list(data.RandomSampler(Squares(3), num_samples=8))) == 8
    drawn = Counter(data.RandomSampler(Squares(4), replacement=True, num_samples=4000, generator=rl.Generator(2)))
    assert set(drawn) == {0, 1, 2, 3} and all(850 < count < 1150 for count in drawn.values())
    with pytest.raises(ValueError, match="positive integer"):
        data.RandomSampler(Squares(3), num_samples=0)
    with pytest.raises(ValueError, match="no samples"):
        list(data.RandomSampler(Squares(0), num_samples=2))


def test_weighted_sampler_follows_its_weights():
    drawn = Counter(data.WeightedRandomSampler([1, 0, 3], 4000, generator=rl.Generator(3)))
    assert drawn[1] == 0 and 0.7 < drawn[2] / 4000 < 0.8
    alone = list(data.WeightedRandomSampler([1, 0, 3, 2], 3, replacement=False))
    assert sorted(alone) == [0, 2, 3]
    with pytest.raises(ValueError, match="fewer than 3"):
        data.WeightedRandomSampler([1, 0, 3], 3, replacement=False)
    with pytest.raises(ValueError, match="must not be negative"):
        data.WeightedRandomSampler([1, -1], 3)


def test_other_samplers():
    assert list(data.SequentialSampler(Squares(3))) == [0, 1, 2]
    assert sorted(data.SubsetRandomSampler([5, 7, 9])) == [5, 7, 9]
    batches = data.BatchSampler(data.SequentialSampler(Squares(5)), 2, drop_last=False)
    assert list(batches) == [[0, 1], [2, 3], [4]] and len(batches) == 3
    batches = data.BatchSampler(range(5), 2, drop_last=True)
    assert list(batches) == [[0, 1], [2, 3]] and len(batches) == 2
    with pytest.raises(ValueError, match="batch_size should be a positive"):
        data.BatchSampler(range(3), 0, False)


class _AtOnce(Squares):
    def __getitems__(self, indices):
        self.asked = indices
        return [self[index] for index in indices]


def test_stacked_datasets_are_asked_for_several_samples_at_once():
    first = _AtOnce(4)
    assert data.StackDataset(first, Squares(4)).__getitems__([3, 1]) == [(9, 9), (1, 1)] and first.asked == [3, 1]
    assert data.StackDataset(a=first, b=Squares(4)).__getitems__([2]) == [{"a": 4, "b": 4}]
    first.__class__ = type("Short", (_AtOnce,), {"__getitems__": lambda self, indices: []})
    with pytest.raises(ValueError, match="other numbers of samples"):
        data.StackDataset(first, Squares(4)).__getitems__([3, 1])
