"""Views of a tensor's bytes as elements of another width: shapes, strides, offsets, writes, programs."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import rushlight as rl

pytestmark = pytest.mark.usefixtures("quick_code")
DTYPES = ("uint8", "int16", "uint32", "int64", "float16", "float32", "float64", "complex64", "complex128")


def bytes_of(dtype: str, rows: int = 3, width: int = 32):
    raw = np.random.default_rng(0).integers(0, 256, (rows, width), dtype=np.uint8)
    return raw.view(dtype)


@pytest.mark.parametrize(("old", "new"), list(itertools.permutations(DTYPES, 2)))
def test_elements_are_numpys_and_share_the_storage(old, new):
    array = bytes_of(old)
    x = rl.from_numpy(array)
    y = x[1:].view(getattr(rl, new))
    assert y.numpy().tobytes() == array[1:].tobytes()
    assert y.shape == array[1:].view(new).shape
    assert [stride * y.itemsize for stride in y.stride()] == list(array[1:].view(new).strides)
    assert y.storage_offset() * y.itemsize == 32 and y.data_ptr() == x.data_ptr() + 32


@pytest.mark.parametrize(("old", "new"), list(itertools.product(("uint8", "float32", "complex128"), DTYPES)))
def test_programs_show_and_write_the_same_bytes(old, new):
    def program(x):
        shown = x.view(getattr(rl, new))
        copied = x.clone().view(getattr(rl, new)).clone()
        shown[0] = shown[1]
        return shown, copied

    one, other = [rl.from_numpy(bytes_of(old).copy()) for _ in range(2)]
    eager, compiled = program(one), rl.compile(program)(other)
    for a, b in zip((one, *eager), (other, *compiled), strict=True):
        assert a.dtype is b.dtype and a.shape == b.shape and a.numpy().tobytes() == b.numpy().tobytes()
    assert compiled[0].data_ptr() == other.data_ptr()


def test_bits_of_a_number_are_little_endian():
    assert rl.tensor([1.0, -2.0]).view(rl.uint8).tolist() == [0, 0, 128, 63, 0, 0, 0, 192]
    assert rl.tensor([1, 2], dtype=rl.int32).view(rl.int64).tolist() == [1 + (2 << 32)]
    assert rl.tensor([1 + 2j]).view(rl.float32).tolist() == [1, 2]


@pytest.mark.parametrize(
    ("code", "make", "dtype"),
    [
        ("S002", lambda: rl.tensor(1.0), rl.int16),
        ("S002", lambda: rl.tensor(1.0), rl.complex64),
        ("S003", lambda: rl.ones(2, 3), rl.float64),
        ("S006", lambda: rl.ones(2, 4).T, rl.uint8),
        ("S006", lambda: rl.ones(4, 4)[:, ::2], rl.float64),
        ("S006", lambda: rl.ones(3, 5)[:, :4], rl.float64),
        ("S006", lambda: rl.ones(5)[1:], rl.float64),
    ],
)
def test_what_makes_no_whole_elements_is_refused(code, make, dtype):
    for call in (lambda x: x.view(dtype), rl.compile(lambda x: x.view(dtype))):
        with pytest.raises(rl.RushlightError) as raised:
            call(make())
        assert raised.value.code == code


def test_one_program_for_all_sizes():
    program = rl.compile(lambda x: x.view(rl.int16).to(rl.int64).sum(-1))
    for rows, columns in ((2, 4), (3, 7), (5, 1)):
        x = rl.rand(rows, columns)
        assert program(x).equal(x.view(rl.int16).to(rl.int64).sum(-1))
    wide = rl.compile(lambda x: x.view(rl.int64) + 1)
    for rows, columns in ((2, 4), (3, 6)):
        x = rl.rand(rows, columns)
        assert wide(x).equal(x.view(rl.int64) + 1)


def test_views_by_strides_follow_in_programs():
    def program(x):
        y = x.view(rl.int32).as_strided((2, 2), (1, 2), 1)
        y.add_(1)
        return y

    for dtype in (rl.float64, rl.uint8):
        one, other = [rl.arange(24).to(dtype) for _ in range(2)]
        assert program(one).equal(rl.compile(program)(other)) and one.equal(other)


def test_batches():
    x = rl.rand(3, 4)
    assert rl.func.vmap(lambda row: row.view(rl.uint8))(x).equal(x.view(rl.uint8))
    assert rl.func.vmap(lambda row: row.view(rl.float64))(x).equal(x.view(rl.float64))


def test_views_of_no_elements_have_no_strides_to_divide():
    for run in (lambda x: x.view(rl.float64), rl.compile(lambda x: x.view(rl.float64))):
        assert run(rl.ones(3, 4)).shape == (3, 2)
        assert run(rl.empty(3, 0)).shape == (3, 0) and run(rl.empty(0, 4)).shape == (0, 2)
