"""Python numbers as arguments: those that a dtype cannot hold, and the dtypes that they give."""

import numpy as np
import pytest

import rushlight as rl
from opcheck import refused


@pytest.mark.parametrize("value", [300, -256, 255.7, float("nan"), float("inf"), 2j, 10**30])
@pytest.mark.parametrize("compiled", [False, True])
def test_numbers_to_fill_with_have_to_fit(value, compiled):
    x, mask, index = rl.zeros(2, dtype=rl.uint8), rl.tensor([True, False]), rl.tensor([0])
    for call in (
        lambda value: x.fill_(value),
        lambda value: x.__setitem__(0, value),
        lambda value: x.__setitem__(index, value),
        lambda value: rl.full((2,), value, dtype=rl.uint8),
        lambda value: x.masked_fill(mask, value),
        lambda value: x.masked_fill_(mask, value),
        lambda value: x.scatter(0, index, value),
        lambda value: rl.nn.functional.pad(x, (1, 1), value=value),
    ):
        with refused("D007"):
            (rl.compile(call) if compiled else call)(value)
    assert x.tolist() == [0, 0] and x.fill_(-1).tolist() == [255, 255] and x.fill_(1.5).tolist() == [1, 1]


def test_bounds_and_branches_have_to_fit():
    x = rl.ones(1, dtype=rl.uint8)
    for call in (lambda: x.clamp(max=300), lambda: rl.where(x > 0, x, 300), lambda: rl.ones(1).fill_(1e39)):
        with refused("D007"):
            call()
    assert rl.ones(1).fill_(float("inf")).tolist() == [float("inf")] and x.clamp(max=7).tolist() == [1]


def test_numbers_known_when_a_function_runs_share_a_graph_until_one_does_not_fit():
    rl.compiler.reset()
    fill = rl.compile(lambda x, value: rl.fill(x, value))
    x = rl.zeros(2, dtype=rl.int8)
    assert [fill(x, value).tolist() for value in (3, 127, -128)] == [[3, 3], [127, 127], [-128, -128]]
    for value in (128, -129, 10**30):
        with refused("D007"):
            fill(x, value)
    assert fill(x, 5).tolist() == [5, 5] and rl.compiler.graph_count() == 1


@pytest.mark.parametrize("name", ["add", "sub", "addcmul", "addcdiv"])
def test_factors_are_numbers_or_tensors_without_dims(name):
    x = rl.ones(3, dtype=rl.float16)
    factor = "alpha" if name in ("add", "sub") else "value"
    call = lambda value: getattr(rl, name)(x, *(x,) * (1 if factor == "alpha" else 2), **{factor: value})  # noqa: E731
    assert call(rl.tensor(0.5)).dtype is rl.float16
    for value in (rl.ones(1), rl.ones(2, 3)):
        with refused("S002"):
            call(value)
    with refused("A004"):
        call(2j)


def test_masks_without_dims():
    x, yes, no = rl.arange(6.0).reshape(2, 3), rl.tensor(True), rl.tensor(False)
    assert x[yes].shape == (1, 2, 3) and x[no].shape == (0, 2, 3) and x[:, yes, 1].tolist() == [[1], [4]]
    assert rl.tensor(2.0)[yes].tolist() == [2] and rl.tensor(2.0)[no].shape == (0,)
    one = rl.tensor(2.0)
    one[yes] = 5.0
    x[no] = 7.0
    assert one == 5 and x.max() == 5
    x[yes] = 1.0
    assert x.sum() == 6


def test_arguments_of_small_functions():
    nan = float("nan")
    assert rl.rsub(rl.ones(2), rl.ones(2), alpha=2).tolist() == [-1, -1]
    assert rl.scalar_tensor(3).dtype is rl.float32 and rl.ones(()).movedim(0, -1).shape == ()
    assert [str(x) for x in rl.unique(rl.tensor([nan, 1.0, nan])).tolist()] == ["1.0", "nan", "nan"]
    assert rl.bucketize(rl.tensor([1, 2]), rl.tensor([1.5])).tolist() == [0, 1]
    assert rl.ones(0).median().isnan() and rl.ones(0, dtype=rl.int8).median() == 0
    with pytest.raises(ValueError, match="spatial"):
        rl.nn.functional.instance_norm(rl.ones(1, 2, 1))
    with pytest.raises(ValueError, match="leads away"):
        rl.arange(1, 0, 2)


def test_a_range_may_name_its_end_alone():
    assert rl.arange(end=3).tolist() == [0, 1, 2] and rl.arange(end=2, dtype=rl.float32).tolist() == [0.0, 1.0]
    assert rl.compile(lambda x: x + rl.arange(end=x.shape[0]))(rl.ones(3)).tolist() == [1.0, 2.0, 3.0]
    with pytest.raises(rl.ArgumentTypeError, match="end must be"):
        rl.arange()


def test_indices_of_composites_are_checked():
    x = rl.ones(2, 3)
    for call in (
        lambda: rl.take_along_dim(x, rl.full((2, 1), 3), 1),
        lambda: rl.take_along_dim(x, rl.tensor([6])),
        lambda: rl.searchsorted(rl.ones(2), rl.ones(1), sorter=rl.tensor([0, 2])),
    ):
        with refused("I001"):
            call()
    assert rl.take_along_dim(x, rl.tensor([5])).tolist() == [1]


COMPLEX = {
    "full_like": lambda x: rl.full_like(x, 1j),
    "tensor": lambda x: rl.tensor([0.5, 1j], dtype=rl.float32),
    "asarray": lambda x: rl.asarray(1j, dtype=rl.int64),
    "linspace": lambda x: rl.linspace(0, 1j, 3, dtype=rl.float64),
}


@pytest.mark.parametrize("name", COMPLEX)
def test_complex_numbers_are_not_cut_to_their_real_parts(name):
    with refused("D007"):
        COMPLEX[name](rl.ones(2))


@pytest.mark.parametrize("compiled", [False, True])
def test_attributes_that_are_real_refuse_complex_numbers(compiled):
    x, norm = rl.ones(2, 2), rl.nn.functional
    for call in (
        lambda x: norm.layer_norm(x, (2,), eps=1j),
        lambda x: norm.group_norm(x, 2, eps=1j),
        lambda x: norm.batch_norm(x, rl.zeros(2), rl.ones(2), training=True, momentum=1j),
        lambda x: rl.logspace(0, 1, 2, base=1j),
        lambda x: rl.normal(0.0, 1j, (2,)),
    ):
        with refused("A001"):
            (rl.compile(call) if compiled else call)(x)


def test_complex_ends_make_complex_numbers():
    assert rl.linspace(0, 1j, 3).tolist() == [0, 0.5j, 1j]
    assert rl.linspace(rl.tensor(1 + 1j), 2, 3).tolist() == [1 + 1j, 1.5 + 0.5j, 2]
    expected = 10 ** np.linspace(0, 1 - 1j, 4)
    np.testing.assert_allclose(rl.logspace(0, 1 - 1j, 4, dtype=rl.complex128).numpy(), expected, rtol=1e-14)
    before = rl.get_default_dtype()
    rl.set_default_dtype(rl.float64)
    try:
        assert rl.full((2,), 1j).dtype is rl.linspace(0, 1j, 2).dtype is rl.complex128
    finally:
        rl.set_default_dtype(before)


@pytest.mark.parametrize(
    ("call", "dtype"),
    [
        (lambda a: rl.add(a, 2), rl.float32),
        (lambda a: rl.div(3, 2), rl.float32),
        (lambda a: rl.mul(a, 1j), rl.complex64),
        (lambda a: rl.sub(5, 2), rl.int64),
        (lambda a: rl.full((2,), a * 2), rl.float32),
        (lambda a: rl.tensor(a), rl.float32),
        (lambda a: rl.as_tensor(a), rl.float32),
    ],
)
def test_numbers_alone_give_tensors_of_the_default_dtype(call, dtype):
    """As PyTorch's functions do, also where the number is known only when a compiled function runs."""
    found, compiled = call(1.5), rl.compile(call)(1.5)
    assert found.dtype is compiled.dtype is dtype and found.tolist() == compiled.tolist()
    assert rl.compile(lambda x: rl.tensor(x.shape[0]) / 2)(rl.ones(3)).item() == 1.5
