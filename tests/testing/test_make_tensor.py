"""`make_tensor`: dtypes, ranges, layouts. Facts are PyTorch's."""

import pytest

import rushlight as rl
from rushlight.support.errors import RushlightError
from rushlight.testing import make_tensor

DTYPES = [
    *(rl.bool, rl.uint8, rl.int8, rl.int16, rl.int32, rl.int64, rl.float16, rl.bfloat16, rl.float32, rl.float64),
    *(rl.complex64, rl.complex128),
]


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("shape", [(), (0,), (1,), (3, 0), (40, 5)], ids=str)
def test_elements_lie_in_the_range(dtype, shape):
    x = make_tensor(shape, dtype=dtype)
    assert x.dtype is dtype and x.shape == shape and x.is_contiguous() and not x.requires_grad
    parts = [x.real, x.imag] if dtype.is_complex else [x]
    low, high = {rl.bool: (0, 1), rl.uint8: (0, 9)}.get(dtype, (-9, 9))
    for part in parts if x.numel() else ():
        assert low <= part.double().min() and part.double().max() <= high
        assert x.numel() < 100 or len(part.unique()) > 1


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_options(dtype):
    x = make_tensor(4, 3, dtype=dtype, noncontiguous=True, exclude_zero=True)
    assert x.shape == (4, 3) and x.stride() == (6, 2) and not x.is_contiguous() and bool((x != 0).all())
    assert make_tensor((1,), dtype=dtype, noncontiguous=True).is_contiguous()
    y = make_tensor(2, 3, 4, 5, dtype=dtype, memory_format=rl.channels_last)
    assert y.is_contiguous(memory_format=rl.channels_last)


def test_ranges_are_cut_to_those_of_dtypes():
    assert make_tensor(50, dtype=rl.int8, low=-1000, high=-100).min() >= -128
    assert make_tensor(50, dtype=rl.uint8, low=-5, high=2).max() <= 1
    x = make_tensor(1000, dtype=rl.float32, low=-1e38, high=3e38)
    assert bool(x.isfinite().all()) and x.max() > 1e38
    assert make_tensor(5, dtype=rl.float64, low=2.5, high=3, requires_grad=True).requires_grad
    rl.manual_seed(3)
    first = make_tensor(9, dtype=rl.float32)
    rl.manual_seed(3)
    assert first.equal(make_tensor(9, dtype=rl.float32)) and make_tensor(2, dtype=rl.float32, device="meta").is_meta


@pytest.mark.parametrize(
    "options",
    [
        {"low": 3, "high": 3},
        {"low": float("nan")},
        {"low": 300, "high": 400, "dtype": rl.int8},
        {"noncontiguous": True, "memory_format": rl.contiguous_format},
    ],
)
def test_what_is_refused(options):
    with pytest.raises(RushlightError) as error:
        make_tensor(2, **{"dtype": rl.float32, **options})
    assert error.value.code == "A002"
