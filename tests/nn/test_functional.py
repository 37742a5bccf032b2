"""Functions of layers, their gradients and their modules' texts are PyTorch's; dropouts keep what they promise."""

import json
import math
from pathlib import Path

import numpy as np
import pytest
from tests.nn import functional_cases

import rushlight as rl
from rushlight import nn
from rushlight.nn import functional as F
from rushlight.support.errors import RushlightError

FROZEN = json.loads((Path(__file__).parent / "torch_functional.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize("text", functional_cases.CASES)
def test_function_and_gradients_agree_with_frozen_torch_values(text):
    found = functional_cases.run(rl, text)
    assert len(found) == len(FROZEN[text])
    for own, wanted in zip(found, FROZEN[text], strict=True):
        if own is None or wanted is None:
            assert own is None
            assert wanted is None
            continue
        assert own[:-1] == wanted[:-1]
        assert own[-1] == pytest.approx(wanted[-1], rel=2e-5, abs=2e-5)


@pytest.mark.parametrize("text", functional_cases.MODULES)
def test_module_prints_like_torch(text):
    assert repr(eval(f"nn.{text}", {"nn": nn})) == FROZEN[text]


@pytest.mark.parametrize("name", ["dropout1d", "dropout2d", "dropout3d"])
def test_channels_are_dropped_whole(name):
    rl.manual_seed(0)
    x = rl.ones((40, 50, *[3] * int(name[-2])), requires_grad=True)
    y = getattr(F, name)(x, 0.25)
    rows = y.detach().numpy().reshape(2000, -1)
    kept = rows[:, 0] != 0
    np.testing.assert_allclose(rows, np.where(kept, 1 / 0.75, 0)[:, None] * np.ones_like(rows), rtol=1e-6)
    assert abs(kept.mean() - 0.75) < 0.04
    y.sum().backward()
    np.testing.assert_array_equal(x.grad.numpy(), y.detach().numpy())
    assert getattr(F, name)(x, 0.25, False) is x


@pytest.mark.parametrize("layer", [nn.AlphaDropout, nn.FeatureAlphaDropout])
def test_alpha_dropout_keeps_mean_and_variance(layer):
    rl.manual_seed(0)
    x = rl.randn(200, 300)
    y = layer(0.3)(x)
    assert abs(float(y.mean())) < 0.02
    assert abs(float(y.var()) - 1) < 0.04
    assert layer(0.3).eval()(x) is x


def test_random_slopes_are_drawn_while_training():
    rl.manual_seed(0)
    y = nn.RReLU(0.1, 0.3)(rl.full((1000,), -1.0))
    assert -0.3 <= float(y.min()) < -0.28
    assert -0.12 < float(y.max()) <= -0.1


def test_hard_gumbel_draws_are_one_hot_with_soft_gradients():
    rl.manual_seed(0)
    logits = rl.zeros(1000, 4, requires_grad=True)
    y = F.gumbel_softmax(logits, hard=True)
    counts = y.detach().numpy().round(5).sum(0)
    assert counts.sum() == 1000
    assert counts.min() > 190
    (y * rl.tensor([1.0, 2.0, 3.0, 4.0])).sum().backward()
    assert float(abs(logits.grad).sum()) > 1


@pytest.mark.parametrize(
    ("call", "kind", "text"),
    [
        (lambda x: F.pixel_shuffle(x, 2), RuntimeError, "multiple of 4"),
        (lambda x: F.pixel_unshuffle(x, 0), ValueError, "positive"),
        (lambda x: F.fold(x[0], (4, 5), 2), RuntimeError, "windows"),
        (lambda x: F.unfold(x, 9), RuntimeError, "larger than"),
        (lambda x: F.grid_sample(x, rl.zeros(2, 1, 1, 2)), RuntimeError, "does not fit"),
        (lambda x: F.grid_sample(x, rl.zeros(1, 1, 1, 2), "cubic"), ValueError, "mode is one of"),
        (lambda x: F.max_unpool2d(x, rl.full(x.shape, 99), 2), IndexError, "out of range"),
        (lambda x: F.max_unpool2d(x, rl.full(x.shape, -1), 2), IndexError, "out of range"),
        (lambda x: F.adaptive_max_pool2d(x[..., :0], 2), RuntimeError, "without elements"),
        (lambda x: F.multi_margin_loss(x[0, 0], rl.tensor([0, 1]), p=3), ValueError, "p is 1 or 2"),
        (lambda x: F.gaussian_nll_loss(x, x, -x.abs()), ValueError, "negative"),
        (lambda x: F.triplet_margin_loss(x, x, x, 0.0), ValueError, "greater than 0"),
        (lambda x: F.soft_margin_loss(x, x, reduction="max"), ValueError, "reduction"),
        (lambda x: rl.cdist(x, x[..., :1]), RuntimeError, "rows differ"),
        (lambda x: rl.cdist(x, x, -1.0), ValueError, "not be negative"),
        (lambda x: F.dropout1d(x, 0.5), RuntimeError, "2 or 3 dims"),
        (lambda x: F.interpolate(x, 2, antialias=True), ValueError, "antialias is for"),
    ],
)
def test_mistakes_are_registered_errors(call, kind, text):
    with pytest.raises(kind) as caught:
        call(rl.ones(1, 6, 4, 5))
    assert isinstance(caught.value, rl.RushlightError)
    assert text in str(caught.value)


def test_margin_losses_of_one_class_without_dims_are_zero():
    score, target = rl.tensor(0.3, requires_grad=True), rl.tensor(0)
    for loss in (F.multi_margin_loss, F.multilabel_margin_loss):
        found = loss(score, target, reduction="none")
        assert found.shape == () and found.item() == 0
        found.backward()
    assert score.grad is not None and score.grad.item() == 0


def test_pairwise_distances_of_integers_are_floats():
    x, y = rl.tensor([[2**40 + 3, -5], [7, 0]]), rl.tensor([[2**40, -9], [7, 0]])
    found = F.pairwise_distance(x, y, eps=0.0)
    assert found.dtype is rl.float32 and found.tolist() == [5.0, 0.0]
    narrow = [rl.tensor([200, 3], dtype=rl.uint8), rl.tensor([203, 7], dtype=rl.uint8)]
    assert F.pairwise_distance(*narrow, eps=0.0).item() == 5.0


def test_functions_of_integers_and_bools_have_pytorchs_dtypes():
    x = rl.tensor([True, False])
    assert x.square().dtype is rl.int64 and x.square().tolist() == [1, 0]
    assert rl.equal(rl.compile(rl.square, fullgraph=True)(x), x.square())
    assert rl.outer(x, ~x).tolist() == [[False, True], [False, False]] and rl.outer(x, x).dtype is rl.bool
    assert F.tanhshrink(rl.tensor([0, 1])).tolist() == pytest.approx([0.0, 1 - math.tanh(1.0)])


@pytest.mark.parametrize("shape", [(0, 4, 3), (2, 0, 3), (2, 4, 0), (0, 0, 0)])
def test_norms_of_nothing_have_its_shape(shape):
    x, channels = rl.ones(shape), shape[1]
    assert F.instance_norm(x).shape == shape
    assert F.instance_norm(x, rl.zeros(channels), rl.ones(channels)).shape == shape
    if channels:
        result, means, roots = rl.native_group_norm(x, None, None, shape[0], channels, shape[2], 2, 1e-5)
        assert result.shape == shape and means.shape == roots.shape == (shape[0], 2)


@pytest.mark.parametrize("shape", [(0, 4, 1), (2, 4, 1), (2, 4)])
def test_instance_norm_needs_several_elements(shape):
    with pytest.raises(ValueError, match="more than 1 spatial element"):
        F.instance_norm(rl.ones(shape))


def test_chunks_of_a_linear_cross_entropy_change_the_dtype_of_its_sums_alone():
    rl.manual_seed(0)
    rows, weight, classes = rl.randn(6, 8), rl.randn(5, 8), rl.tensor([0, 4, 2, 2, 1, 3])
    options = nn.LinearCrossEntropyOptions(batch_chunk_size=2, chunking_method=None)
    loss = nn.LinearCrossEntropyLoss(8, 5, options=options)
    loss.linear.weight = nn.Parameter(weight)
    wanted = F.linear_cross_entropy(rows, weight, classes)
    assert loss(rows, classes).equal(wanted) and "batch_chunk_size=2" in repr(loss)
    narrow = [rows.bfloat16(), weight.bfloat16(), classes]
    wide = F.linear_cross_entropy(narrow[0].float(), narrow[1].float(), classes).bfloat16()
    assert F.linear_cross_entropy(*narrow, options=options).equal(wide)
    accurate = nn.LinearCrossEntropyOptions(acc_policy="accurate")
    assert F.linear_cross_entropy(*narrow, options=accurate).equal(F.linear_cross_entropy(*narrow))
    for wrong in ({"acc_policy": "fast"}, {"chunking_method": "aspect_ratio:0"}, {"batch_chunk_size": 0}):
        with pytest.raises(RushlightError) as caught:
            nn.LinearCrossEntropyOptions(**wrong)
        assert caught.value.code == "A002"
    with pytest.raises(RushlightError) as caught:
        F.linear_cross_entropy(rows, weight, classes, options={})
    assert caught.value.code == "A001"
