"""What a tensor shows of its memory: in-place changes of its dims, memory formats, storages. Facts are PyTorch's."""

import copy
import pickle
from pathlib import Path

import pytest

import rushlight as rl
from rushlight.support.errors import RushlightError


def failure(function, *args, **named):
    with pytest.raises(RushlightError) as error:
        function(*args, **named)
    return error.value.code


def rows(*shape):
    return rl.arange(float(rl.Size(shape).numel())).reshape(shape).clone()


def test_views_follow_a_tensor_whose_dims_change():
    x = rows(2, 3).requires_grad_()
    y = x * 2
    before = y[0]
    assert y.t_() is y and y.shape == (3, 2) and y.stride() == (1, 3)
    after = y[1]
    before.mul_(3)  # a view of what y was
    after.add_(y[0].clone() * 2)
    y.unsqueeze_(0).mul_(2)
    (y**2).sum().backward()
    assert y.tolist() == [[[0.0, 12.0], [12.0, 40.0], [24.0, 20.0]]]
    assert before.tolist() == [0.0, 12.0, 24.0]
    assert x.grad.tolist() == [[576.0, 288.0, 576.0], [736.0, 320.0, 160.0]]


def test_a_view_that_changes_its_dims_writes_through():
    x = rows(2, 3).requires_grad_()
    y = x * 1
    view = y.view(3, 2)
    view.transpose_(0, 1)
    view[0] = view[1] * 2
    view.squeeze_()
    (y * rows(2, 3)).sum().backward()
    assert y.tolist() == [[2.0, 1.0, 6.0], [3.0, 10.0, 5.0]]
    assert x.grad.tolist() == [[0.0, 1.0, 0.0], [7.0, 0.0, 13.0]]


@pytest.mark.parametrize(
    ("change", "shape", "strides"),
    [
        (lambda x: x.t_(), (3, 2), (1, 3)),
        (lambda x: x.transpose_(0, -1), (3, 2), (1, 3)),
        (lambda x: x.swapaxes_(1, 0), (3, 2), (1, 3)),
        (lambda x: x.unsqueeze_(-1), (2, 3, 1), (3, 1, 1)),
        (lambda x: x.unsqueeze_(1).squeeze_(), (2, 3), (3, 1)),
        (lambda x: x.squeeze_((0, -1)), (2, 3), (3, 1)),
        (lambda x: x.as_strided_((2, 2), (2, 1), 1), (2, 2), (2, 1)),
        (lambda x: x.resize_(3, 1), (3, 1), (1, 1)),
        (lambda x: x.resize_as_(rl.zeros(4)), (4,), (1,)),
        (lambda x: x.resize_(5, 5), (5, 5), (5, 1)),
        (lambda x: x.set_(), (0,), (1,)),
        (lambda x: x.set_(rl.arange(8.0), 2, (2, 2), (3, 1)), (2, 2), (3, 1)),
        (lambda x: x.set_(rl.arange(8.0).untyped_storage()), (8,), (1,)),
    ],
)
def test_dims_change_in_place(change, shape, strides):
    x = rows(2, 3)
    assert change(x) is x and x.shape == shape and x.stride() == strides


def test_memory_that_is_resized_keeps_its_elements():
    x = rl.arange(6.0)
    part = x[2:]
    part.resize_(2, 2)
    part.mul_(2)
    assert x.tolist() == [0.0, 1.0, 4.0, 6.0, 8.0, 10.0]
    assert x.resize_(8)[:6].tolist() == [0.0, 1.0, 4.0, 6.0, 8.0, 10.0]
    other = rl.zeros(2)
    other.set_(x)
    other[0] = 7.0
    assert x[0] == 7.0 and other.is_set_to(x) and not other.is_set_to(x[1:])


def test_what_may_not_change_is_refused():
    leaf = rl.ones(2, 3, requires_grad=True)
    assert failure(leaf.t_) == "G002" and failure(leaf.resize_, 2) == "G002" and failure(leaf[0].squeeze_) == "G006"
    assert failure(rl.zeros(2).set_, rl.arange(3)) == "D002"
    assert failure(rl.zeros(2).set_, rl.arange(3.0).untyped_storage(), 2, (2,)) == "S012"
    assert failure(rl.compile(lambda x: x.t_(), fullgraph=True), rl.ones(2, 3)) == "A006"
    assert failure(rl.ones(2).reinforce, 1) == "A006" and failure(rl.abs_, 3.0) == "A001"
    with rl.no_grad():
        leaf.t_()
    (leaf * rows(3, 2)).sum().backward()
    assert leaf.is_leaf and leaf.grad.tolist() == [[0.0, 1.0], [2.0, 3.0], [4.0, 5.0]]


def test_saved_tensors_notice():
    x = rl.ones(2, 3, requires_grad=True) * 2
    total = (x * x).sum()
    x.t_()
    assert failure(total.backward) == "G003"


def test_dims_change_in_compiled_and_mapped_functions():
    def double(x):
        y = x * 2
        row = y[0]
        y.t_()
        y.mul_(3)
        return y.unsqueeze_(0), row + 1

    eager, compiled = double(rows(2, 3)), rl.compile(double)(rows(2, 3))
    assert [one.tolist() for one in eager] == [one.tolist() for one in compiled]
    assert compiled[0].shape == (1, 3, 2) and compiled[1].tolist() == [1.0, 7.0, 13.0]
    assert rl.vmap(lambda x: (x * 2).unsqueeze_(0))(rows(2, 3)).shape == (2, 1, 3)


def test_formats_are_orders_of_strides():
    x = rows(2, 3, 4, 5).requires_grad_()
    last = x.contiguous(memory_format=rl.channels_last)
    assert last.stride() == (60, 1, 15, 3) and last.tolist() == x.tolist() and last.dim_order() == (0, 2, 3, 1)
    assert last.is_contiguous(memory_format=rl.channels_last) and not last.is_contiguous()
    assert last.contiguous(memory_format=rl.channels_last) is last and x.to(memory_format=rl.preserve_format) is x
    last.sum().backward()
    assert x.grad.shape == x.shape
    assert rl.empty(2, 3, 4, 5, memory_format=rl.channels_last).stride() == (60, 1, 15, 3)
    assert rl.randn_like(x, memory_format=rl.channels_last).stride() == (60, 1, 15, 3)
    assert rl.zeros(2, 3).t().clone(memory_format=rl.contiguous_format).stride() == (2, 1)
    assert failure(rl.ones(2, 3).contiguous, memory_format=rl.channels_last) == "A002"
    assert rl.empty_like(last).stride() == last.stride() and rl.empty_like(last[:, 1]).is_contiguous()
    assert repr(rl.channels_last) == "rushlight.channels_last" and rl.zeros(1, layout=rl.strided).layout is rl.strided
    orders = [rl.zeros(2, 3, 4, 5).permute(dims).dim_order() for dims in ((3, 1, 0, 2), (2, 0, 1, 3), (1, 0, 3, 2))]
    assert orders == [(2, 1, 3, 0), (1, 2, 0, 3), (1, 0, 3, 2)]
    assert rl.zeros(2, 1, 3).expand(2, 4, 3).permute(1, 2, 0).dim_order() == (0, 2, 1)
    assert failure(rl.ones(1, 2).dim_order, ambiguity_check=True) == "A002"


def test_storages_are_bytes_that_views_share():
    x = rl.arange(4.0)
    storage = x.untyped_storage()
    assert storage == x[1:].untyped_storage() and storage != x.clone().untyped_storage()
    assert storage.nbytes() == len(storage) == 16 and storage.data_ptr() == x.data_ptr() and storage[6] == 128
    storage.copy_(rl.arange(4.0).flip(0).untyped_storage())
    assert x.tolist() == [3.0, 2.0, 1.0, 0.0] and storage.clone().tolist() == storage.tolist()
    typed = rl.TypedStorage(wrap_storage=storage, dtype=rl.float32)
    typed[1] = 9.0
    assert typed.tolist() == x.tolist() == [3.0, 9.0, 1.0, 0.0] and typed.size() == 4
    assert storage.fill_(0) is storage and x.sum() == 0
    assert rl.zeros(3, device="meta").untyped_storage().nbytes() == 12


def test_functions_of_python_write_elements():
    assert rl.arange(4.0).apply_(lambda value: value + 1).tolist() == [1.0, 2.0, 3.0, 4.0]
    assert rl.arange(3).apply_(lambda value: value + 0.7).tolist() == [0, 1, 2]
    assert rl.ones(2, 2).map_(rl.arange(2.0), lambda a, b: a - b).tolist() == [[1.0, 0.0], [1.0, 0.0]]
    assert rl.ones(2).map2_(rl.ones(2), rl.arange(2.0), lambda a, b, c: a + b + c).tolist() == [2.0, 3.0]
    assert failure(rl.ones(2).map_, rl.ones(2).long(), max) == "D002"
    assert failure(rl.ones(2, requires_grad=True).apply_, abs) == "G002"


def test_the_bytes_of_a_file_are_memory(tmp_path: Path):
    path = tmp_path / "bytes"
    path.write_bytes(bytes(range(16)))
    own = rl.UntypedStorage.from_file(str(path), False, 8)
    own[3] = 9
    assert (own.nbytes(), own[3], path.read_bytes()[3]) == (8, 9, 3)
    assert rl.UntypedStorage.from_file(path).nbytes() == 16
    shared = rl.UntypedStorage.from_file(path, shared=True, nbytes=32)
    shared[3] = 9
    assert len(path.read_bytes()) == 32 and path.read_bytes()[3] == 9
    tensor = rl.tensor([], dtype=rl.uint8)
    tensor.set_(shared, 0, (5,))
    assert tensor.tolist() == [0, 1, 2, 9, 4]
    empty = tmp_path / "empty"
    empty.touch()
    assert rl.UntypedStorage.from_file(empty).nbytes() == 0
    for nbytes in (33, -1):
        with pytest.raises(rl.ArgumentError, match="bytes"):
            rl.UntypedStorage.from_file(path, nbytes=nbytes)


def test_typed_storages_are_elements():
    x = rl.arange(4.0)
    storage = x.storage()
    assert type(storage) is rl.TypedStorage and isinstance(storage, rl.FloatStorage) and rl.is_storage(storage)
    assert storage.type() == "torch.FloatStorage" and x.storage_type() is rl.FloatStorage
    storage[1] = 9.0
    storage[0:1] = 7.0
    assert x.tolist() == storage.tolist() == [7.0, 9.0, 2.0, 3.0] and storage[-1] == 3.0 and len(storage) == 4
    assert storage.clone().fill_(2).tolist() == [2.0] * 4 and storage.float() is storage
    assert storage.copy_(rl.LongStorage([1, 2, 3, 4])).tolist() == x.tolist() == [1.0, 2.0, 3.0, 4.0]
    assert (storage.nbytes(), storage.element_size(), storage.data_ptr()) == (16, 4, x.data_ptr())
    assert rl.zeros(0).set_(rl.FloatStorage([1, 2, 3]), 1, (2,)).tolist() == [2.0, 3.0]
    assert rl.DoubleStorage(3).size() == 3 and rl.TypedStorage([1, 2], dtype=rl.int8).tolist() == [1, 2]
    assert rl.IntStorage().tolist() == [] and rl.ShortStorage.from_buffer(b"\1\0\2\0", "little").tolist() == [1, 2]
    copied, other = copy.deepcopy([storage, storage.untyped()])
    assert copied.untyped() == other != storage.untyped() and copied.tolist() == storage.tolist()
    assert pickle.loads(pickle.dumps(storage)).tolist() == storage.tolist()


@pytest.mark.parametrize(
    ("name", "dtype"),
    [
        *(("bool", rl.bool), ("byte", rl.uint8), ("char", rl.int8), ("short", rl.int16), ("int", rl.int32)),
        *(("long", rl.int64), ("half", rl.float16), ("bfloat16", rl.bfloat16), ("float", rl.float32)),
        *(("double", rl.float64), ("complex_float", rl.complex64), ("complex_double", rl.complex128)),
    ],
)
def test_typed_storages_convert(name, dtype):
    converted = getattr(rl.ByteStorage([0, 1]), name)()
    assert converted.dtype is dtype and converted.tolist() == rl.tensor([0, 1]).to(dtype).tolist()
    assert rl.ByteStorage([0, 1]).type(converted.type()).dtype is dtype


def test_tensors_follow_a_storage_that_is_resized():
    x = rl.arange(4.0)
    part, doubled = x[:2], rl.compile(lambda: x[:2] * 2)
    assert doubled().tolist() == [0.0, 2.0]
    storage = x.untyped_storage()
    assert storage.resize_(32).nbytes() == 32 and storage.resizable()
    x.mul_(10)
    assert part.tolist() == [0.0, 10.0] and doubled().tolist() == [0.0, 20.0]
    assert x.as_strided((8,), (1,))[:4].tolist() == [0.0, 10.0, 20.0, 30.0]
    storage.resize_(8)
    assert part.tolist() == [0.0, 10.0] and failure(x.tolist) == "S012" and len(x.storage()) == 2
    storage.resize_(0)
    storage.resize_(16)
    assert x.tolist() == [0.0, 10.0, 20.0, 30.0]
    grown = rl.ones(2)
    shown = grown[:1]
    grown.resize_(5).fill_(3.0)
    assert shown.tolist() == [3.0] and grown.untyped_storage() == shown.untyped_storage()
    assert failure(storage.resize_, -1) == "A002"


def test_parts_of_a_storage():
    x = rl.arange(4, dtype=rl.uint8)
    part = x.untyped_storage()[1:3]
    part.fill_(9)
    assert x.tolist() == [0, 9, 9, 3] and part.data_ptr() == x.data_ptr() + 1 and part[:0].nbytes() == 0
    assert rl.UntypedStorage([1, 2, 3]).tolist() == [1, 2, 3]
    assert rl.UntypedStorage.from_buffer(b"abcd", "big", dtype=rl.int16, count=2).tolist() == [*b"badc"]
    assert failure(lambda: part[::2]) == "A002" and failure(lambda: part[2]) == "I001"
    assert failure(lambda: part["a"]) == "A001" and failure(lambda: rl.FloatStorage(2)[5]) == "I001"
    assert failure(rl.UntypedStorage.from_buffer, b"ab", "middle") == "A002"
    assert failure(rl.TypedStorage, "ab") == "A001" and failure(lambda: rl.FloatStorage(2)[0:1]) == "A001"
    assert failure(rl.zeros(2).set_, rl.IntStorage(2)) == "D002"
