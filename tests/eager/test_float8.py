"""8-bit floats: every value and cast against ml_dtypes, files, what is taken and what is refused."""

from __future__ import annotations

import copy
import pickle

import ml_dtypes
import numpy as np
import pytest

import rushlight as rl
from rushlight.ir.dtype import FLOAT8
from rushlight.ir.interpret import cast_array

pytestmark = pytest.mark.usefixtures("quick_code")
NAMES = ("float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz")
CODES = np.arange(256, dtype=np.uint8)


def shown(codes, name):
    return codes.view(getattr(ml_dtypes, name))


def rounded(array, name):
    """The nearest number, the one with an even code of two as near; what is too large as PyTorch has it."""
    form = FLOAT8[getattr(rl, name)]
    wide = array.astype(np.float64)
    finite = shown(np.arange(form.largest + 1, dtype=np.uint8), name).astype(np.float64)
    ends = np.append(finite, 2 * finite[-1] - finite[-2])
    middles = (ends[1:] + ends[:-1]) / 2
    codes = np.searchsorted(middles, np.abs(wide))
    tie = np.isin(np.abs(wide), middles) & (codes % 2 == 1)
    codes = np.where(tie, codes + 1, codes)
    codes = np.where(codes > form.largest, form.overflow, codes)
    codes = np.where(np.isnan(wide), form.nan, codes)
    signed = np.signbit(wide) & ((codes & 0x7F != 0) | (form.nan != 0x80))
    return np.where(signed & (codes != 0x80), codes | 0x80, codes).astype(np.uint8).view(getattr(ml_dtypes, name))


def same_codes(found, expected):
    nan = np.isnan(expected.astype(np.float32))
    assert np.array_equal(np.isnan(found.astype(np.float32)), nan)
    assert np.array_equal(found.view(np.uint8)[~nan], expected.view(np.uint8)[~nan])


def hard_numbers(name):
    """All values, the middles between neighbours with what is just beside them, and numbers of every size."""
    values = shown(CODES, name).astype(np.float32)
    values = np.sort(values[np.isfinite(values)])
    middles = (values[1:] + values[:-1]) / 2
    beside = [np.nextafter(middles, np.float32(end)) for end in (-np.inf, np.inf)]
    rng = np.random.default_rng(0)
    sizes = (rng.standard_normal(4000) * np.exp2(rng.integers(-150, 120, 4000))).astype(np.float32)
    ends = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 464, 465, 61439, 61440, 247, 248, 3.4e38], np.float32)
    return np.concatenate([values, middles, *beside, sizes, ends, -ends])


@pytest.mark.parametrize("name", NAMES)
def test_all_values_widen(name):
    x = rl.from_numpy(CODES).view(getattr(rl, name))
    for dtype in ("float32", "float64", "float16", "bfloat16"):
        expected = shown(CODES, name).astype(np.float32)
        assert np.array_equal(x.to(getattr(rl, dtype)).float().numpy(), expected, equal_nan=True)
    assert np.array_equal(x.isnan().numpy(), np.isnan(shown(CODES, name).astype(np.float32)))


@pytest.mark.parametrize("name", NAMES)
def test_floats_are_rounded_once(name):
    dtype = getattr(rl, name)
    halves = np.arange(65536, dtype=np.uint16)
    arrays = [halves.view(np.float16), halves.view(ml_dtypes.bfloat16), hard_numbers(name)]
    close = hard_numbers(name).astype(np.float64)
    arrays.append(np.concatenate([np.nextafter(close, np.inf), np.nextafter(close, -np.inf)]))
    narrow = rl.compile(lambda x: x.to(dtype))
    with np.errstate(all="ignore"):
        for array in arrays:
            expected = rounded(array, name)
            same_codes(rl.from_numpy(array).to(dtype).numpy(), expected)
            same_codes(narrow(rl.from_numpy(array)).numpy(), expected)
            same_codes(cast_array(array, dtype), expected)


@pytest.mark.parametrize("name", NAMES)
def test_between_each_other_and_from_integers(name):
    x = rl.from_numpy(CODES).view(getattr(rl, name))
    with np.errstate(all="ignore"):
        for other in NAMES:
            expected = rounded(shown(CODES, name), other)
            same_codes(x.to(getattr(rl, other)).numpy(), expected)
        integers = np.arange(-600, 70000, 7)
        same_codes(rl.from_numpy(integers).to(x.dtype).numpy(), rounded(integers, name))
    small = rl.tensor([3.0, -2.5, 0.0]).to(x.dtype)
    assert small.int().tolist() == [3, -2, 0] and small.bool().tolist() == [True, True, False]


def test_too_large_numbers_saturate_as_in_pytorch():
    x = rl.tensor([465.0, -1e30, float("inf"), 61440.0, float("nan")])
    assert x.to(rl.float8_e4m3fn).tolist()[:4] == [448, -448, 448, 448]
    assert x.to(rl.float8_e5m2).tolist()[:4] == [448, -float("inf"), float("inf"), float("inf")]
    assert x.to(rl.float8_e5m2fnuz).isnan().tolist() == [False, True, True, True, True]
    assert rl.full((2,), 1000.0, dtype=rl.float8_e4m3fn).tolist() == rl.tensor([1000.0] * 2).clamp(max=448).tolist()


@pytest.mark.parametrize("name", NAMES)
def test_what_only_moves_elements_is_taken(name, tmp_path):
    dtype = getattr(rl, name)
    x = rl.tensor([[1.0, -2.0, 0.5], [0.0, 3.0, 7.0]]).to(dtype)
    for found in (x.clone(), x.T.contiguous().T, rl.cat([x[:1], x[1:]]), x[[0, 1]], copy.deepcopy(x)):
        assert found.dtype is dtype and found.tolist() == x.tolist()
    assert pickle.loads(pickle.dumps(x)).view(rl.uint8).equal(x.view(rl.uint8))
    y = x.clone()
    y[0] = 2.5
    y[1, 1:] = x[0, :2]
    assert y.tolist() == [[2.5, 2.5, 2.5], [0, 1, -2]]
    assert rl.zeros(2, dtype=dtype).fill_(1.5).tolist() == [1.5, 1.5] and rl.zeros_like(x).tolist()[0] == [0, 0, 0]
    assert (x == x).all() and not (x != x).any() and rl.where(x == 0, x, x).tolist() == x.tolist()
    assert repr(x[0]) == f"tensor([ 1.0000, -2.0000,  0.5000], dtype=rushlight.{name})"
    rl.save({"x": x, "y": x.T}, tmp_path / "file.pt")
    loaded = rl.load(tmp_path / "file.pt")
    assert loaded["x"].dtype is dtype and loaded["y"].tolist() == x.T.tolist()
    weight = rl.ones(3, requires_grad=True)
    (weight.to(dtype).float() * 2).sum().backward()
    assert weight.grad.tolist() == [2, 2, 2]


def test_arithmetic_is_refused():
    x = rl.ones(2, 2, dtype=rl.float8_e4m3fn)
    calls = [
        lambda x: x + x,
        lambda x: x * 2,
        lambda x: x < x,
        lambda x: -x,
        lambda x: x.sum(),
        lambda x: x @ x,
        lambda x: x.relu(),
        lambda x: x.softmax(0),
        lambda x: x + rl.ones(2),
        lambda x: x.clone().mul_(2),
        lambda x: x.sort(),
    ]
    for call in calls:
        for run in (call, rl.compile(call)):
            with pytest.raises(rl.DTypeError, match="float8") as raised:
                run(x)
            assert raised.value.code == "D001"
    with pytest.raises(rl.DTypeError, match="common dtype"):
        rl.promote_types(rl.float8_e4m3fn, rl.float32)
