"""Functions of the public namespace that are overloaded or short: they do what PyTorch's do."""

import numpy as np
import pytest

import rushlight as rl
from rushlight.support.errors import RushlightError

X = rl.tensor([[3.0, 1.0, 2.0], [0.0, 5.0, 5.0]])


def test_extrema_are_overloaded():
    assert rl.max(X).item() == 5 and rl.min(X).item() == 0
    values, indices = rl.max(X, 1)
    assert values.tolist() == [3, 5] and indices.tolist() == [0, 1]
    assert rl.min(X, dim=0, keepdim=True).values.tolist() == [[0, 1, 2]]
    assert rl.max(X, rl.full((3,), 2.0)).tolist() == [[3, 2, 2], [2, 5, 5]]


def test_where_and_nonzero_find_places():
    rows, columns = rl.where(X > 2)
    assert rows.tolist() == [0, 1, 1] and columns.tolist() == [0, 1, 2]
    assert rl.nonzero(X > 2).tolist() == [[0, 0], [1, 1], [1, 2]]
    assert len(rl.nonzero(X, as_tuple=True)) == 2
    assert rl.where(X > 2, X, 0.0).tolist() == [[3, 0, 0], [0, 5, 5]]


@pytest.mark.parametrize(
    ("equation", "shape", "strides", "total"),
    [
        ("ii->i", (3, 3), (4,), 21),
        ("ij->ji", (2, 3), (1, 3), 30),
        ("ij", (2, 3), (3, 1), 30),
        ("ji", (2, 3), (1, 3), 30),
        ("bii->bi", (2, 3, 3), (9, 4), 42),
        ("...ij->...ji", (2, 3, 4), (12, 1, 4), 120),
        ("ij->i", (2, 3), (1,), 6),
        ("ii", (3, 3), (), 9),
    ],
)
@pytest.mark.parametrize("compiled", [False, True])
def test_einsum_without_a_sum_is_a_view(equation, shape, strides, total, compiled):
    def fill(x):
        y = rl.einsum(equation, x)
        y.fill_(5)
        return y

    x = rl.ones(*shape)
    y = (rl.compile(fill) if compiled else fill)(x)
    assert y.stride() == strides and x.sum().item() == total and y is not x
    w = rl.ones(*shape, requires_grad=True)
    rl.einsum(equation, w * 2).sum().backward()
    assert w.grad.sum().item() == 2 * np.einsum(equation, np.ones(shape)).sum()


def test_einsum_takes_operands_one_by_one_or_listed():
    expected = X.numpy() @ X.numpy().T
    np.testing.assert_allclose(rl.einsum("ij,kj->ik", X, X).numpy(), expected, rtol=1e-6)
    np.testing.assert_allclose(rl.einsum("ij,kj->ik", [X, X]).numpy(), expected, rtol=1e-6)


def test_broadcasting_by_name():
    assert rl.broadcast_shapes((3, 1), (4,), ()) == (3, 4) and rl.broadcast_shapes() == ()
    a, b = rl.broadcast_tensors(rl.ones(3, 1), rl.ones(4))
    assert a.shape == b.shape == (3, 4)
    with pytest.raises(rl.ShapeError):
        rl.broadcast_shapes((3,), (4,))


def test_meshgrid_refuses_several_dtypes():
    with pytest.raises(rl.DTypeError, match="meshgrid: tensors differ in dtype"):
        rl.meshgrid(rl.tensor([1]), rl.tensor([1.0]))


@pytest.mark.parametrize("numbers", [(float("nan"), 0.0), (0.0, float("inf"))])
def test_threshold_of_integers_refuses_what_they_cannot_be(numbers):
    with pytest.raises(rl.DTypeError, match="does not fit int64"):
        rl.threshold(rl.tensor([1]), *numbers)


@pytest.mark.parametrize("numbers", [(0, 300), (300, 0), (0, 1e30)])
def test_threshold_of_small_integers_does_not_wrap(numbers):
    with pytest.raises(rl.DTypeError, match="does not fit int8"):
        rl.threshold(rl.tensor([-5, 5], dtype=rl.int8), *numbers)


@pytest.mark.parametrize("indexing", ["ij", "xy"])
def test_meshgrid_is_numpys(indexing):
    arrays = [np.arange(2), np.arange(3), np.arange(4)]
    found = rl.meshgrid(*[rl.from_numpy(array) for array in arrays], indexing=indexing)
    for tensor, array in zip(found, np.meshgrid(*arrays, indexing=indexing), strict=True):
        np.testing.assert_array_equal(tensor.numpy(), array)
    with pytest.raises(ValueError, match="indexing must be"):
        rl.meshgrid(rl.ones(2), indexing="yx")


def test_stacks_and_dims():
    assert rl.hstack([rl.ones(2), rl.zeros(1)]).tolist() == [1, 1, 0]
    assert rl.hstack([X, X]).shape == (2, 6) and rl.vstack([X, rl.ones(3)]).shape == (3, 3)
    assert rl.atleast_1d(rl.tensor(1.0)).shape == (1,) and rl.atleast_2d(rl.tensor(1.0)).shape == (1, 1)
    assert rl.concatenate([X, X], 1).shape == (2, 6) and rl.clip(X, 1, 2).tolist() == [[2, 1, 2], [1, 2, 2]]


def test_scripts_may_ask_for_devices_that_are_not_there():
    device = rl.device("cuda" if rl.cuda.is_available() else "cpu")
    assert X.to(device) is X and rl.cuda.device_count() == 0
    rl.cuda.manual_seed_all(3)
    rl.cuda.set_rng_state_all(rl.cuda.get_rng_state_all())
    with pytest.raises(rl.DeviceError, match="there is no device cuda"):
        rl.cuda.set_rng_state_all([rl.get_rng_state()])
    with pytest.raises(AttributeError, match="has no"):
        rl.cuda.Stream()


def test_modes_that_are_always_on():
    rl.use_deterministic_algorithms(True)
    assert rl.are_deterministic_algorithms_enabled()
    rl.set_float32_matmul_precision("high")
    assert rl.get_float32_matmul_precision() == "highest"
    with pytest.raises(ValueError, match="takes one of"):
        rl.set_float32_matmul_precision("low")
    with rl.strict():
        assert (X + 1).shape == X.shape


def test_arguments_have_pytorchs_names():
    x, places = rl.tensor([[3.0, 1.0, 2.0], [0.0, 5.0, 4.0]]), rl.tensor([[0], [2]])
    assert rl.pow(input=x, exponent=2).tolist() == x.pow(exponent=2).tolist() == (x * x).tolist()
    assert rl.sort(input=x, dim=0).indices.tolist() == x.sort(0).indices.tolist()
    assert rl.topk(input=x, k=1).values.tolist() == rl.kthvalue(input=x, k=3, keepdim=True).values.tolist()
    assert rl.median(input=x).item() == 2 and rl.msort(input=x).tolist() == x.msort().tolist()
    assert rl.argsort(input=x).tolist() == x.argsort().tolist() and rl.unique(input=x).tolist() == [0, 1, 2, 3, 4, 5]
    assert rl.max(x, other=x + 1).tolist() == (x + 1).tolist() == x.max(other=x + 1).tolist()
    assert rl.concatenate((x, x), axis=1).tolist() == rl.cat((x, x), 1).tolist()
    assert rl.clone(x.t(), memory_format=rl.contiguous_format).is_contiguous()
    assert [part.tolist() for part in x.split(split_size=2, dim=1)] == [part.tolist() for part in x.split(2, 1)]
    assert rl.gather(x, 1, places, sparse_grad=False).tolist() == [[3.0], [4.0]]
    assert rl.fft.fftfreq(4, requires_grad=True).requires_grad and x.new_tensor([1], pin_memory=False).dtype is x.dtype
    with pytest.raises(RushlightError):
        rl.sort(input=[3.0])


def test_random_methods_take_generators():
    chances, stream = rl.full((64,), 0.5), rl.Generator()
    drawn = chances.bernoulli(generator=stream.manual_seed(3))
    assert drawn.tolist() == rl.bernoulli(chances, generator=stream.manual_seed(3)).tolist()
    assert 0 < drawn.sum() < 64 and chances.bernoulli(p=1.0).tolist() == [1.0] * 64
    picked = chances.multinomial(5, True, generator=stream.manual_seed(3))
    assert picked.tolist() == rl.multinomial(chances, 5, True, generator=stream.manual_seed(3)).tolist()
