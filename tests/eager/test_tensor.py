"""Tensors: making them, memory shared with numpy, indexing, in-place and out= forms, copies."""

import copy
import datetime
import pickle
import sys

import numpy as np
import pytest

import rushlight as rl
from rushlight.eager import Parameter, Tensor
from rushlight.eager.creation import (
    arange,
    as_tensor,
    empty,
    eye,
    from_dlpack,
    from_numpy,
    full,
    ones,
    tensor,
    zeros,
    zeros_like,
)
from rushlight.eager.functions import add, as_strided, mul, stack
from rushlight.eager.tensor_meta import Size
from rushlight.ir.dtype import BY_NAME, bool_, complex64, float32, float64, int32, int64
from rushlight.ir.type import CPU, Device
from rushlight.support.errors import RushlightError, forget_warnings


def fails(code):
    return pytest.raises(RushlightError, match=None), code


def code_of(function):
    with pytest.raises(RushlightError) as error:
        function()
    return error.value.code


@pytest.mark.parametrize(
    ("data", "dtype", "shape"),
    [
        (1, int64, ()),
        (1.5, float32, ()),
        (True, bool_, ()),
        (1j, complex64, ()),
        ([], float32, (0,)),
        ([[1, 2], [3, 4]], int64, (2, 2)),
        ([1, 2.5], float32, (2,)),
        (np.zeros((2, 1)), float64, (2, 1)),
        (np.float32(2), float32, ()),
    ],
)
def test_data_gives_pytorchs_dtype_and_shape(data, dtype, shape):
    found = tensor(data)
    assert found.dtype is dtype
    assert found.shape == Size(shape)
    np.testing.assert_array_equal(found.numpy(), np.asarray(data).astype(dtype.numpy))


def test_bad_data_is_refused_with_codes():
    assert code_of(lambda: tensor([[1, 2], [3]])) == "A005"
    assert code_of(lambda: tensor("text")) == "A001"
    assert code_of(lambda: tensor([1 << 70])) == "D007"
    assert code_of(lambda: tensor([300], dtype="uint8")) == "D007"
    assert code_of(lambda: tensor([1], dtype="float99")) == "D004"
    assert code_of(lambda: tensor([1], requires_grad=True)) == "D005"
    assert code_of(lambda: zeros(2, -1)) == "S007"
    assert code_of(lambda: zeros(2, device="gpu")) == "V001"


def test_creation_functions_fill():
    assert zeros(2, 3).tolist() == [[0.0] * 3] * 2
    assert ones((2,), dtype=int32).dtype is int32
    assert full((2, 2), 7).dtype is int64
    assert arange(5).tolist() == [0, 1, 2, 3, 4]
    assert arange(1, 7, 2).tolist() == [1, 3, 5]
    assert arange(0.0, 1.0, 0.25).tolist() == [0.0, 0.25, 0.5, 0.75]
    assert eye(2).tolist() == [[1.0, 0.0], [0.0, 1.0]]
    assert zeros_like(tensor([1, 2])).tolist() == [0, 0]
    assert empty(3, 0).shape == (3, 0)


def test_numpy_shares_memory_both_ways():
    array = np.arange(6.0).reshape(2, 3)[:, ::2]
    shared = from_numpy(array)
    assert shared.stride() == (3, 2)
    shared[0, 1] = 9.0
    assert array[0, 1] == 9.0
    shared.numpy()[1, 0] = -1.0
    assert shared[1, 0].item() == -1.0
    assert as_tensor(array).data_ptr() == shared.data_ptr()
    assert np.asarray(shared).base is not None


def test_arrays_that_cannot_be_shared_are_refused():
    for array in (np.arange(3.0)[::-1], np.array(["a"]), np.arange(3.0).astype(">f8")):
        assert code_of(lambda array=array: from_numpy(array)) == "M002"


def test_read_only_memory_is_shared_with_a_warning():
    readonly = np.arange(3.0)
    readonly.flags.writeable = False
    for name, make in (
        ("from_numpy", lambda: from_numpy(readonly)),
        ("frombuffer", lambda: rl.frombuffer(readonly, dtype=rl.float64)),
    ):
        forget_warnings()
        with pytest.warns(UserWarning, match=f"{name}: the memory is read-only"):
            shared = make()
        assert shared.data_ptr() == readonly.ctypes.data and shared.tolist() == [0.0, 1.0, 2.0]
    forget_warnings()
    with pytest.warns(UserWarning, match="read-only"):
        assert rl.frombuffer(b"ab", dtype=rl.uint8).tolist() == [97, 98]


def test_numpy_takes_tensors_in_any_dtype_and_gives_them_back():
    source = tensor([[1.0, 2.0], [3.0, 4.0]])
    shown = np.asarray(source)
    assert np.shares_memory(shown, source.numpy()) and not np.shares_memory(np.array(source), shown)
    assert np.asarray(source, dtype=np.float64).dtype == np.float64 and np.asarray(source, np.float32) is not None
    assert source.__array__(np.float32, copy=False).dtype == np.float32
    assert code_of(lambda: source.__array__(np.float64, copy=False)) == "A002"
    target = np.zeros((2, 2))
    target[:] = source
    assert target.tolist() == source.tolist()
    found = np.sin(source)
    assert type(found) is rl.Tensor and found.dtype is rl.float32
    np.testing.assert_array_equal(found.numpy(), np.sin(shown))
    assert np.isnan(source).dtype is rl.bool
    assert type(np.sqrt(shown, out=shown)) is np.ndarray


@pytest.mark.core
def test_tensors_are_buffers():
    x = rl.arange(6.0).reshape(2, 3).t()
    asked = memoryview if sys.version_info >= (3, 12) else lambda tensor: tensor.__buffer__(0)
    view = asked(x)
    assert view.shape == (3, 2) and view.format == "f" and view.tolist() == x.tolist()
    view[2, 1] = 7.0
    assert x[2, 1].item() == 7
    assert code_of(lambda: rl.ones(2, requires_grad=True).__buffer__(0)) == "G012"
    with pytest.raises(BufferError):
        asked(rl.ones(2, dtype=rl.bfloat16))


def test_arrays_are_operands_of_operators():
    source = tensor([1.0, 2.0, 3.0])
    array = np.array([1.0, 5.0, -3.0], dtype=np.float32)
    for found, expected in (
        (source == array, source.numpy() == array),
        (array == source, source.numpy() == array),
        (source != array, source.numpy() != array),
        (source < array, source.numpy() < array),
        (array - source, array - source.numpy()),
        (source @ array, source.numpy() @ array),
        (source + array[::-1], source.numpy() + array[::-1]),
        (source * array.astype(np.float64), source.numpy() * array.astype(np.float64)),
    ):
        assert type(found) is rl.Tensor
        np.testing.assert_array_equal(found.numpy(), expected)
        assert found.numpy().dtype == expected.dtype
    source += array
    assert source.tolist() == [2.0, 7.0, 0.0]
    assert code_of(lambda: rl.add(source, array)) == "A001"
    assert code_of(lambda: rl.compile(lambda x: x + array, fullgraph=True)(source)) == "C002"


def test_dlpack_shares_memory_both_ways():
    source = tensor([1.0, 2.0])
    seen = np.from_dlpack(source)
    source.add_(1)
    assert seen.tolist() == [2.0, 3.0]
    assert source.__dlpack_device__() == (1, 0)
    array = np.arange(4.0)[::2]
    shared = from_dlpack(array)
    shared.mul_(10)
    assert array.tolist() == [0.0, 20.0]
    again = from_dlpack(source)
    assert again.data_ptr() == source.data_ptr()
    assert code_of(lambda: from_dlpack(tensor([1.0], requires_grad=True))) == "G012"


def test_dlpack_has_every_dtype_and_both_forms_of_capsules():
    for name, dtype in BY_NAME.items():
        source = rl.ones(2, 3, dtype=dtype).T
        if name.startswith("float8"):
            with pytest.raises(BufferError):
                source.__dlpack__()
            continue
        for capsule in (source, source.__dlpack__(), source.__dlpack__(max_version=(1, 1))):
            found = from_dlpack(capsule)
            assert found.dtype is dtype and found.stride() == (1, 3) and found.data_ptr() == source.data_ptr(), name
            assert found.tolist() == source.tolist()
        if dtype.numpy.isbuiltin == 1:  # numpy itself does not read bfloat16
            assert np.from_dlpack(source).dtype == dtype.numpy
    assert "dltensor_versioned" in repr(tensor([1.0]).__dlpack__(max_version=(1, 0)))
    assert "dltensor_versioned" not in repr(tensor([1.0]).__dlpack__(max_version=(0, 8)))
    assert from_dlpack(rl.ones(0, 3)).shape == (0, 3)


def test_dlpack_copies_where_asked_and_where_memory_is_read_only():
    source = tensor([1.0, 2.0])
    assert from_dlpack(source, copy=True).data_ptr() != source.data_ptr()
    assert np.from_dlpack(source, copy=True).tolist() == [1.0, 2.0]
    array = np.arange(3.0)
    array.flags.writeable = False
    shown = from_dlpack(array)
    shown.add_(1)
    assert array.tolist() == [0.0, 1.0, 2.0] and shown.tolist() == [1.0, 2.0, 3.0]
    capsule = source.__dlpack__()
    from_dlpack(capsule)
    for wrong in (
        lambda: from_dlpack(array, copy=False),
        lambda: from_dlpack(capsule),
        lambda: from_dlpack(3),
        lambda: from_dlpack(datetime.datetime_CAPI),
        lambda: from_dlpack(np.array(["a"])),
        lambda: source.__dlpack__(dl_device=(2, 0)),
        rl.ones(2, device="meta").__dlpack_device__,
    ):
        assert code_of(wrong) == "M002"
    assert code_of(lambda: source.__dlpack__(stream=3)) == "A002"


def test_pytorch_is_needed_for_its_tensors():
    assert code_of(lambda: rl.from_torch(np.ones(2))) == "A001"
    if "torch" not in sys.modules:
        assert code_of(lambda: rl.to_torch(rl.ones(2))) == "A006"


def test_values_leave_as_python_numbers():
    assert tensor(2.5).item() == 2.5
    assert int(tensor([3])) == 3
    assert float(tensor(3)) == 3.0
    assert bool(tensor([0.0])) is False
    assert list(range(5))[tensor(2)] == 2
    assert f"{tensor(1.5):.2f}" == "1.50"
    assert code_of(lambda: bool(tensor([1, 2]))) == "S015"
    assert code_of(lambda: tensor([1, 2]).item()) == "S015"
    assert len(tensor([[1], [2]])) == 2
    assert [row.tolist() for row in tensor([[1], [2]])] == [[1], [2]]
    assert 2 in tensor([1, 2])


RNG = np.random.default_rng(0)
BASIC = [
    (0,),
    (-1, 2),
    (slice(1, None), slice(None, None, 2)),
    (Ellipsis, 1),
    (None, slice(None), 0, None),
    (slice(5, 9),),
    (slice(-2, None), Ellipsis, slice(0, 1)),
]
ADVANCED = [
    ([0, 2, -1],),
    (slice(None), [1, 0]),
    ([0, 1], slice(None), [2, 3]),
    (np.array([[0], [1]]), np.array([0, 2])),
    (np.array([True, False, True]),),
    (slice(None), np.array([[True, False, True, False], [False, True, False, True], [True, True, False, False]])),
    (None, [1, 1], 0),
]


@pytest.mark.parametrize("index", BASIC, ids=str)
def test_basic_indices_are_views(index):
    array = RNG.integers(-9, 9, (3, 3, 4)).astype(np.float32)
    found = tensor(array)
    part = found[index]
    np.testing.assert_array_equal(part.numpy(), array[index])
    part.zero_()
    array[index] = 0
    np.testing.assert_array_equal(found.numpy(), array)


@pytest.mark.parametrize("index", ADVANCED, ids=str)
def test_advanced_indices_copy_and_write(index):
    array = RNG.integers(-9, 9, (3, 3, 4)).astype(np.float32)
    found = tensor(array)
    np.testing.assert_array_equal(found[index].numpy(), array[index])
    found[index] = 5.0
    array[index] = 5.0
    np.testing.assert_array_equal(found.numpy(), array)
    values = RNG.integers(0, 9, array[index].shape).astype(np.float32)
    found[index] = tensor(values)
    array[index] = values
    np.testing.assert_array_equal(found.numpy(), array)


def test_bad_indices_are_refused_with_codes():
    found = tensor(np.zeros((3, 4), np.float32))
    assert code_of(lambda: found[3]) == "I001"
    assert code_of(lambda: found[[0, 5]]) == "I001"
    assert code_of(lambda: found[0, 0, 0]) == "I003"
    assert code_of(lambda: found["a"]) == "I004"
    assert code_of(lambda: found[tensor([1.0])]) == "I004"
    assert code_of(lambda: found[tensor([True, False])]) == "I005"
    assert code_of(lambda: found[::-1]) == "I008"
    with pytest.raises(IndexError):
        found[-4]


def test_in_place_forms_write_through_views_and_count_versions():
    base = tensor([[1.0, 2.0], [3.0, 4.0]])
    view = base[:, 1]
    assert view._base is base
    before = base._version
    assert view.mul_(10) is view
    assert base.tolist() == [[1.0, 20.0], [3.0, 40.0]]
    assert base._version == view._version == before + 1
    base += 1
    assert view.tolist() == [21.0, 41.0]
    assert base.data._version == 0


def test_in_place_forms_keep_shape_and_dtype():
    target = tensor([1, 2])
    assert code_of(lambda: target.add_(1.5)) == "D003"
    assert code_of(lambda: target.add_(tensor([[1, 2], [3, 4]]))) == "S009"
    assert code_of(lambda: tensor([1.0]).expand(3).add_(1)) == "S013"
    assert target.add_(True).tolist() == [2, 3]
    single = tensor([1.0], dtype=float32)
    assert single.add_(tensor([0.5], dtype=float64)).dtype is float32


def test_overlapping_operands_are_read_before_they_are_written():
    base = arange(6).float()
    base[1:].copy_(base[:-1])
    assert base.tolist() == [0.0, 0.0, 1.0, 2.0, 3.0, 4.0]
    base = arange(6).float()
    base[:-1].add_(base[1:])
    assert base.tolist() == [1.0, 3.0, 5.0, 7.0, 9.0, 5.0]
    square = arange(9).float().reshape(3, 3)
    square.copy_(square.mT)
    assert square.tolist() == [[0.0, 3.0, 6.0], [1.0, 4.0, 7.0], [2.0, 5.0, 8.0]]
    self_sum = arange(3).float()
    assert self_sum.add_(self_sum).tolist() == [0.0, 2.0, 4.0]


def test_out_forms_write_their_target():
    target = empty(2)
    strided = zeros(2, 2)[:, 0]
    assert add(tensor([1.0, 2.0]), 1.0, out=target) is target
    assert target.tolist() == [2.0, 3.0]
    mul(tensor([1.0, 2.0]), target, out=strided)
    assert strided.tolist() == [2.0, 6.0]
    add(target, target, out=target)
    assert target.tolist() == [4.0, 6.0]
    assert code_of(lambda: add(tensor([1.0]), 1.0, out=target)) == "S009"


def test_numbers_follow_pytorchs_promotion():
    assert (tensor([1, 2]) + 1.5).dtype is float32
    assert (tensor([1.0]) * 2).dtype is float32
    assert (tensor([1], dtype=int32) + 1).dtype is int32
    assert (tensor([1.0]) + tensor(1.0, dtype=float64)).dtype is float32
    assert (tensor([[1.0]]) + tensor(1.0, dtype=float64)).dtype is float32
    assert (tensor(1.0) + tensor(1.0, dtype=float64)).dtype is float64
    assert (2.0 - tensor([1.0])).tolist() == [1.0]
    assert (np.float64(2.0) * tensor([1.0])).tolist() == [2.0]


def test_conversions_return_the_tensor_itself_where_nothing_changes():
    found = tensor([1.5, -2.5])
    assert found.to(float32) is found
    assert found.float() is found
    assert found.contiguous() is found
    assert found.to("cpu") is found
    assert found.to(int64).tolist() == [1, -2]
    assert found.double().dtype is float64
    assert found.bool().tolist() == [True, True]
    assert found.to(found, copy=True) is not found
    assert tensor([[1, 2], [3, 4]]).mT.contiguous().stride() == (2, 1)


def test_results_keep_the_layout_of_dense_operands():
    found = tensor(np.zeros((2, 3, 4), np.float32)).permute(2, 0, 1)
    assert (found + 1).stride() == found.stride()
    assert (found + found.contiguous()).stride() == found.stride()
    assert (found[:, :, ::2] + 1).is_contiguous() is False


@pytest.mark.parametrize("shape", [(0,), (3, 0, 2), (1,), (1, 1), (2, 1, 3)])
def test_empty_and_single_sizes_work(shape):
    array = np.arange(int(np.prod(shape)), dtype=np.float32).reshape(shape)
    found = tensor(array)
    np.testing.assert_array_equal((found + 1).numpy(), array + 1)
    np.testing.assert_array_equal((found * found).sum().numpy(), (array * array).sum())
    found += 1
    np.testing.assert_array_equal(found.numpy(), array + 1)


def test_copies_and_pickles_keep_values_layout_and_attributes():
    source = tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
    source.mark = "kept"
    for again in (pickle.loads(pickle.dumps(source)), copy.deepcopy(source)):
        assert again.tolist() == source.tolist()
        assert again.requires_grad
        assert again.data_ptr() != source.data_ptr()
    assert pickle.loads(pickle.dumps(source)).mark == "kept"
    view = tensor([[1.0, 2.0], [3.0, 4.0]]).mT
    again = pickle.loads(pickle.dumps(view))
    assert again.tolist() == view.tolist()
    assert again.stride() == view.stride()
    overlapping = tensor([*range(15)]).as_strided((3, 5), (3, 2))  # reaches over 15 elements, and has 15
    again = pickle.loads(pickle.dumps(overlapping))
    assert again.tolist() == overlapping.tolist()
    assert again.is_contiguous()
    parameter = pickle.loads(pickle.dumps(Parameter(tensor([1.0]))))
    assert type(parameter) is Parameter
    assert parameter.requires_grad
    assert code_of(lambda: pickle.dumps(source * 2)) == "G012"
    shared = {}
    pair = copy.deepcopy([source, source], shared)
    assert pair[0] is pair[1]


def test_parameters_are_tensors_that_want_gradients():
    data = tensor([1.0, 2.0])
    found = Parameter(data)
    assert isinstance(found, Tensor)
    assert found.requires_grad
    assert found.is_leaf
    assert found.data_ptr() == data.data_ptr()
    assert type(found * 2) is Tensor
    assert repr(found) == "Parameter containing:\ntensor([1., 2.], requires_grad=True)"


def test_comparison_is_elementwise_and_hash_is_identity():
    one = tensor([1.0, 2.0])
    assert (one == tensor([1.0, 3.0])).tolist() == [True, False]
    assert (one != 1).tolist() == [False, True]
    assert (one == "text") is False
    assert len({one, tensor([1.0, 2.0])}) == 2


def test_lists_of_tensors_are_operands():
    assert stack([tensor([1, 2]), tensor([3, 4])]).tolist() == [[1, 2], [3, 4]]


def test_shapes_are_tuples_that_know_their_size():
    shape = zeros(2, 3).shape
    assert shape.numel() == 6
    assert shape[:1] == (2,)
    assert isinstance(shape[:1], Size)
    assert repr(shape) == "rushlight.Size([2, 3])"
    assert pickle.loads(pickle.dumps(shape)) == shape


def test_indices_out_of_range_are_refused_wherever_operators_take_them():
    from rushlight.eager.functions import cross_entropy, embedding, gather, index_select

    table, index = ones(4, 2), tensor([0, 4])
    assert code_of(lambda: embedding(index, table)) == "I001"
    assert code_of(lambda: index_select(table, 0, index)) == "I001"
    assert code_of(lambda: gather(table, 1, tensor([[2]]))) == "I001"
    assert code_of(lambda: rl.scatter(table, 0, tensor([[-5]]), tensor([[1.0]]))) == "I001"
    assert code_of(lambda: cross_entropy(table, tensor([0, 1, 2, 0]))) == "I001"
    assert cross_entropy(table, tensor([0, 1, -100, 0])).item() > 0
    assert gather(table, 1, tensor([[-2]])).tolist() == [[1.0]]
    for without in (zeros(1, 0), zeros(0, 2)):  # of which no element is written
        dim = without.shape.index(0)
        assert code_of(lambda without=without, dim=dim: without.scatter_(dim, tensor([[0]]), 1.0)) == "I001"
        assert code_of(lambda without=without, dim=dim: without.scatter_add_(dim, tensor([[0]]), ones(1, 1))) == "I001"
        assert code_of(lambda without=without: without.index_put_((tensor([0]), tensor([0])), tensor(1.0))) == "I001"


def test_strided_views_stay_within_their_storage():
    base = arange(12).float()
    part = base[2:]
    assert as_strided(part, (2, 2), (3, 1)).tolist() == [[2.0, 3.0], [5.0, 6.0]]
    assert as_strided(part, (2,), (1,), 0).tolist() == [0.0, 1.0]
    assert as_strided(base[:3], (6,), (2,)).tolist() == [0.0, 2.0, 4.0, 6.0, 8.0, 10.0]
    assert code_of(lambda: as_strided(base, (7,), (2,))) == "S012"
    assert code_of(lambda: as_strided(base, (2,), (1,), 11)) == "S012"


def test_devices_are_named_as_in_pytorch():
    assert (Device("cpu:0").type, Device("cpu:0").index) == ("cpu", 0)
    assert Device("cpu", 0) == Device("cpu:0") != Device("cpu")
    assert str(Device(Device("meta:1"))) == "meta:1"
    assert zeros(2, device="cpu:0").device == CPU  # there is one
    assert (zeros(2, device="cpu:3") + ones(2)).device is CPU
    for name in ("cpu:", "cpu:x", "cpu:-1", "", "two words"):
        with pytest.raises(RushlightError, match="is not a device"):
            Device(name)
    with pytest.raises(RushlightError, match="is not a device"):
        Device("cpu:0", 1)


def test_pythons_own_errors_name_tensor():
    with pytest.raises(TypeError, match=r"Tensor\.add\(\) takes"):
        ones(3).add(1, 2, 3)


def test_reversed_is_a_tensor():
    x = arange(6).reshape(3, 2)
    assert reversed(x).tolist() == [[4, 5], [2, 3], [0, 1]]
    assert reversed(tensor(3)).item() == 3


def test_a_tensor_without_elements_has_no_address():
    x = arange(3)
    assert zeros(0).data_ptr() == x[3:].data_ptr() == 0 != x.data_ptr()


def test_new_takes_its_size_by_name():
    made = arange(3).new(size=(2, 3))
    assert made.shape == (2, 3) and made.dtype is arange(3).dtype


# What torch 2.13 makes of sequences that hold numbers of numpy, arrays and tensors.
@pytest.mark.parametrize(
    ("data", "dtype", "shape"),
    [
        ([np.float64(2)], rl.float64, (1,)),
        ([np.float32(1), 2.0], rl.float32, (2,)),
        ([np.float16(1), np.float32(1)], rl.float32, (2,)),
        ([np.int8(1), 3], rl.int64, (2,)),
        ([np.int8(1), 2.0], rl.float32, (2,)),
        ((np.uint8(1), np.int8(1)), rl.int16, (2,)),
        ([np.complex128(1)], rl.complex128, (1,)),
        ([np.bool_(True)], rl.bool, (1,)),
        ([np.ones(2), np.zeros(2)], rl.float64, (2, 2)),
        ([[np.ones(2)], [np.ones(2, np.float32)]], rl.float64, (2, 1, 2)),
        ([np.ones(2, np.float16), [1.0, 2.0]], rl.float32, (2, 2)),
        ([np.ones(0)], rl.float64, (1, 0)),
        ([rl.ones((), dtype=rl.float64), 2], rl.float64, (2,)),
        ([rl.ones(1), rl.ones(1)], rl.float32, (2,)),
        ([rl.ones(1, 1, dtype=rl.int32), 1], rl.int64, (2,)),
        ([[rl.ones(1)], [2]], rl.float32, (2, 1)),
        ([1, 2.0], rl.float32, (2,)),
    ],
)
@pytest.mark.parametrize("make", [rl.tensor, rl.as_tensor])
def test_sequences_have_the_dtype_that_their_members_share(make, data, dtype, shape):
    made = make(data)
    assert made.dtype is dtype and made.shape == shape
    assert make(data, dtype=rl.complex64).dtype is rl.complex64


@pytest.mark.parametrize("number", [float("nan"), float("inf"), 1e20, -3e9])
def test_floats_that_no_integer_is_near_do_not_become_one(number):
    for data in (number, [1.0, number], [[number]]):
        assert code_of(lambda data=data: tensor(data, dtype=rl.int32)) == "D007"
    assert tensor([1.9, -1.9], dtype=rl.int32).tolist() == [1, -1]
    assert tensor([number], dtype=rl.bool).tolist() == [True]
