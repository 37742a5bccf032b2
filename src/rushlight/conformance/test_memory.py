"""Tier 0, memory: tensors get there and back, in every dtype and layout, and what shares memory goes on to."""

from __future__ import annotations

import gc

import numpy as np
import pytest

import rushlight as rl
from rushlight.conformance.calls import storage_of

_REAL = (rl.bool, rl.uint8, rl.int16, rl.int32, rl.int64, rl.float16, rl.bfloat16, rl.float32, rl.float64)
_DTYPES = (*_REAL, rl.complex64, rl.complex128, rl.float8_e4m3fn)


@pytest.mark.parametrize("shape", [(), (0,), (1,), (7,), (3, 0, 2), (4, 5), (2, 3, 4, 5)], ids=str)
def test_elements_get_there_and_back(device: str, shape: tuple[int, ...]) -> None:
    """A copy of a copy is what was copied."""
    x = rl.from_numpy(np.random.default_rng(0).standard_normal(shape))
    there = x.to(device)
    assert there.device.type == device
    assert there.shape == x.shape
    assert rl.equal(there.cpu(), x)
    assert there.tolist() == x.tolist()


@pytest.mark.parametrize("dtype", _DTYPES, ids=str)
def test_bits_of_every_dtype_are_kept(device: str, dtype: rl.dtype) -> None:
    """Also those of NaN, and of negative zero."""
    count = 24 * dtype.itemsize
    data = bytes(count) if dtype is rl.bool else np.random.default_rng(1).bytes(count)
    there = storage_of(data, device)
    assert bytes(there.cpu().tolist()) == data
    x = rl.empty(0, dtype=dtype, device=device).set_(there, 0, (24,), (1,))
    assert bytes(x.clone().untyped_storage().cpu().tolist()[:count]) == data


@pytest.mark.parametrize(
    ("offset", "sizes", "strides"),
    [(0, (3, 4), (4, 1)), (2, (4, 3), (1, 4)), (1, (3, 2), (7, 3)), (5, (4,), (0,)), (3, (2, 3), (0, 2)), (9, (), ())],
    ids=str,
)
def test_views_show_what_they_show_on_the_cpu(
    device: str, offset: int, sizes: tuple[int, ...], strides: tuple[int, ...]
) -> None:
    """Offsets, gaps, orders of dims, repeated elements."""
    base = rl.arange(24.0)
    expected = base.as_strided(sizes, strides, offset)
    view = base.to(device).as_strided(sizes, strides, offset)
    assert view.stride() == strides
    assert view.storage_offset() == offset
    assert rl.equal(view.cpu(), expected)
    assert rl.equal(view.to(device).cpu(), expected)


def test_a_copy_into_a_view_leaves_its_neighbours(device: str) -> None:
    """What lies in the gaps of a target stays."""
    base = rl.zeros(6, 6).to(device)
    base[1::2, ::3].copy_(rl.ones(3, 2))
    base.t()[0].copy_(rl.full((6,), 2.0))
    expected = rl.zeros(6, 6)
    expected[1::2, ::3] = 1
    expected[:, 0] = 2
    assert rl.equal(base.cpu(), expected)


def test_views_share_memory_and_copies_do_not(device: str) -> None:
    """A write through one is seen through the other."""
    x = rl.zeros(4).to(device)
    view, copy = x[1:3], x.clone()
    view.copy_(rl.ones(2))
    assert x.tolist() == [0, 1, 1, 0]
    assert copy.tolist() == [0, 0, 0, 0]
    assert view.untyped_storage() == x.untyped_storage()


def test_the_host_does_not_see_the_memory(device: str) -> None:
    """An array cannot share it."""
    with pytest.raises(rl.DeviceError):
        rl.ones(3).to(device).numpy()


def test_memory_comes_back(device: str) -> None:
    """What is not used any more is handed out again."""
    memory = rl.backends.get(device).memory
    gc.collect()
    before = memory.statistics().used_bytes
    for _ in range(20):
        rl.zeros(1 << 16).to(device)
    assert memory.statistics().used_bytes <= before + (1 << 18)


def test_streams_and_events_are_in_order(device: str) -> None:
    """An event that was recorded is reached once its stream is synchronised."""
    stream = rl.backends.get(device).stream()
    first = stream.record_event()
    stream.wait_event(first)
    second = stream.record_event()
    stream.synchronize()
    assert first.query()
    assert second.query()
    assert first.elapsed_time(second) >= 0


def test_a_device_says_nothing_that_it_lacks(device: str) -> None:
    """It works here."""
    assert not rl.backends.get(device).lacks()
