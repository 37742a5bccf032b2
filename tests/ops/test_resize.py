"""Images of other sizes."""

import numpy as np
import pytest

import rushlight as rl
from opcheck import check_all_gradients, check_rules, names_in, refused, smooth_in
from rushlight.nn import functional as F
from rushlight.ops import resize

MODES = {
    "nearest": {},
    "nearest-exact": {},
    "bilinear": {"align_corners": False},
    "bicubic": {"align_corners": True},
    "area": {},
}


@pytest.mark.parametrize("name", names_in(resize))
def test_rules_agree(name):
    check_rules(name)


@pytest.mark.parametrize("name", smooth_in(resize))
def test_gradients_match_differences_twice(name):
    check_all_gradients(name)


@pytest.mark.parametrize("mode", MODES)
def test_one_artifact_takes_images_of_any_size(mode: str):
    rl.compiler.reset()
    rng = np.random.default_rng(0)

    def fitted(x, like):
        return F.interpolate(x, like.shape[2:], mode=mode, **MODES[mode])

    compiled = rl.compile(fitted)
    for before, after in (((4, 5), (9, 7)), ((8, 3), (5, 11)), ((6, 6), (13, 2))):
        x, like = [rl.tensor(rng.standard_normal((2, 3, *size)).astype(np.float32)) for size in (before, after)]
        np.testing.assert_array_equal(compiled(x, like).numpy(), fitted(x, like).numpy())
    assert rl.compiler.graph_count() == 1


@pytest.mark.parametrize("factor", [2, 1.5, (0.5, 3)])
def test_one_artifact_scales_images_of_any_size(factor):
    rl.compiler.reset()
    compiled = rl.compile(lambda x: F.interpolate(x, scale_factor=factor, mode="bilinear"))
    for size in ((4, 5), (9, 7), (6, 12)):
        x = rl.tensor(np.random.default_rng(0).standard_normal((1, 2, *size)).astype(np.float32))
        found = compiled(x)
        pair = factor if isinstance(factor, tuple) else (factor, factor)
        assert found.shape[2:] == tuple(int(one * times) for one, times in zip(size, pair, strict=True))
        expected = F.interpolate(x, scale_factor=factor, mode="bilinear")
        np.testing.assert_array_equal(found.numpy(), expected.numpy())
    assert rl.compiler.graph_count() == 1


def test_a_factor_that_is_no_short_binary_fraction_is_exact_for_each_size():
    compiled = rl.compile(lambda x: F.interpolate(x, scale_factor=0.29))
    for size in (100, 7, 50):
        assert compiled(rl.ones(1, 1, size)).shape == F.interpolate(rl.ones(1, 1, size), scale_factor=0.29).shape
        assert compiled(rl.ones(1, 1, size)).shape[2] == int(size * 0.29)


def test_mistakes_are_refused():
    x = rl.ones(1, 2, 4, 4)
    with refused("A002"):
        F.interpolate(x)
    with refused("A002"):
        F.interpolate(x, 3, 2.0)
    with refused("A002"):
        F.interpolate(x, 3, mode="nearby")
    with refused("A002"):
        F.interpolate(x, 3, align_corners=True)
    with refused("A002"):
        F.interpolate(x, (3, 0))
    with refused("A004"):
        F.interpolate(x, (3, 3, 3))
    with refused("S002"):
        F.interpolate(x, 3, mode="trilinear")
    with refused("A002"):
        F.interpolate(x, 3, antialias=True)
