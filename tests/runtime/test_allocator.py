"""Storages: alignment, reuse, silent freeing, and refusal of the absurd."""

import gc
import sys
import threading
import time

import numpy as np
import pytest

from rushlight.runtime.allocator import Allocator, Storage
from rushlight.support.errors import ArgumentTypeError, InternalError, OutOfMemoryError

SIZES = [0, 1, 63, 64, 65, 1000, 1024, 1025, 4097, 1 << 20, (1 << 20) + 1, 5 << 20]


@pytest.fixture
def allocator():
    return Allocator()


def python_calls(work):
    names = []
    sys.setprofile(lambda frame, event, _arg: names.append(frame.f_code.co_name) if event == "call" else None)
    try:
        work()
    finally:
        sys.setprofile(None)
    return names


def test_storages_are_aligned_disjoint_and_large_enough(allocator):
    storages = allocator.allocate_many(SIZES)
    assert [storage.nbytes for storage in storages] == SIZES
    assert all(storage.address % 64 == 0 for storage in storages)
    for i, storage in enumerate(storages):
        storage.view()[:] = i + 1
    for i, storage in enumerate(storages):
        assert (storage.view() == i + 1).all()


def test_freed_memory_is_handed_out_again(allocator):
    storage = allocator.allocate(5000)
    address = storage.address
    del storage
    assert allocator.allocate(5001).address == address
    assert allocator.statistics().reservations == 1


@pytest.mark.parametrize("sizes", [(5, 6, 8, 7, 5), (8, 7, 5, 8), (40, 57, 33, 64)])
def test_sizes_of_an_octave_share_memory(allocator, sizes):
    addresses = set()
    for mebibytes in sizes:
        storage = allocator.allocate(mebibytes << 20)
        storage.view()[:] = mebibytes
        addresses.add(storage.address)
        del storage
    statistics = allocator.statistics()
    assert (len(addresses), statistics.reservations, statistics.used_bytes) == (1, 1, 0)
    assert statistics.reserved_bytes == max(sizes) << 20
    assert allocator.empty_cache() == max(sizes) << 20
    assert allocator.statistics().reserved_bytes == 0


def test_another_octave_has_memory_of_its_own(allocator):
    addresses = [allocator.allocate(mebibytes << 20).address for mebibytes in (4, 5, 9, 17)]
    assert len(set(addresses)) == 4


def test_memory_that_grows_counts_towards_the_limit():
    allocator = Allocator(limit_bytes=14 << 20)
    kept = allocator.allocate(8 << 20)
    del allocator.allocate_many([5 << 20])[:]
    with pytest.raises(OutOfMemoryError):
        allocator.allocate(7 << 20)
    assert allocator.statistics().reserved_bytes == kept.nbytes


def test_living_memory_is_not(allocator):
    storages = [allocator.allocate(100) for _ in range(100)]
    assert len({storage.address for storage in storages}) == 100


def test_storages_that_die_in_a_cycle_come_back(allocator):
    class Knot:
        pass

    knot = Knot()
    knot.self, knot.storage = knot, allocator.allocate(1 << 20)
    del knot
    gc.collect()
    assert allocator.statistics().used_bytes == 0


@pytest.mark.unpoisoned
def test_allocation_is_one_python_call_and_freeing_none(allocator):
    allocator.allocate_many(SIZES)
    gc.disable()
    try:

        def work():
            storages = allocator.allocate_many(SIZES)
            del storages

        assert python_calls(work) == ["work", "allocate_many"]
    finally:
        gc.enable()


def test_statistics_add_up(allocator):
    first, second = allocator.allocate_many([1000, 64])
    statistics = allocator.statistics()
    assert (statistics.used_bytes, statistics.reserved_bytes, statistics.allocations) == (1088, 1088, 2)
    del first
    statistics = allocator.statistics()
    assert (statistics.used_bytes, statistics.peak_bytes) == (64, 1088)
    assert allocator.empty_cache() == 1024
    assert allocator.statistics().reserved_bytes == 64
    allocator.reset_peak()
    assert allocator.statistics().peak_bytes == second.nbytes


def test_absurd_request_fails_at_once():
    start = time.process_time()
    for nbytes in (10 << 40, 10**30):
        with pytest.raises(OutOfMemoryError) as caught:
            Storage.allocate(nbytes)
        assert caught.value.code == "M001"
        assert isinstance(caught.value, MemoryError)
        assert isinstance(caught.value, RuntimeError)
    assert time.process_time() - start < 0.5


def test_negative_request_is_a_defect(allocator):
    with pytest.raises(InternalError):
        allocator.allocate(-1)


def test_limit_counts_all_that_is_reserved_and_reclaims_first():
    allocator = Allocator(limit_bytes=10 << 20)
    first = allocator.allocate(6 << 20)
    with pytest.raises(OutOfMemoryError):
        allocator.allocate(6 << 20)
    del first
    assert allocator.allocate(9 << 20).nbytes == 9 << 20  # the dead block had to go back first
    assert allocator.statistics().reserved_bytes <= 10 << 20


def test_idle_memory_makes_way_for_other_sizes():
    allocator = Allocator(limit_bytes=64 << 20)
    for mebibytes in range(1, 30):
        del allocator.allocate_many([mebibytes << 20])[:]
    assert allocator.statistics().reserved_bytes <= 48 << 20


def test_garbage_is_collected_before_giving_up():
    allocator = Allocator(limit_bytes=10 << 20)
    knot = [allocator.allocate(6 << 20)]
    knot.append(knot)
    del knot
    assert allocator.allocate(7 << 20).nbytes == 7 << 20


def test_error_half_way_leaves_nothing_in_use():
    allocator = Allocator(limit_bytes=1 << 20)
    with pytest.raises(OutOfMemoryError):
        allocator.allocate_many([1000, 1000, 2 << 20])
    gc.collect()
    assert allocator.statistics().used_bytes == 0


def test_waste_is_at_most_an_eighth(allocator):
    for nbytes in (1025, 5000, 99_999, (1 << 20) + 1):
        before = allocator.statistics().reserved_bytes
        storage = allocator.allocate(nbytes)
        assert nbytes <= allocator.statistics().reserved_bytes - before <= nbytes * 1.125 + 64
        del storage


def test_view_keeps_the_storage(allocator):
    view = allocator.allocate(1000).view()
    view[:] = 7
    other = allocator.allocate(1000).view()
    other[:] = 9
    assert (view == 7).all()
    del view, other
    assert allocator.statistics().used_bytes == 0


def test_from_buffer_shares_memory():
    array = np.arange(12, dtype=np.float32).reshape(3, 4)
    storage = Storage.from_buffer(array)
    assert (storage.address, storage.nbytes) == (array.ctypes.data, 48)
    storage.view()[:4] = np.frombuffer(np.float32(5).tobytes(), np.uint8)
    assert array[0, 0] == 5
    assert Storage.from_buffer(bytearray(10)).nbytes == 10


def test_from_buffer_keeps_the_array():
    storage = Storage.from_buffer(np.full(1000, 3, np.uint8))
    gc.collect()
    assert (storage.view() == 3).all()


@pytest.mark.parametrize("pick", [np.s_[::-1, ::2], np.s_[1:, 1:3], np.s_[:0], np.s_[..., None]])
def test_from_buffer_covers_what_a_view_reaches(pick):
    base = np.zeros((4, 6), np.int16)
    view = base[pick]
    storage = Storage.from_buffer(view)
    view[...] = -1
    touched = np.flatnonzero(base.reshape(-1).view(np.uint8)) + base.ctypes.data
    if view.size:
        assert (storage.address, storage.address + storage.nbytes) == (touched[0], touched[-1] + 1)
    else:
        assert storage.nbytes == 0


def test_from_buffer_refuses_read_only_memory():
    with pytest.raises(ArgumentTypeError) as caught:
        Storage.from_buffer(b"abc")
    assert caught.value.code == "M002"
    assert Storage.from_buffer(b"abc", allow_readonly=True).nbytes == 3


def test_threads_share_an_allocator(allocator):
    failures = []

    def work(seed):
        rng = np.random.default_rng(seed)
        held = []
        for _ in range(300):
            storage = allocator.allocate(int(rng.integers(1, 3000)))
            storage.view()[:] = seed
            held.append(storage)
            if len(held) > 10:
                old = held.pop(int(rng.integers(0, 10)))
                if not (old.view() == seed).all():
                    failures.append(seed)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(1, 5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    assert allocator.statistics().used_bytes == 0
