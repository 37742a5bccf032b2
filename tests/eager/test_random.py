"""Random tensors: their state, and that gradients and copies see the same numbers."""

import numpy as np
import pytest

import rushlight as rl
from rushlight.eager.creation import empty, full, ones, tensor
from rushlight.eager.functions import dropout
from rushlight.eager.random import (
    Generator,
    bernoulli,
    fork_rng,
    get_rng_state,
    manual_seed,
    rand,
    rand_like,
    randint,
    randn,
    randperm,
    set_rng_state,
)
from rushlight.ir.dtype import float64, int32, int64
from rushlight.support.errors import RushlightError


@pytest.fixture(autouse=True)
def seeded():
    with fork_rng():
        manual_seed(0)
        yield


def test_a_seed_repeats_the_stream():
    first = [rand(3).tolist(), randn(2, 2).tolist(), randint(0, 9, (4,)).tolist()]
    manual_seed(0)
    assert first == [rand(3).tolist(), randn(2, 2).tolist(), randint(0, 9, (4,)).tolist()]
    assert rand(3).tolist() != rand(3).tolist()


def test_a_state_continues_the_stream():
    rand(1)
    state = get_rng_state()
    following = rand(5).tolist()
    set_rng_state(state)
    assert rand(5).tolist() == following


def test_a_generator_of_ones_own_leaves_the_default_alone():
    expected = rand(3).tolist()
    manual_seed(0)
    own = Generator(5)
    mine = rand(3, generator=own).tolist()
    assert rand(3).tolist() == expected
    assert rand(3, generator=Generator(5)).tolist() == mine


def test_numbers_have_the_right_range_and_moments():
    uniform, normal = rand(20000), randn(20000, dtype=float64)
    assert 0 <= float(uniform.amin()) < float(uniform.amax()) < 1
    assert abs(float(uniform.mean()) - 0.5) < 0.01
    assert abs(float(normal.mean())) < 0.03
    assert abs(float((normal * normal).mean()) - 1) < 0.05
    drawn = randint(-2, 3, (5000,), dtype=int32)
    assert drawn.dtype is int32
    assert sorted(set(drawn.tolist())) == [-2, -1, 0, 1, 2]
    assert abs(float(bernoulli(full((5000,), 0.25)).mean()) - 0.25) < 0.03
    with pytest.raises(RushlightError):
        randint(3, 3, (2,))


def test_a_permutation_has_every_index_once():
    found = randperm(100)
    assert found.dtype is int64
    assert sorted(found.tolist()) == list(range(100))
    assert found.tolist() != list(range(100))


def test_a_value_depends_on_its_index_and_not_on_the_shape():
    flat = rand(12).tolist()
    manual_seed(0)
    assert rand(3, 4).reshape(-1).tolist() == flat
    manual_seed(0)
    assert rand(5).tolist() == flat[:5]


def test_dropout_masks_forward_and_backward_alike():
    x = ones(1000).requires_grad_()
    y = dropout(x, 0.25)
    y.sum().backward()
    np.testing.assert_array_equal(x.grad.numpy(), y.detach().numpy())
    kept = float((y > 0).float().mean())
    assert abs(kept - 0.75) < 0.05
    assert dropout(x, 0.25, False).tolist() == x.tolist()


def test_in_place_forms_fill():
    x = empty(1000)
    assert x.uniform_(2, 3) is x
    assert 2 <= float(x.amin()) <= float(x.amax()) <= 3
    assert abs(float(x.normal_(5, 0.1).mean()) - 5) < 0.05
    assert set(x.bernoulli_(0.5).tolist()) == {0.0, 1.0}
    assert rand_like(tensor([[1.0, 2.0]])).shape == (1, 2)


def test_tensors_without_data_draw_nothing():
    state = get_rng_state().tolist()
    assert empty(3, device="meta").normal_().is_meta
    assert rand(2, device="meta").is_meta
    assert get_rng_state().tolist() == state


@pytest.mark.parametrize("chance", [1.5, -0.25, float("nan")])
def test_chances_lie_between_0_and_1(chance):
    for call in (
        lambda: bernoulli(full((3,), chance)),
        lambda: bernoulli(ones(3), chance),
        lambda: ones(3).bernoulli_(chance),
        lambda: ones(3).bernoulli_(full((), chance)),
    ):
        with pytest.raises(RushlightError) as caught:
            call()
        assert caught.value.code == "A002"
    assert bernoulli(full((3,), 1.0)).tolist() == [1, 1, 1] and ones(3).bernoulli_(0).tolist() == [0, 0, 0]


def test_generators_are_made_for_a_device():
    for made in (rl.Generator("cpu"), rl.Generator(device="cpu"), rl.Generator(rl.device("cpu")), rl.Generator()):
        assert made.device == rl.device("cpu")
        assert made.initial_seed() == rl.Generator().initial_seed()
    assert rl.Generator(3, device="cpu").initial_seed() == 3
    assert (
        rl.rand(2, generator=rl.Generator("cpu").manual_seed(3)).tolist()
        == rl.rand(2, generator=rl.Generator(3)).tolist()
    )
