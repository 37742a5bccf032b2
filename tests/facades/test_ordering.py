"""Sorting, selecting and counting: the places are numpy's, the values differentiable."""

import numpy as np
import pytest

import rushlight as rl
from rushlight.autograd import gradcheck

X = rl.tensor([[3.0, 1.0, 2.0, 1.0], [0.0, 5.0, 5.0, -1.0]])
NAN = float("nan")


def test_sort_is_stable_both_ways():
    values, indices = rl.sort(X)
    assert values.tolist() == [[1, 1, 2, 3], [-1, 0, 5, 5]]
    assert indices.tolist() == [[1, 3, 2, 0], [3, 0, 1, 2]]
    found = X.sort(dim=1, descending=True)
    assert found.values.tolist() == [[3, 2, 1, 1], [5, 5, 0, -1]]
    assert found.indices.tolist() == [[0, 2, 1, 3], [1, 2, 0, 3]]
    assert X.sort(0).indices.tolist() == [[1, 0, 0, 1], [0, 1, 1, 0]]
    assert X.argsort(descending=True).tolist() == found.indices.tolist()
    assert rl.msort(X).tolist() == X.sort(0).values.tolist()


def test_nan_is_the_largest_and_single_elements_stay():
    broken = rl.tensor([1.0, NAN, 0.0])
    assert broken.sort().indices.tolist() == [2, 0, 1]
    assert broken.sort(descending=True).indices.tolist() == [1, 0, 2]
    assert np.isnan(broken.median().item())
    assert rl.tensor(3.0).sort() == (rl.tensor(3.0), rl.tensor(0))
    assert rl.zeros(2, 0).sort().values.shape == (2, 0)
    half = rl.tensor([2.0, 1.0], dtype=rl.bfloat16).sort().values
    assert half.dtype is rl.bfloat16 and half.tolist() == [1, 2]


def test_ranks():
    values, indices = X.topk(2)
    assert values.tolist() == [[3, 2], [5, 5]] and indices.tolist() == [[0, 2], [1, 2]]
    assert rl.topk(X, 1, dim=0, largest=False).values.tolist() == [[0, 1, 2, -1]]
    assert X.kthvalue(2).values.tolist() == [1, 0]
    assert X.kthvalue(2, keepdim=True).indices.tolist() == [[3], [0]]
    assert rl.median(X).item() == 1 and X.median(dim=1).values.tolist() == [1, 0]
    assert X.median(dim=0, keepdim=True).values.tolist() == [[0, 1, 2, -1]]
    np.testing.assert_allclose(rl.quantile(X, 0.3, dim=1).numpy(), np.quantile(X.numpy(), 0.3, axis=1), rtol=1e-6)
    assert X.quantile(0.5).item() == np.quantile(X.numpy(), 0.5)


@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("shape", [(40,), (3, 40), (40, 3), (2, 33, 2)])
def test_ranks_are_those_of_a_whole_sort(shape, descending):
    drawn = np.random.default_rng(0).integers(0, 6, shape).astype(np.float32)
    drawn[drawn == 5] = NAN
    x = rl.from_numpy(drawn)
    for dim in range(len(shape)):
        whole = x.sort(dim, descending)
        for k in (1, 2):
            found = x.topk(k, dim, descending)
            assert found.indices.tolist() == whole.indices.narrow(dim, 0, k).tolist()
            np.testing.assert_array_equal(found.values.numpy(), whole.values.narrow(dim, 0, k).numpy())
        if not descending:
            assert x.kthvalue(2, dim).indices.tolist() == whole.indices.select(dim, 1).tolist()


def test_the_median_is_the_first_nan_or_the_lower_of_two():
    values = [[float(number) for number in reversed(range(32))], [1.0, NAN, NAN, *[0.0] * 29]]
    found = rl.tensor(values).median(1)
    assert found.indices.tolist() == [16, 1] and found.values[0].item() == 15.0
    assert np.isnan(found.values[1].item()) and np.isnan(rl.tensor(values).median().item())


def test_of_two_zeros_the_first_is_distinct():
    for zeros in ([-0.0, 1.0, 0.0], [0.0, -0.0, 1.0]):
        assert rl.tensor(zeros).unique().numpy().tobytes() == np.float32([zeros[0], 1.0]).tobytes()
    assert np.isnan(rl.tensor([NAN, NAN]).unique().numpy()).tolist() == [True, True]


@pytest.mark.parametrize("size", [0, 1, 7, 65535, 65536, 65537])
@pytest.mark.parametrize("right", [False, True])
def test_places_are_found_in_sequences_of_any_length(size, right):
    edges = np.sort(np.random.default_rng(1).standard_normal(size).astype(np.float32))
    values = np.float32([-np.inf, *edges[:: size // 5 + 1], 0.1, np.inf, NAN])
    found = rl.searchsorted(rl.from_numpy(edges), rl.from_numpy(values), right=right)
    assert found.tolist() == np.searchsorted(edges, values, "right" if right else "left").tolist()
    compiled = rl.compile(lambda edges, values: rl.searchsorted(edges, values, right=right))
    assert compiled(rl.from_numpy(edges), rl.from_numpy(values)).tolist() == found.tolist()


def test_a_sequence_that_is_not_sorted_is_bisected_as_pytorch_does():
    edges = rl.tensor([3.0, 1.0, NAN, 2.0, 1.0])
    # Recorded from PyTorch 2.13.
    assert rl.searchsorted(edges, rl.tensor([0.0, 1.5, 2.5, NAN])).tolist() == [3, 5, 5, 5]


def test_counts():
    assert rl.unique(X).tolist() == [-1, 0, 1, 2, 3, 5]
    values, inverse, counts = X.unique(return_inverse=True, return_counts=True)
    assert counts.tolist() == [1, 1, 2, 1, 1, 2] and values[inverse].tolist() == X.tolist()
    assert rl.bincount(rl.tensor([0, 2, 2]), minlength=4).tolist() == [1, 0, 2, 0]
    assert rl.bincount(rl.tensor([0, 1, 1]), rl.tensor([0.5, 1.0, 2.0])).tolist() == [0.5, 3.0]
    assert X.masked_select(X > 2).tolist() == [3, 5, 5]
    assert X.masked_select(rl.tensor([True, False, False, False])).tolist() == [3, 0]
    assert X.nonzero().tolist() == rl.argwhere(X).tolist() == np.argwhere(X.numpy()).tolist()


def test_gradients_go_to_the_places():
    x = rl.tensor([[3.0, 1.0, 2.0], [0.5, 5.0, 4.0]], dtype=rl.float64, requires_grad=True)
    for function in (
        lambda x: x.sort(descending=True).values,
        lambda x: x.topk(2, dim=0).values,
        lambda x: x.median(),
        lambda x: x.quantile(0.3, dim=1),
        lambda x: x.masked_select(x > 1.5),
    ):
        assert gradcheck(function, (x,))


@pytest.mark.parametrize(
    ("call", "code"),
    [
        (lambda: X.topk(5), "A002"),
        (lambda: X.kthvalue(0), "A002"),
        (lambda: X.sort(dim=2), "I002"),
        (lambda: rl.zeros(0).median(0), "I007"),
        (lambda: X.masked_select(X), "D001"),
        (lambda: rl.bincount(X), "A002"),
        (lambda: rl.bincount(rl.tensor([1, -1])).tolist(), "R002"),  # compiled calls that nothing needs are not made
        (lambda: rl.bincount(rl.tensor([1]), minlength=-1), "A002"),
    ],
)
def test_what_makes_no_sense_is_refused(call, code):
    with pytest.raises(rl.RushlightError) as found:
        call()
    assert found.value.code == code


def test_the_median_of_nothing_is_nan_compiled_too():
    """And no element has a gradient; one compiled function takes what is empty and what is not."""
    median = rl.compile(lambda x: x.flatten().median())
    for run in (lambda x: x.flatten().median(), median):
        for shape in ((2, 3), (0, 3), (2, 3), (0, 0)):
            x = rl.ones(*shape, requires_grad=True)
            found = run(x)
            found.backward()
            assert bool(found.isnan()) == (x.numel() == 0)
            assert x.grad.shape == shape
    for dtype, wanted in ((rl.int8, 0), (rl.int16, 0), (rl.uint8, 0), (rl.int32, -(2**31)), (rl.int64, -(2**63))):
        assert median(rl.zeros(0, dtype=dtype)).item() == rl.zeros(0, dtype=dtype).median().item() == wanted


def test_spread_takes_both_ways_of_correcting():
    array = X.numpy()
    for call in (X.var, lambda *args, **named: rl.var(X, *args, **named)):
        np.testing.assert_allclose(call().numpy(), array.var(ddof=1), rtol=1e-6)
        np.testing.assert_allclose(call(False).numpy(), array.var(), rtol=1e-6)
        np.testing.assert_allclose(call(1, False).numpy(), array.var(1), rtol=1e-6)
        np.testing.assert_allclose(call(dim=0, unbiased=True).numpy(), array.var(0, ddof=1), rtol=1e-6)
        np.testing.assert_allclose(call(1, correction=0, keepdim=True).numpy(), array.var(1, keepdims=True), rtol=1e-6)
    np.testing.assert_allclose(rl.std(X, 1, False).numpy(), array.std(1), rtol=1e-6)


def test_methods_have_pytorchs_second_names():
    assert X.clip(0, 2).tolist() == X.clamp(0, 2).tolist()
    assert X.multiply(2).tolist() == (X * 2).tolist() and X.greater(2).tolist() == (X > 2).tolist()
    assert X.clone().subtract_(1).tolist() == (X - 1).tolist()
    assert X.allclose(X + 1e-9) and not X.allclose(X + 1)
    assert X.where(X > 1, rl.zeros(())).tolist() == [[3, 0, 2, 0], [0, 5, 5, 0]]
