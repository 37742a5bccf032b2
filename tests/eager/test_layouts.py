"""Results of pointwise operators on operands whose layouts differ: values, and the strides that PyTorch gives."""

import itertools

import numpy as np
import pytest

import rushlight as rl


def laid_out(array, order, gaps):
    """A tensor with an array's elements whose dims lie in memory in this order, outermost first."""
    inverse = np.argsort(order)
    tensor = rl.from_numpy(np.ascontiguousarray(array.transpose(order))).permute(tuple(inverse.tolist()))
    if gaps:
        wide = rl.zeros(*[2 * size for size in tensor.shape])
        tensor = wide[tuple([slice(None, None, 2)] * tensor.ndim)].copy_(tensor)
    return tensor


def numbers(shape):
    return np.arange(1, 1 + int(np.prod(shape)), dtype=np.float32).reshape(shape)


PAIRS = [
    (left, right)
    for left, right in itertools.product(itertools.product((2, 3, 1), repeat=3), repeat=2)
    if all(one == other or 1 in (one, other) for one, other in zip(left, right, strict=True))
][::7]


@pytest.mark.parametrize("gaps", [False, True])
def test_products_of_permuted_and_broadcast_operands(gaps):
    """Each pair of orders of dims and of broadcast dims has the values of numpy."""
    for left, right in PAIRS:
        for one, other in itertools.product(itertools.permutations(range(3)), repeat=2):
            a, b = numbers(left), numbers(right)
            found = laid_out(a, one, gaps) * laid_out(b, other, False)
            assert found.numpy().tolist() == (a * b).tolist(), (left, one, right, other)


def overlapping(shape, strides):
    return rl.arange(100.0).as_strided(shape, strides)


# Shapes and strides of operands, and the strides of their product in PyTorch 2.13.
STRIDES = [
    ([((2, 2), (2, 1)), ((2, 1, 2), (1, 4, 2))], (1, 2, 4)),
    ([((3, 1, 2), (1, 6, 3)), ((1, 4, 2), (8, 2, 1))], (1, 3, 12)),
    ([((2, 2, 2), (1, 2, 1)), ((1, 2, 2), (4, 2, 1))], (2, 4, 1)),
    ([((2, 2, 2), (1, 2, 1)), ((2, 1, 2), (1, 2, 2))], (1, 4, 2)),
    ([((2, 3, 1), (1, 2, 1)), ((2, 1, 4), (4, 1, 1))], (4, 8, 1)),
    ([((3, 3), (1, 1))], (3, 1)),
    ([((2, 3), (1, 1))], (1, 2)),
    ([((3, 2), (1, 1))], (2, 1)),
]


@pytest.mark.parametrize(("operands", "strides"), STRIDES)
def test_strides_are_those_of_pytorch(operands, strides):
    """The order of a result's dims, eager and compiled."""
    tensors = [overlapping(*operand) for operand in operands]

    def product(*tensors):
        result = tensors[0] * 1.0
        return result if len(tensors) == 1 else tensors[0] * tensors[1]

    assert product(*tensors).stride() == strides
    assert rl.compile(product)(*tensors).stride() == strides


def test_compiled_strides_follow_the_strides_of_each_call():
    """Strides that are symbols are compared for each call, so a result has eager's strides."""
    compiled = rl.compile(lambda x: x * 2.0)
    for strides in ((20, 3), (3, 20), (40, 5)):
        x = rl.arange(200.0).as_strided((3, 4), strides)
        assert compiled(x).stride() == (x * 2.0).stride()
        assert compiled(x).tolist() == (x * 2.0).tolist()


def test_windows_minus_their_mean():
    """Windows that overlap, and a reduction of them that is broadcast again."""
    windows = rl.tensor([[1.0, 2.0], [4.0, 8.0], [16.0, 32.0]]).unfold(0, 2, 1)
    wanted = windows.numpy() - windows.numpy().mean(0, keepdims=True)
    assert (windows - windows.mean(0, keepdim=True)).numpy().tolist() == wanted.tolist()
    assert rl.allclose(windows.var(0), rl.from_numpy(windows.numpy().var(0, ddof=1)))


def test_pairwise_distances():
    """A permuted operand meets a broadcast one, and the product is summed."""
    a, b = numbers((2, 3)), numbers((4, 2))
    distances = lambda a, b: (a.t()[:, None] - b[None]).square().sum(-1)  # noqa: E731 - one expression, run twice
    wanted = ((a.T[:, None] - b[None]) ** 2).sum(-1)
    operands = rl.from_numpy(a), rl.from_numpy(b)
    assert distances(*operands).numpy().tolist() == wanted.tolist()
    assert rl.compile(distances)(*operands).numpy().tolist() == wanted.tolist()
