"""ctc_loss and fractional pools against numbers that PyTorch 2.13 gave for the same arguments, in float64."""

from math import inf, nan

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
