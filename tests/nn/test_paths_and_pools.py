"""ctc_loss and fractional pools against numbers that PyTorch 2.13 gave for the same arguments, in float64."""

from functools import partial
from math import inf, nan

import numpy as np
import pytest

import rushlight as rl
import rushlight.nn.functional as F
from rushlight import nn
from rushlight.autograd import gradcheck

SCORES = [
    [[0.1, 0.7, -0.4], [1.0, -0.2, 0.3]],
    [[0.5, 0.2, 0.9], [-1.0, 0.4, 0.0]],
    [[0.3, -0.6, 0.8], [0.2, 1.1, -0.7]],
    [[0.0, 0.6, 0.2], [0.4, 0.3, -0.5]],
]
# targets, their lengths, lengths of inputs, losses, gradients of the second text at the first step
LOSSES = [
    ([[1, 2], [2, 2]], [2, 1], [4, 3], [1.4133500242, 2.0986431857], [-0.0822254051, 0.1675367915, -0.0853113864]),
    ([[1, 1], [2, 2]], [2, 2], [4, 2], [2.6980544993, inf], [nan, nan, nan]),
    ([[1, 1], [2, 2]], [0, 1], [4, 0], [4.9194572881, inf], [0.0, 0.0, 0.0]),
]


def scores():
    return rl.tensor(SCORES, dtype=rl.float64).log_softmax(-1).detach().requires_grad_()


@pytest.mark.parametrize("zero_infinity", [False, True])
@pytest.mark.parametrize(("targets", "lengths", "steps", "losses", "gradients"), LOSSES)
def test_losses_of_texts_equal_pytorchs(targets, lengths, steps, losses, gradients, zero_infinity):
    if zero_infinity:
        losses = [0.0 if loss == inf else loss for loss in losses]
        gradients = [0.0 if number != number else number for number in gradients]
    joined = [target for text, length in zip(targets, lengths, strict=True) for target in text[:length]]
    for given in (targets, joined):
        x = scores()
        found = F.ctc_loss(
            x, rl.tensor(given), tuple(steps), tuple(lengths), reduction="none", zero_infinity=zero_infinity
        )
        found.sum().backward()
        assert found.tolist() == pytest.approx(losses, rel=1e-9)
        assert x.grad[0, 1].tolist() == pytest.approx(gradients, rel=1e-8, nan_ok=True)
    mean = nn.CTCLoss(zero_infinity=zero_infinity)(x, rl.tensor(targets), rl.tensor(steps), rl.tensor(lengths))
    expected = sum([loss / max(length, 1) for loss, length in zip(losses, lengths, strict=True)]) / 2
    assert mean.item() == pytest.approx(expected)


def test_gradient_of_a_loss_of_texts_is_right_through_log_softmax():
    def loss(x):
        return F.ctc_loss(x.log_softmax(-1), rl.tensor([[1, 2], [2, 2]]), (4, 3), (2, 1))

    x = rl.tensor(SCORES, dtype=rl.float64, requires_grad=True)
    assert gradcheck(loss, (x,))
    assert loss(x).item() == rl.compile(loss)(x).item()
    (gradient,) = rl.autograd.grad(loss(x), [x], create_graph=True)
    with pytest.raises(rl.AutogradError, match="ctc_occupancies: there is no derivative rule"):
        gradient.square().sum().backward()


@pytest.mark.parametrize("fullgraph", [None, False, True])
def test_a_loss_of_texts_has_no_second_derivative(fullgraph):
    """That is found when it is asked for, and also where a part of it would be there."""

    def loss(x):
        return F.ctc_loss(x, rl.tensor([[1, 2], [2, 2]]), (4, 3), (2, 1))

    def gradient(x):
        return rl.autograd.grad(loss(x), x, create_graph=True)[0]

    def second(x):
        return rl.autograd.grad(gradient(x).sum() + (x**2).sum(), x)[0]

    compiled = (lambda f: f) if fullgraph is None else partial(rl.compile, fullgraph=fullgraph)
    x, wanted = scores(), gradient(scores())
    (found,) = rl.autograd.grad(compiled(loss)(x), x, create_graph=True)
    inside = compiled(gradient)(x)
    assert rl.equal(found, wanted) and rl.equal(inside, wanted)
    for first in (found, inside):
        with pytest.raises(rl.AutogradError, match="ctc_occupancies: there is no derivative rule"):
            rl.autograd.grad(first.sum() + (x**2).sum(), x)
    with pytest.raises(rl.AutogradError, match="ctc_occupancies: there is no derivative rule"):
        compiled(second)(x)


def test_one_text_without_a_batch_and_impossible_classes():
    x = scores()
    alone = F.ctc_loss(x[:, 0], rl.tensor([1, 2]), 4, 2, reduction="sum")
    assert alone.item() == pytest.approx(1.4133500242)
    with rl.no_grad():
        x[1, 0, 1] = -inf
    F.ctc_loss(x, rl.tensor([[1, 2], [2, 2]]), (4, 3), (2, 1)).backward()
    assert bool(x.grad.isfinite().all()) and x.grad[1, 0, 1].item() == 0.0


@pytest.mark.parametrize(
    ("targets", "steps", "lengths", "blank", "code"),
    [
        ([[1, 2], [2, 2]], (5, 4), (2, 2), 0, "A002"),
        ([[1, 2], [2, 2]], (4, 4), (3, 2), 0, "A002"),
        ([1, 2, 2], (4, 4), (1, 1), 0, "A002"),
        ([[1, 3], [2, 2]], (4, 4), (2, 2), 0, "I001"),
        ([[1, 2], [2, 2]], (4, 4), (2, 2), 3, "I001"),
        ([[1, 2], [2, 2]], (4, 4, 4), (2, 2), 0, "S014"),
        ([[1.0, 2.0], [2.0, 2.0]], (4, 4), (2, 2), 0, "I004"),
    ],
)
def test_lengths_and_targets_that_do_not_fit_are_refused(targets, steps, lengths, blank, code):
    with pytest.raises(rl.RushlightError) as problem:
        F.ctc_loss(scores(), rl.tensor(targets), steps, lengths, blank)
    assert problem.value.code == code


def test_fractional_pools_stand_where_the_samples_say():
    x = (rl.arange(60.0, dtype=rl.float64).reshape(1, 2, 5, 6) * 37 % 23).requires_grad_()
    draws = rl.tensor([[[0.3, 0.8], [0.9, 0.1]]], dtype=rl.float64)
    values, places = F.fractional_max_pool2d(x, 2, (3, 2), return_indices=True, _random_samples=draws)
    assert values.reshape(-1).tolist() == [15.0, 16.0, 21.0, 17.0, 22.0, 15.0, 21.0, 22.0, 21.0, 22.0, 20.0, 21.0]
    assert places.reshape(-1).tolist() == [6, 11, 13, 16, 18, 29, 6, 11, 6, 11, 24, 29]
    (gradient,) = rl.autograd.grad(values.sum(), [x])
    assert gradient.sum().item() == 12.0 and gradient[0, 1, 1, 0].item() == 2.0
    layer = nn.FractionalMaxPool2d(2, (3, 2), _random_samples=draws)
    assert rl.equal(layer(x), values) and rl.equal(rl.compile(layer)(x), values)
    assert tuple(F.fractional_max_pool2d(x[:0], 2, (3, 2)).shape) == (0, 2, 3, 2)
    assert rl.equal(layer(x[0]), values[0])


def test_fractional_pools_of_volumes_draw_their_places():
    rl.manual_seed(0)
    x = rl.randn(2, 3, 6, 7, 8)
    values, places = nn.FractionalMaxPool3d((1, 2, 2), output_ratio=(0.5, 0.5, 0.4), return_indices=True)(x)
    assert tuple(values.shape) == (2, 3, 3, 3, 3)
    assert rl.equal(x.flatten(2).gather(2, places.flatten(2)).reshape(values.shape), values)
    with pytest.raises(ValueError, match="either output_size or output_ratio"):
        nn.FractionalMaxPool3d(2)
    with pytest.raises(rl.ShapeError, match="the windows do not fit"):
        F.fractional_max_pool3d(x, 3, 5)
    with pytest.raises(rl.ShapeError, match="draws for each channel"):
        F.fractional_max_pool3d(x, 2, 2, _random_samples=rl.zeros(1, 3, 3))


def windows_of(x, count, step=1):
    """Windows of the last two dims of an array."""
    return np.lib.stride_tricks.sliding_window_view(x, (count, count), (-2, -1))[..., ::step, ::step, :, :]


def test_pools_of_integers_are_exact():
    x = rl.arange(60).reshape(1, 2, 5, 6) * 2**55 % 37 - 18 + 2**60
    array = x.numpy()
    assert np.array_equal(F.max_pool2d(x, 3, 1).numpy(), windows_of(array, 3).max((-2, -1)))
    values, places = F.max_pool2d(x, 2, return_indices=True)
    assert rl.equal(x.flatten(2).gather(2, places.flatten(2)).reshape(values.shape), values)
    small = x - 2**60
    quotients = windows_of(small.numpy(), 2, 2).sum((-2, -1)) / 4
    assert np.array_equal(F.avg_pool2d(small, 2).numpy(), np.trunc(quotients).astype(np.int64))
    assert (quotients < 0).any() and (quotients % 1 != 0).any()
    narrow = rl.full((1, 4), 120, dtype=rl.int8)
    assert F.avg_pool1d(narrow, 2).tolist() == [[120, 120]], "sums of narrow integers do not wrap"
    assert F.local_response_norm(small, 2).dtype is rl.float32
    pooled = rl.compile(lambda x: (F.avg_pool2d(x, 2, 1, 1), F.max_pool2d(x, 3)), fullgraph=True)(small)
    assert rl.equal(pooled[0], F.avg_pool2d(small, 2, 1, 1)) and rl.equal(pooled[1], F.max_pool2d(small, 3))


def test_convolutions_and_bilinear_forms_of_integers_are_exact():
    x = rl.arange(60).reshape(1, 2, 5, 6) * 2**50 % 41 - 20 + 2**40
    weight, bias = rl.arange(24).reshape(3, 2, 2, 2) % 7 - 3, rl.tensor([5, -(2**50), 0])
    wanted = np.einsum("nchwij,ocij->nohw", windows_of(x.numpy(), 2), weight.numpy()) + bias.numpy()[:, None, None]
    found = F.conv2d(x, weight, bias)
    assert found.dtype is rl.int64 and np.array_equal(found.numpy(), wanted)
    assert rl.equal(rl.compile(F.conv2d, fullgraph=True)(x, weight, bias), found)
    spread = F.conv_transpose2d(found, weight, stride=2)
    wide = np.zeros((1, 2, 8, 10), np.int64)
    for i, j in np.ndindex(4, 5):
        wide[..., 2 * i : 2 * i + 2, 2 * j : 2 * j + 2] += np.einsum(
            "no,ocij->ncij", wanted[:, :, i, j], weight.numpy()
        )
    assert np.array_equal(spread.numpy(), wide)
    one, other, forms = (
        rl.arange(6).reshape(2, 3),
        rl.arange(8).reshape(2, 4) - 3,
        rl.arange(60).reshape(5, 3, 4) + 2**40,
    )
    products = np.einsum("bi,kij,bj->bk", one.numpy(), forms.numpy(), other.numpy())
    assert np.array_equal(F.bilinear(one, other, forms).numpy(), products)
