"""Layers and losses under the names of their kernels, against what PyTorch 2.13 computes."""

import math

import pytest

import rushlight as rl
from rushlight.support.errors import RushlightError


def ramp(*shape, scale=1.0):
    """Numbers that differ everywhere, the same ones in PyTorch."""
    return ((rl.arange(float(math.prod(shape))) * 0.7).sin() * scale).reshape(shape)


def states():
    return ramp(1, 2, 2), ramp(1, 2, 2, scale=0.5)


LSTM = (ramp(8, 3), ramp(8, 2, scale=0.5), ramp(8), ramp(8, scale=0.3))
GRU = (ramp(6, 3), ramp(6, 2, scale=0.5))
RNN = (ramp(2, 3), ramp(2, 2))
IMAGE = ramp(2, 4, 3)
SIGNS = rl.tensor([1, -1, 1, -1])
DENSE = (False, 1, 0.0, False, False, False)

# The first six elements of each result, and the sum of all.
CASES = {
    "lstm": (
        lambda: rl.lstm(ramp(4, 2, 3), states(), LSTM, True, *DENSE[1:]),
        [
            [0.134594, -0.050294, 0.211099, -0.073285, 0.011128, 0.033894, 0.35483],
            [0.250881, -0.164652, 0.129404, -0.243043, -0.02741],
            [0.465894, -1.11012, 0.673005, -0.666695, -0.63792],
        ],
    ),
    "lstm of packed sequences": (
        lambda: rl.lstm(ramp(5, 3), rl.tensor([2, 2, 1]), states(), LSTM, True, *DENSE[1:-1]),
        [
            [0.134594, -0.050294, 0.211099, -0.073285, 0.011128, 0.033894, 0.33597],
            [0.102103, -0.195992, 0.297021, -0.134304, 0.06883],
            [0.492478, -0.509906, 0.553649, -0.878393, -0.34217],
        ],
    ),
    "gru of both directions": (
        lambda: rl.gru(
            ramp(2, 4, 3), ramp(2, 2, 2), GRU * 2, False, 1, 0.0, train=False, bidirectional=True, batch_first=True
        ),
        [
            [-0.119508, 0.28102, -0.087405, -0.265441, 0.510007, -0.237184, 3.45279],
            [-0.103244, 0.295747, 0.502103, -0.204419, -0.087405, -0.265441, 0.44692],
        ],
    ),
    "rnn_tanh": (
        lambda: rl.rnn_tanh(ramp(4, 2, 3), ramp(1, 2, 2), RNN, *DENSE),
        [
            [0.946924, 0.402158, 0.402158, 0.990947, -0.759874, 0.397157, 7.1399],
            [0.940018, 0.419743, 0.23644, 0.728864, 2.32506],
        ],
    ),
    "rnn_relu": (
        lambda: rl.rnn_relu(ramp(4, 2, 3), ramp(1, 2, 2), RNN, *DENSE),
        [
            [1.801144, 0.426221, 0.426221, 2.696638, 0.0, 1.28283, 33.22551],
            [2.747836, 2.362822, 2.713431, 5.295671, 13.11976],
        ],
    ),
    "lstm_cell": (
        lambda: rl.lstm_cell(ramp(2, 3), (ramp(2, 2), ramp(2, 2, scale=0.5)), *LSTM),
        [[0.134594, -0.050294, 0.211099, -0.073285, 0.22211], [0.230907, -0.351096, 0.729864, -0.253845, 0.35583]],
    ),
    "gru_cell": (
        lambda: rl.gru_cell(ramp(2, 3), ramp(2, 2), ramp(6, 3), ramp(6, 2)),
        [-0.118335, 0.219128, 0.675709, 0.541452, 1.31795],
    ),
    "rnn_tanh_cell": (
        lambda: rl.rnn_tanh_cell(ramp(2, 3), ramp(2, 2), *RNN),
        [0.946924, 0.402158, 0.402158, 0.990947, 2.74219],
    ),
    "rnn_relu_cell": (
        lambda: rl.rnn_relu_cell(ramp(2, 3), ramp(2, 2), *RNN),
        [1.801144, 0.426221, 0.426221, 2.696638, 5.35022],
    ),
    "native_layer_norm": (
        lambda: rl.native_layer_norm(IMAGE, (3,), ramp(3), None, 1e-5),
        [
            [0.0, 0.15923, 1.066526, 0.0, 0.068072, -1.25559, 1.45303],
            [0.543222, 0.282471, -0.828432, 0.553989, 0.269073, -0.82567, 0.81485],
            [2.447323, 2.012033, 6.820585, 2.480167, 2.000934, 6.566113, 26.83217],
        ],
    ),
    "native_group_norm": (
        lambda: rl.native_group_norm(IMAGE, ramp(4), None, 2, 4, 3, 2, 1e-5),
        [
            [0.0, 0.0, 0.0, 0.613031, -0.105981, -1.039449, -2.35177],
            [0.412847, -0.137221, -0.278299, 0.410099, 0.40743],
            [2.112942, 1.324759, 1.514289, 2.089025, 7.04102],
        ],
    ),
    "native_batch_norm": (
        lambda: rl.native_batch_norm(IMAGE, ramp(4), None, None, None, True, 0.1, 1e-5),
        [
            [0.0, 0.0, 0.0, 1.099498, 0.587713, -0.07672, 0.0],
            [0.406148, -0.271599, -0.131916, 0.404794, 0.40743],
            [2.098167, 1.50397, 1.318807, 2.086316, 7.00726],
        ],
    ),
    "grid_sampler": (
        lambda: rl.grid_sampler(ramp(1, 1, 3, 3), ramp(1, 2, 2, 2), 1, 2, True),
        [-0.982453, -0.631267, 0.334988, 0.0, -1.27873],
    ),
    "adaptive_max_pool1d": (
        lambda: rl.adaptive_max_pool1d(IMAGE[0], 2),
        [[0.644218, 0.98545, 0.863209, 0.334988, -0.871576, -0.631267, 2.97018], [1, 2, 0, 1, 0, 2, 9]],
    ),
    "hinge_embedding_loss": (lambda: rl.hinge_embedding_loss(ramp(4), SIGNS, 1.0, 2), [1.478023, 1.47802]),
    "cosine_embedding_loss": (
        lambda: rl.cosine_embedding_loss(ramp(4, 3), ramp(4, 3, scale=0.5).flip(0), SIGNS, 0.1, 0),
        [0.000131, 0.0, 1.596072, 0.899869, 2.49607],
    ),
    "margin_ranking_loss": (
        lambda: rl.margin_ranking_loss(ramp(4), ramp(4).flip(0), SIGNS, 0.1),
        [0.963209, 0.0, 0.0, 0.963209, 1.92642],
    ),
    "poisson_nll_loss": (
        lambda: rl.poisson_nll_loss(ramp(4), ramp(4) + 3, True, True, 1e-8, 1),
        [2.207535, 2.20754],
    ),
    "triplet_margin_loss": (
        lambda: rl.triplet_margin_loss(
            ramp(4, 3), ramp(4, 3).flip(0), ramp(4, 3).flip(1), 1.0, 2.0, 1e-6, True, reduction=0
        ),
        [0.0, 1.479472, 2.856465, 0.0, 4.33594],
    ),
    "ctc_loss": (
        lambda: rl.ctc_loss(ramp(5, 1, 3).log_softmax(-1), rl.tensor([[1, 2]]), (5,), (2,), 0, 2),
        [1.969769, 1.96977],
    ),
    "dropout of nothing": (
        lambda: rl.native_dropout(ramp(3), 0.5, False),
        [[0.0, 0.644218, 0.98545, 1.62967], [1] * 3 + [3]],
    ),
    "dropout of all": (lambda: rl.native_dropout(ramp(3), 1.0, None), [[0.0] * 4, [0] * 4]),
    "celu_": (lambda: rl.celu_(-ramp(3), 0.5), [0.0, -0.362137, -0.430337, -0.79247]),
    "threshold_": (lambda: rl.threshold_(ramp(3), 0.7, 9.0), [9.0, 9.0, 0.98545, 18.98545]),
}


def summary(found):
    """The first six elements and the sum, of each of several results."""
    if isinstance(found, tuple):
        return [summary(part) for part in found]
    flat = found.double().reshape(-1)
    return [*flat[:6].tolist(), flat.sum().item()]


def near(expected, found):
    """Whether nested lists of numbers are close."""
    if not isinstance(expected, list):
        return found == pytest.approx(expected, abs=2e-5)
    return len(expected) == len(found) and all(map(near, expected, found))


@pytest.mark.parametrize("name", CASES)
def test_values_are_those_of_pytorch(name):
    function, expected = CASES[name]
    assert near(expected, summary(function()))


def test_recurrent_layers_compile_with_gradients():
    def loss(x, weight, recurrent):
        return rl.lstm(x, states(), (weight, recurrent), *DENSE)[0].pow(2).sum()

    given = [part.clone().requires_grad_() for part in (ramp(4, 2, 3), *LSTM[:2])]
    eager = rl.autograd.grad(loss(*given), given)
    compiled = rl.autograd.grad(rl.compile(loss, fullgraph=True)(*given), given)
    assert all(bool((one == other).all()) and bool(one.any()) for one, other in zip(eager, compiled, strict=True))


def test_dropout_keeps_what_it_says():
    rl.manual_seed(0)
    x = rl.ones(1000)
    kept, mask = rl.native_dropout(x, 0.25, True)
    assert kept.tolist() == (mask / 0.75).tolist()
    assert 700 < int(mask.sum()) < 800
    assert rl.dropout_(x, 0.5, True) is x and 0 < int((x == 0).sum()) < 1000


@pytest.mark.parametrize(
    ("code", "call"),
    [
        ("A002", lambda: rl.hinge_embedding_loss(ramp(4), SIGNS, 1.0, 3)),
        ("A003", lambda: rl.gru(ramp(2, 4, 3), ramp(2, 2, 2), GRU)),
        ("A004", lambda: rl.gru(ramp(4, 2, 3), ramp(1, 2, 2), GRU * 2, *DENSE)),
    ],
)
def test_error_has_its_code(code, call):
    with pytest.raises(RushlightError) as caught:
        call()
    assert caught.value.code == code


def test_moments_beside_a_norm_have_no_history():
    x = rl.arange(12.0).reshape(2, 3, 2).requires_grad_()
    for found in (
        rl.native_layer_norm(x, (2,), None, None, 1e-5),
        rl.native_batch_norm(x, None, None, None, None, True, 0.1, 1e-5),
    ):
        assert [part.requires_grad for part in found] == [True, False, False]
