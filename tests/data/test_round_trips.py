"""Files of tensors of every dtype and layout give back values, strides and which tensors share memory."""

import random

import numpy as np
import pytest

import rushlight as rl
from rushlight.ir.dtype import DTYPES

ELEMENTS = 48


def base_of(dtype, rng):
    """A vector of random bytes, or of truth values."""
    count = ELEMENTS * dtype.itemsize
    data = rng.integers(0, 2 if dtype is rl.bool else 256, count, np.uint8).tobytes()
    return rl.frombuffer(bytearray(data), dtype=dtype)


def view_of(base, draw):
    """A view with any strides, 0 among them, from any place; some have no elements, and some no dims."""
    while True:
        shape = [draw.randint(0, 4) for _ in range(draw.randint(0, 4))]
        strides = [draw.randint(0, 9) for _ in shape]
        reach = sum((size - 1) * stride for size, stride in zip(shape, strides, strict=True) if size)
        if reach < ELEMENTS:
            return base.as_strided(shape, strides, draw.randint(0, ELEMENTS - 1 - reach))


def bits_of(tensor):
    return tensor.contiguous().numpy().tobytes()


def storages(tensors):
    """For each tensor, the first one that lies in the same memory; those without elements lie nowhere."""
    places = [tensor.untyped_storage().data_ptr() if tensor.numel() else None for tensor in tensors]
    return [place if place is None else places.index(place) for place in places]


@pytest.mark.row("1.8")
@pytest.mark.parametrize("load", [{}, {"mmap": True}, {"map_location": "cpu"}], ids=["read", "mapped", "moved"])
@pytest.mark.parametrize("dtype", DTYPES, ids=lambda dtype: dtype.name)
def test_every_layout_comes_back(dtype, load, tmp_path):
    draw, rng = random.Random(dtype.name), np.random.default_rng(len(dtype.name))
    for round_ in range(4):
        bases = [base_of(dtype, rng), base_of(dtype, rng)]
        saved = [view_of(bases[draw.randrange(2)], draw) for _ in range(6)]
        rl.save(saved, tmp_path / f"{round_}.pt")
        found = rl.load(tmp_path / f"{round_}.pt", **load)
        for tensor, before in zip(found, saved, strict=True):
            assert (tensor.dtype, tensor.shape, tensor.stride()) == (dtype, before.shape, before.stride())
            assert bits_of(tensor) == bits_of(before)
        assert storages(found) == storages(saved)


@pytest.mark.row("1.8")
def test_shapes_alone_are_loaded_on_the_meta_device(tmp_path):
    saved = rl.arange(12.0, dtype=rl.bfloat16).as_strided((2, 3), (1, 4), 2)
    rl.save(saved, tmp_path / "saved.pt")
    found = rl.load(tmp_path / "saved.pt", map_location="meta")
    assert (found.device.type, found.dtype, found.shape, found.stride()) == ("meta", rl.bfloat16, (2, 3), (1, 4))
