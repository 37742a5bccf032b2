"""Python numbers as arguments: those that a dtype cannot hold, and the dtypes that they give."""

import pytest

import rushlight as rl
from opcheck import refused


@pytest.mark.parametrize("value", [300, -256, 255.7, float("nan"), float("inf")])
def test_numbers_to_fill_with_have_to_fit(value):
    x, mask = rl.zeros(2, dtype=rl.uint8), rl.tensor([True, False])
    for call in (
        lambda: x.fill_(value),
        lambda: x.__setitem__(0, value),
        lambda: rl.full((2,), value, dtype=rl.uint8),
        lambda: x.masked_fill(mask, value),
        lambda: x.masked_fill_(mask, value),
    ):
        with refused("D007"):
            call()
    assert x.tolist() == [0, 0] and x.fill_(-1).tolist() == [255, 255] and x.fill_(1.5).tolist() == [1, 1]


def test_bounds_and_branches_have_to_fit():
    x = rl.ones(1, dtype=rl.uint8)
    for call in (lambda: x.clamp(max=300), lambda: rl.where(x > 0, x, 300), lambda: rl.ones(1).fill_(1e39)):
        with refused("D007"):
            call()
    assert rl.ones(1).fill_(float("inf")).tolist() == [float("inf")] and x.clamp(max=7).tolist() == [1]


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
    assert rl.ones(0).median().isnan() and rl.ones(0, dtype=rl.int8).median() == -128
    with pytest.raises(ValueError, match="spatial"):
        rl.nn.functional.instance_norm(rl.ones(1, 2, 1))
    with pytest.raises(ValueError, match="leads away"):
        rl.arange(1, 0, 2)


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
