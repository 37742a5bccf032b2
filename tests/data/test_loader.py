"""DataLoader: batches, order, threads, errors, and that it always ends."""

import gc
import subprocess
import sys
import threading
import time
from collections import namedtuple

import numpy as np
import pytest

import rushlight as rl
from rushlight.utils import data
from rushlight.utils.data import DataLoader


class Numbers(data.Dataset):
    """Samples that take unequal times, so that workers overtake each other."""

    def __init__(self, length, broken=()):
        self.length = length
        self.broken = broken

    def __len__(self):
        return self.length

    def __getitem__(self, index):
        if index in self.broken:
            raise KeyError(f"sample {index}")
        time.sleep(0.002 if index % 3 == 0 else 0)
        return {"x": np.float32(index), "y": index}


class Stream(data.IterableDataset):
    def __init__(self, length):
        self.length = length

    def __iter__(self):
        worker = data.get_worker_info()
        first, step = (0, 1) if worker is None else (worker.id, worker.num_workers)
        return iter(range(first, self.length, step))


def loader_threads():
    return [thread for thread in threading.enumerate() if thread.name.startswith("rushlight-loader")]


def wait_for_threads():
    gc.collect()  # tracebacks of earlier tests may hold an iterator
    deadline = time.monotonic() + 5
    while loader_threads() and time.monotonic() < deadline:
        time.sleep(0.01)
    return loader_threads()


@pytest.mark.parametrize("workers", [0, 1, 3])
def test_batches_come_in_order(workers):
    loader = DataLoader(Numbers(23), batch_size=4, num_workers=workers)
    batches = [batch["y"].tolist() for batch in loader]
    assert batches == [list(range(at, min(at + 4, 23))) for at in range(0, 23, 4)]
    assert len(loader) == 6
    assert len(DataLoader(Numbers(23), batch_size=4, drop_last=True)) == 5
    assert not wait_for_threads()


@pytest.mark.parametrize("workers", [0, 2])
def test_shuffling_repeats_with_its_generator(workers):
    def epochs():
        loader = DataLoader(Numbers(30), 7, shuffle=True, num_workers=workers, generator=rl.Generator(9))
        return [[value for batch in loader for value in batch["y"].tolist()] for _ in range(2)]

    first, second = epochs()
    assert sorted(first) == sorted(second) == list(range(30)) and first != second
    assert epochs() == [first, second]


def test_order_does_not_depend_on_the_number_of_workers():
    def order(workers):
        rl.manual_seed(5)
        loader = DataLoader(Numbers(20), 3, shuffle=True, num_workers=workers)
        return [value for batch in loader for value in batch["y"].tolist()]

    assert sorted(order(0)) == list(range(20)) != order(0)
    assert order(1) == order(4) == order(0)


def test_error_comes_in_its_place_with_the_workers_traceback():
    iterator = iter(DataLoader(Numbers(12, broken=(6,)), batch_size=2, num_workers=2))
    assert [next(iterator)["y"].tolist() for _ in range(3)] == [[0, 1], [2, 3], [4, 5]]
    with pytest.raises(KeyError, match="sample 6") as caught:
        next(iterator)
    assert any(entry.name == "__getitem__" for entry in caught.traceback)
    assert "worker thread 1 of a DataLoader" in caught.value.__notes__[0]
    assert next(iterator)["y"].tolist() == [8, 9], "the batches after it can still be had"


def test_stop_iteration_in_a_dataset_is_not_the_end():
    class Ending(Numbers):
        def __getitem__(self, index):
            raise StopIteration

    for workers in (0, 1):
        with pytest.raises(RuntimeError, match="StopIteration"):
            list(DataLoader(Ending(2), num_workers=workers))


def test_failing_worker_init_is_reported():
    def init(worker):
        raise OSError(f"no seat for {worker}")

    with pytest.raises(OSError, match="no seat for 0"):
        next(iter(DataLoader(Numbers(4), num_workers=2, worker_init_fn=init)))


def test_workers_know_who_they_are():
    seen = {}

    class Asking(Numbers):
        def __getitem__(self, index):
            info = data.get_worker_info()
            seen[index] = (info.id, info.num_workers, info.dataset is self, threading.current_thread().name)
            return index

    assert data.get_worker_info() is None
    started = []
    list(DataLoader(Asking(4), num_workers=2, worker_init_fn=started.append))
    assert sorted(started) == [0, 1]
    assert seen == {at: (at % 2, 2, True, f"rushlight-loader-{at % 2}") for at in range(4)}


def test_timeout_is_a_registered_error():
    class Slow(Numbers):
        def __getitem__(self, index):
            time.sleep(0.5)
            return index

    with pytest.raises(rl.ExecutionError, match="did not answer within"):
        next(iter(DataLoader(Slow(2), num_workers=1, timeout=0.05)))


def test_workers_stop_when_the_iterator_is_dropped():
    assert not wait_for_threads()
    iterator = iter(DataLoader(Numbers(1000), batch_size=1, num_workers=3))
    next(iterator)
    assert len(loader_threads()) == 3
    del iterator
    gc.collect()
    assert not wait_for_threads()


def test_a_blocked_worker_does_not_keep_the_interpreter_alive():
    program = """
import time
from rushlight.utils.data import DataLoader, Dataset

class Blocking(Dataset):
    def __len__(self):
        return 8
    def __getitem__(self, index):
        if index:
            time.sleep(60)
        return index

batches = iter(DataLoader(Blocking(), num_workers=2))
print(next(batches).item(), flush=True)
"""
    begin = time.monotonic()
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=50)
    assert done.returncode == 0 and done.stdout == "0\n", done.stderr
    assert time.monotonic() - begin < 45


@pytest.mark.parametrize("workers", [0, 2, 3])
def test_iterable_datasets_are_read_to_the_end(workers):
    loader = DataLoader(Stream(11), batch_size=2, num_workers=workers)
    assert sorted(value for batch in loader for value in batch.tolist()) == list(range(11))
    whole = DataLoader(Stream(10), batch_size=2, drop_last=True, num_workers=workers)
    assert all(len(batch) == 2 for batch in whole)
    assert list(DataLoader(Stream(3), batch_size=None, num_workers=1)) == [0, 1, 2]


def test_workers_of_an_iterable_dataset_take_turns():
    batches = [batch.tolist() for batch in DataLoader(Stream(10), batch_size=2, num_workers=2)]
    assert batches == [[0, 2], [1, 3], [4, 6], [5, 7], [8], [9]]


def test_samplers_and_batch_samplers_decide_the_order():
    assert [batch["y"].tolist() for batch in DataLoader(Numbers(9), 2, sampler=[4, 2, 0])] == [[4, 2], [0]]
    batches = DataLoader(Numbers(9), batch_sampler=[[1, 2, 3], [8]])
    assert [batch["y"].tolist() for batch in batches] == [[1, 2, 3], [8]] and len(batches) == 2
    single = DataLoader(Numbers(2), batch_size=None)
    assert [sample["y"] for sample in single] == [0, 1] and isinstance(next(iter(single))["x"], rl.Tensor)


def test_datasets_may_fetch_many_at_once():
    class Many(Numbers):
        def __getitems__(self, indices):
            return [{"y": -index} for index in indices]

    assert [batch["y"].tolist() for batch in DataLoader(Many(3), 2)] == [[0, -1], [-2]]


Pair = namedtuple("Pair", "left right")


@pytest.mark.parametrize(
    ("batch", "dtype", "value"),
    [
        ([1, 2], rl.int64, [1, 2]),
        ([1.5, 2.0], rl.float64, [1.5, 2.0]),
        ([True, False], rl.bool, [True, False]),
        ([np.int32(1), np.int32(2)], rl.int32, [1, 2]),
        ([np.ones(2, np.float32), np.zeros(2, np.float32)], rl.float32, [[1, 1], [0, 0]]),
        ([rl.ones(2), rl.zeros(2)], rl.float32, [[1, 1], [0, 0]]),
    ],
)
def test_collate_makes_tensors(batch, dtype, value):
    found = data.default_collate(batch)
    assert found.dtype is dtype and found.tolist() == value


def test_collate_keeps_structure():
    batch = [{"a": (1, "x"), "b": Pair([1.0], rl.zeros(1))}, {"a": (2, "y"), "b": Pair([2.0], rl.ones(1))}]
    found = data.default_collate(batch)
    assert found["a"][0].tolist() == [1, 2] and found["a"][1] == ["x", "y"]
    assert type(found["b"]) is Pair and found["b"].left[0].tolist() == [1, 2]
    assert found["b"].right.tolist() == [[0], [1]]


@pytest.mark.parametrize(
    ("make", "kind", "text"),
    [
        (lambda: data.default_collate([object()]), TypeError, "not object"),
        (lambda: data.default_collate([np.array(["a"])]), TypeError, "cannot become tensors"),
        (lambda: data.default_collate([np.ones(2), np.ones(3)]), RuntimeError, "arrays differ in shape"),
        (lambda: data.default_collate([[1], [1, 2]]), RuntimeError, "samples differ in length"),
        (lambda: DataLoader(Numbers(3), num_workers=-1), ValueError, "num_workers"),
        (lambda: DataLoader(Numbers(3), prefetch_factor=2), ValueError, "prefetch_factor"),
        (lambda: DataLoader(Numbers(3), persistent_workers=True), ValueError, "persistent_workers"),
        (lambda: DataLoader(Numbers(3), sampler=[1], shuffle=True), ValueError, "sampler and shuffle"),
        (lambda: DataLoader(Numbers(3), 2, batch_sampler=[[1]]), ValueError, "batch_sampler excludes"),
        (lambda: DataLoader(Numbers(3), None, drop_last=True), ValueError, "no drop_last"),
        (lambda: DataLoader(Stream(3), shuffle=True), ValueError, "an order of its own"),
        (lambda: DataLoader(Numbers(3), batch_size=0), ValueError, "batch_size should be a positive"),
        (lambda: DataLoader(Numbers(3), multiprocessing_context="fork"), NotImplementedError, "workers are threads"),
        (lambda: data.IterDataPipe, AttributeError, "utils.data"),
    ],
)
def test_mistakes_are_registered_errors(make, kind, text):
    with pytest.raises(kind) as caught:
        make()
    assert isinstance(caught.value, rl.RushlightError)
    assert text in str(caught.value)


def test_what_decides_the_order_is_fixed():
    loader = data.DataLoader([1, 2, 3], batch_size=2)
    for name in ("batch_size", "sampler", "batch_sampler", "drop_last", "dataset"):
        with pytest.raises(ValueError, match=f"{name} cannot be set"):
            setattr(loader, name, None)
    loader.collate_fn = list
    assert list(loader) == [[1, 2], [3]]


def test_random_orders_are_drawn_when_the_first_index_is_asked_for():
    sampler = data.RandomSampler(range(50))
    rl.manual_seed(0)
    iterator = iter(sampler)
    rl.manual_seed(3)
    first = list(iterator)
    rl.manual_seed(3)
    assert list(sampler) == first
    with pytest.raises(TypeError, match="replacement"):
        data.RandomSampler(range(3), replacement=0)


def test_texts_of_arrays_stay_texts():
    texts = np.array(["a", "b"])
    assert data.default_collate(list(texts)) == ["a", "b"]
