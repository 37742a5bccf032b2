"""PyTorch's older ways: Tensor(2, 3), FloatTensor and its like, type(), and formats."""

import numpy as np
import pytest

import rushlight as rl
from rushlight.support.errors import RushlightError


def failure(function):
    with pytest.raises(RushlightError) as error:
        function()
    return error.value


@pytest.mark.parametrize(
    ("args", "shape"),
    [((2, 3), (2, 3)), ((2,), (2,)), ((), (0,)), ((rl.Size([2, 0]),), (2, 0)), ((rl.Size([]),), ()), ((0, 4, 1),) * 2],
)
@pytest.mark.parametrize(("make", "dtype"), [(rl.Tensor, rl.float32), (rl.LongTensor, rl.int64)])
def test_sizes_make_a_tensor_of_that_shape(make, dtype, args, shape):
    found = make(*args)
    assert found.shape == shape and found.dtype is dtype


@pytest.mark.parametrize("data", [[1, 2], (1, 2), range(1, 3), np.array([1, 2]), [rl.tensor(1), rl.tensor(2)]])
def test_data_gets_the_default_dtype_or_the_named_one(data):
    assert rl.Tensor(data).tolist() == [1.0, 2.0] and rl.Tensor(data).dtype is rl.float32
    assert rl.ShortTensor(data).tolist() == [1, 2] and rl.ShortTensor(data).dtype is rl.int16


def test_the_default_dtype_counts():
    rl.set_default_dtype(rl.float64)
    try:
        assert rl.Tensor([1]).dtype is rl.float64 and rl.Tensor(2, 3).dtype is rl.float64
    finally:
        rl.set_default_dtype(rl.float32)


def test_a_tensor_is_shown_as_it_is():
    x = rl.tensor([1, 2])
    assert rl.Tensor(x).data_ptr() == x.data_ptr() and rl.Tensor(x).dtype is rl.int64
    assert failure(lambda: rl.FloatTensor(x)).code == "A001"

    class Own(rl.Tensor):
        pass

    assert type(Own(2, 3)) is Own and Own(2, 3).shape == (2, 3) and type(Own(x)) is Own


@pytest.mark.parametrize("args", [(2.5,), (True,), (None,), ("ab",), ([1, 2], 3), (2, None), (object(),)])
def test_what_is_neither_is_refused(args):
    assert failure(lambda: rl.Tensor(*args)).code == "A001"
    assert failure(lambda: rl.FloatTensor(*args)).code == "A001"


def test_type_says_pytorchs_name():
    assert rl.ones(1).type() == "torch.FloatTensor" and rl.arange(2).type() == "torch.LongTensor"
    assert rl.ones(1, dtype=rl.bfloat16).type() == "torch.BFloat16Tensor"
    assert rl.ones(1, dtype=rl.complex64).type() == "torch.ComplexFloatTensor"
    assert rl.ones(1, device="meta").type() == "torch.meta.FloatTensor"


@pytest.mark.parametrize("name", ["torch.DoubleTensor", "rushlight.DoubleTensor", rl.DoubleTensor, rl.float64, float])
def test_type_takes_names_types_and_dtypes(name):
    assert rl.ones(1).type(name).dtype is rl.float64
    x = rl.ones(1)
    assert x.type(x.type()) is x


def test_type_refuses_other_names():
    assert failure(lambda: rl.ones(1).type("torch.double")).code == "A002"
    assert failure(lambda: rl.ones(1).type("torch.cuda.FloatTensor")).code == "V001"
    assert failure(lambda: rl.ones(1).type(3)).code == "D004"


def test_types_are_asked_by_isinstance():
    assert isinstance(rl.ones(1), rl.FloatTensor) and not isinstance(rl.ones(1), rl.LongTensor)
    assert isinstance(rl.arange(3), rl.LongTensor) and not isinstance(3, rl.LongTensor)


def test_devices_that_are_not_there():
    for ask in (rl.ones(1).cuda, rl.nn.Linear(1, 1).cuda):
        error = failure(ask)
        assert error.code == "V001" and isinstance(error, RuntimeError) and "cuda" in str(error)


def test_a_format_for_numbers_needs_a_number():
    assert f"{rl.tensor(1.0):.2f}" == "1.00" and f"{rl.ones(1)}" == "tensor([1.])"
    error = failure(lambda: f"{rl.ones(1):.2f}")
    assert error.code == "A001" and isinstance(error, TypeError)
