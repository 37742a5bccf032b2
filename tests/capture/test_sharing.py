"""Writes in compiled functions to what strides make a view or a copy, and through views of all kinds."""

import numpy as np
import pytest

import rushlight as rl
from rushlight.compiler import mark_unbacked
from rushlight.support.errors import RushlightError


def strided(*shape):
    """A tensor of which every second element along the last dim is left out."""
    return rl.from_numpy(np.arange(2 * np.prod(shape), dtype=np.float32).reshape(*shape[:-1], -1)[..., ::2])


def write_to_the_reshaped(x):
    y = x.reshape(-1)
    y.add_(1)
    return y.sum()


def write_to_what_was_reshaped(x):
    y = x.reshape(-1)
    first = y[:2]
    x.mul_(2)
    return y * 1, first * 1


def write_to_a_view_of_the_contiguous(x):
    part = x.contiguous()[1:]
    part.add_(x.sum())
    return part


def write_after_reshaping_twice(x):
    y = x.reshape(-1)
    z = y.contiguous()
    z[1].fill_(9)
    return y + z


WRITES = [
    write_to_the_reshaped,
    write_to_what_was_reshaped,
    write_to_a_view_of_the_contiguous,
    write_after_reshaping_twice,
]
TENSORS = [
    lambda: rl.arange(12.0).reshape(3, 4),
    lambda: strided(3, 4),
    lambda: rl.arange(12.0).reshape(4, 3).T,
    lambda: strided(4, 3).T,
    lambda: strided(1, 4).T,
]


@pytest.mark.parametrize("function", WRITES)
def test_what_shares_memory_in_eager_shares_it_compiled(function):
    compiled = rl.compile(function)
    for make in (*TENSORS, *TENSORS):
        one, other = make(), make()
        expected, found = function(one), compiled(other)
        expected, found = ((item if isinstance(item, tuple) else (item,)) for item in (expected, found))
        assert [item.tolist() for item in found] == [item.tolist() for item in expected]
        assert other.tolist() == one.tolist()


@pytest.mark.parametrize("make", [*TENSORS[:3], TENSORS[4]])
def test_gradients_follow_writes_to_a_reshaped_tensor(make):
    def step(x, w):
        h = x * w
        rows = (h.T if h.shape[0] > h.shape[1] else h).reshape(-1)
        rows.mul_(rows.detach() + 1)
        return rl.autograd.grad((h * h).sum(), w)

    found = []
    for run in (step, rl.compile(step)):
        w = make().contiguous().requires_grad_()
        found.append(run(make(), w)[0].tolist())
    assert found[0] == found[1]


def test_what_was_saved_of_a_copy_that_is_a_view_is_seen_to_change():
    def step(x, w):
        h = x.reshape(-1)
        y = h * w
        x.add_(1)
        return rl.autograd.grad(y.sum(), w)

    for run in (step, rl.compile(step)):
        with pytest.raises(RushlightError) as caught:
            run(strided(2, 3), rl.ones(6, requires_grad=True))
        assert caught.value.code == "G003"


def test_windows_that_do_not_overlap_and_expanded_dims_of_size_one_are_written_through():
    def windows(x):
        x.unfold(0, 2, 3).mul_(-1)
        x.unsqueeze(0).expand(1, x.shape[0]).add_(1)
        return x.sum()

    one, other = rl.arange(8.0), rl.arange(8.0)
    assert windows(one).item() == rl.compile(windows)(other).item()
    assert one.tolist() == other.tolist() == [1, 0, 3, -2, -3, 6, -5, -6]


OVERLAPPING = [
    lambda x: x.unfold(0, 2, 1),
    lambda x: x.expand(2, 4),
    lambda x: x.as_strided((2, 2), (1, 1)),
    lambda x: x.as_strided((3, 2), (0, 1)).T,
]


@pytest.mark.parametrize("view", OVERLAPPING)
def test_a_write_to_overlapping_elements_is_refused(view):
    def write(x):
        view(x).add_(1)
        return x

    for run in (write, rl.compile(write)):
        with pytest.raises(RushlightError) as caught:
            run(rl.ones(4))
        assert caught.value.code == "S013"


def test_sizes_that_nobody_knows_are_settled_by_asserts():
    @rl.compile(fullgraph=True)
    def write(x):
        rows = x.contiguous()
        rows.add_(1)
        return rows

    def turned(count):
        x = rl.zeros(count, 3).T
        mark_unbacked(x, 1)
        return x

    for count in (2, 5):
        x = turned(count)
        assert write(x).sum().item() == 3 * count
        assert x.sum().item() == 0
    with pytest.raises(RushlightError) as caught:
        write(turned(1))  # a view in eager
    assert caught.value.code == "R002"
