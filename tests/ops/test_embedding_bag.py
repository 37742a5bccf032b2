"""Rows of a table combined in bags."""

import numpy as np
import pytest

import rushlight as rl
from opcheck import check_all_gradients, check_rules, names_in, refused, smooth_in
from rushlight.nn import functional as F
from rushlight.ops import embedding_bag


@pytest.mark.parametrize("name", names_in(embedding_bag))
def test_rules_agree(name):
    check_rules(name)


@pytest.mark.parametrize("name", smooth_in(embedding_bag))
def test_gradients_match_differences_twice(name):
    check_all_gradients(name)


@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
def test_one_artifact_takes_bags_of_any_number_and_size(mode: str):
    rl.compiler.reset()
    rng = np.random.default_rng(0)
    weight = rl.tensor(rng.standard_normal((9, 5)).astype(np.float32), requires_grad=True)

    def bags(input, offsets):
        found = F.embedding_bag(input, weight, offsets, mode=mode, padding_idx=3)
        (gradient,) = rl.autograd.grad(found.square().sum(), weight)
        return found, gradient

    compiled = rl.compile(bags)
    for members, starts in ((12, [0, 4, 4, 9]), (7, [0, 7]), (0, [0, 0, 0]), (31, [0, 1, 2, 3, 11])):
        input = rl.tensor(rng.integers(0, 9, members))
        for found, expected in zip(compiled(input, rl.tensor(starts)), bags(input, rl.tensor(starts)), strict=True):
            np.testing.assert_array_equal(found.detach().numpy(), expected.detach().numpy())
    assert rl.compiler.graph_count() == 1


def test_many_elements_find_their_bags():
    rng = np.random.default_rng(1)
    members, weight = rng.integers(0, 9, 5000), rng.integers(-8, 9, (9, 3)).astype(np.float32)
    starts = np.sort(rng.integers(0, 5001, 700))
    starts[0] = 0
    found = F.embedding_bag(rl.tensor(members), rl.tensor(weight), rl.tensor(starts), mode="sum").numpy()
    ends = [*starts[1:], 5000]
    expected = [weight[members[start:end]].sum(0) for start, end in zip(starts, ends, strict=True)]
    np.testing.assert_array_equal(found, expected)


def test_the_first_of_equal_elements_gets_the_gradient():
    weight = rl.ones(3, 2, requires_grad=True)
    F.embedding_bag(rl.tensor([2, 1, 2, 0, 1]), weight, rl.tensor([0, 3]), mode="max").sum().backward()
    assert weight.grad.tolist() == [[1, 1], [0, 0], [1, 1]]


@pytest.mark.parametrize("learns", [False, True])  # the tape takes composites apart
@pytest.mark.parametrize("starts", [[1, 3], [0, 4, 2], [0, 9], [0, -1, 2]])
def test_offsets_begin_with_0_and_ascend_to_the_number_of_members(starts: list[int], learns: bool):
    weight, members = rl.ones(3, 2, requires_grad=learns), rl.tensor([0, 1, 2, 0, 1, 2])
    for call in (F.embedding_bag, rl.compile(F.embedding_bag)):
        with refused("I001"):
            call(members, weight, rl.tensor(starts))
    with refused("I001"):
        rl.vmap(F.embedding_bag, (None, None, 0))(members, weight, rl.tensor([starts]))


def test_members_behind_the_last_offset_have_no_gradient():
    def rows(weight, starts):
        bags = F.embedding_bag(rl.tensor([0, 1, 2, 2]), weight, starts, mode="sum", include_last_offset=True)
        return rl.autograd.grad(bags.sum(), weight)[0]

    for call in (rows, rl.compile(rows)):
        gradient = call(rl.ones(3, 2, requires_grad=True), rl.tensor([0, 1, 2]))
        assert gradient.tolist() == [[1, 1], [1, 1], [0, 0]]
        assert not call(rl.ones(3, 2, requires_grad=True), rl.tensor([0])).any()


def test_mistakes_are_refused():
    weight, places = rl.ones(3, 2), rl.tensor([0, 1, 2])
    with refused("S002"):
        F.embedding_bag(places, weight)
    with refused("S002"):
        F.embedding_bag(places.reshape(1, 3), weight, rl.tensor([0]))
    with refused("A002"):
        F.embedding_bag(places, weight, rl.tensor([0]), mode="median")
    with refused("A006"):
        F.embedding_bag(places, weight, rl.tensor([0]), mode="max", per_sample_weights=rl.ones(3))
    with refused("S014"):
        F.embedding_bag(places, weight, rl.tensor([0]), mode="sum", per_sample_weights=rl.ones(2))
    with refused("I001"):
        F.embedding_bag(rl.tensor([3]), weight, rl.tensor([0]))
