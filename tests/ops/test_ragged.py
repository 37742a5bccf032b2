"""Segments of rows: sums, padding and back."""

import numpy as np
import pytest

import rushlight as rl
from opcheck import check_all_gradients, check_rules, names_in, smooth_in
from rushlight.ops import ragged
from rushlight.ops.ragged import padded_segments, segment_numbers, segment_sum, unpadded_segments


@pytest.mark.parametrize("name", names_in(ragged))
def test_rules_agree(name):
    check_rules(name)


@pytest.mark.parametrize("name", smooth_in(ragged))
def test_gradients_match_differences_twice(name):
    check_all_gradients(name)


def test_one_artifact_sums_segments_of_any_number_and_length():
    rl.compiler.reset()
    rng = np.random.default_rng(0)
    table = rl.tensor(rng.standard_normal((9, 37)).astype(np.float32), requires_grad=True)

    def sums(ids, offsets, weights):
        found = segment_sum(table, offsets, ids, weights)
        return found, *rl.autograd.grad(found.square().sum(), (table, weights))

    compiled = rl.compile(sums)
    for lengths in ([3, 0, 700, 2], [], [0, 0], [1], [513, 64]):
        count = sum(lengths)
        offsets = rl.tensor([0, *np.cumsum(np.array(lengths, np.int64))])
        ids = rl.tensor(rng.integers(0, 9, count))
        weights = rl.tensor(rng.standard_normal(count).astype(np.float32), requires_grad=True)
        for found, expected in zip(compiled(ids, offsets, weights), sums(ids, offsets, weights), strict=True):
            np.testing.assert_array_equal(found.detach().numpy(), expected.detach().numpy())
    assert rl.compiler.graph_count() <= 2  # an empty list of segments has a layout of its own


def test_padding_and_its_inverse():
    rows, offsets = rl.arange(7.0), rl.tensor([0, 2, 2, 7])
    padded = padded_segments(rows, offsets, 3, -1.0)
    assert padded.tolist() == [[0, 1, -1], [-1, -1, -1], [2, 3, 4]]
    assert unpadded_segments(padded, offsets, 7).tolist() == [0, 1, 2, 3, 4, 0, 0]


def test_segments_are_those_within_the_rows():
    """Offsets beyond the rows name no element, and a segment that ends before it begins is empty."""
    rows = rl.ones(4, 1)
    assert segment_sum(rows, rl.tensor([-3, 2, 1, 9]), None, None).flatten().tolist() == [2, 0, 3]


@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "compiled"])
def test_places_have_the_segments_that_a_search_finds(compiled: bool):
    """Bounds that are negative, beyond the places, equal to each other; no bounds and no places."""
    random = np.random.default_rng(0)

    def numbers(bounds: rl.Tensor, places: rl.Tensor) -> rl.Tensor:
        return segment_numbers(bounds, places.shape[0])

    call = rl.compile(numbers, dynamic=True) if compiled else numbers
    for _ in range(60):
        bounds = np.sort(random.integers(-3, 15, random.integers(0, 6))).astype(random.choice([np.int32, np.int64]))
        count = int(random.integers(0, 12))
        expected = np.searchsorted(bounds, np.arange(count), side="right") - 1
        found = call(rl.tensor(bounds), rl.zeros(count)).numpy()
        assert found.dtype == np.int64
        np.testing.assert_array_equal(found, expected)
