"""Layers and losses as PyTorch's top has them: under their kernels' names and with their kernels' arguments.

Reductions, modes and paddings are numbers here, in the order in which `nn.functional` names them. Where no reduction is
given there is none, as in PyTorch, although its declarations say the mean.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rushlight.compat.functions import var_mean
from rushlight.eager import functions as ops
from rushlight.eager.arguments import fixed_integer
from rushlight.eager.boundary import checked
from rushlight.eager.composite.forms import with_out
from rushlight.eager.creation import zeros
from rushlight.eager.tensor import Tensor
from rushlight.ir.dtype import bool_, float32
from rushlight.nn import functional
from rushlight.nn.functional import celu_, conv_tbc, rrelu, rrelu_, threshold_
from rushlight.nn.modules.rnn import GATES, RNNBase, RNNCellBase
from rushlight.nn.packed import PackedSequence
from rushlight.nn.substitution import functional_call
from rushlight.support.errors import require

__all__ = [
    "adaptive_max_pool1d",
    "affine_grid_generator",
    "alpha_dropout",
    "alpha_dropout_",
    "celu_",
    "conv_tbc",
    "cosine_embedding_loss",
    "ctc_loss",
    "dropout_",
    "feature_alpha_dropout",
    "feature_alpha_dropout_",
    "feature_dropout",
    "feature_dropout_",
    "grid_sampler",
    "grid_sampler_2d",
    "grid_sampler_3d",
    "gru",
    "gru_cell",
    "hinge_embedding_loss",
    "lstm",
    "lstm_cell",
    "margin_ranking_loss",
    "native_batch_norm",
    "native_channel_shuffle",
    "native_dropout",
    "native_group_norm",
    "native_layer_norm",
    "poisson_nll_loss",
    "rnn_relu",
    "rnn_relu_cell",
    "rnn_tanh",
    "rnn_tanh_cell",
    "rrelu",
    "rrelu_",
    "threshold_",
    "triplet_margin_loss",
]

_REDUCTIONS = ("none", "mean", "sum")
_MODES = ("bilinear", "nearest", "bicubic")
_PADDINGS = ("zeros", "border", "reflection")
native_channel_shuffle = ops.channel_shuffle


def _named(names: tuple[str, ...], number: object, parameter: str) -> str:
    index = fixed_integer(number)
    require(0 <= index < len(names), "A002", f"{parameter} is a number below {len(names)}", given=number)
    return names[index]


def _reduction_named(number: object) -> str:
    return _named(_REDUCTIONS, number, "reduction")


# Losses.


@checked
def cosine_embedding_loss(
    input1: Tensor, input2: Tensor, target: Tensor, margin: float = 0.0, reduction: int = 0
) -> Tensor:
    """Return `nn.functional.cosine_embedding_loss`; reductions are 0 none, 1 mean, 2 sum."""
    return functional.cosine_embedding_loss(input1, input2, target, margin, reduction=_reduction_named(reduction))


@checked
def ctc_loss(
    log_probs: Tensor,
    targets: Tensor,
    input_lengths: Tensor | tuple[int, ...],
    target_lengths: Tensor | tuple[int, ...],
    blank: int = 0,
    reduction: int = 0,
    zero_infinity: bool = False,
) -> Tensor:
    """Return `nn.functional.ctc_loss`; reductions are 0 none, 1 mean, 2 sum."""
    how = _reduction_named(reduction)
    return functional.ctc_loss(log_probs, targets, input_lengths, target_lengths, blank, how, zero_infinity)


@checked
def hinge_embedding_loss(input: Tensor, target: Tensor, margin: float = 1.0, reduction: int = 0) -> Tensor:
    """Return `nn.functional.hinge_embedding_loss`; reductions are 0 none, 1 mean, 2 sum."""
    return functional.hinge_embedding_loss(input, target, margin, reduction=_reduction_named(reduction))


@checked
def margin_ranking_loss(
    input1: Tensor, input2: Tensor, target: Tensor, margin: float = 0.0, reduction: int = 0
) -> Tensor:
    """Return `nn.functional.margin_ranking_loss`; reductions are 0 none, 1 mean, 2 sum."""
    return functional.margin_ranking_loss(input1, input2, target, margin, reduction=_reduction_named(reduction))


@checked
def poisson_nll_loss(input: Tensor, target: Tensor, log_input: bool, full: bool, eps: float, reduction: int) -> Tensor:
    """Return `nn.functional.poisson_nll_loss`; reductions are 0 none, 1 mean, 2 sum."""
    return functional.poisson_nll_loss(input, target, log_input, full, eps=eps, reduction=_reduction_named(reduction))


@checked
def triplet_margin_loss(
    anchor: Tensor,
    positive: Tensor,
    negative: Tensor,
    margin: float = 1.0,
    p: float = 2.0,
    eps: float = 1e-6,
    swap: bool = False,
    reduction: int = 0,
) -> Tensor:
    """Return `nn.functional.triplet_margin_loss`; reductions are 0 none, 1 mean, 2 sum."""
    return functional.triplet_margin_loss(
        anchor, positive, negative, margin, p, eps, swap, reduction=_reduction_named(reduction)
    )


# Images.


@checked
def adaptive_max_pool1d(input: Tensor, output_size: int | tuple[int, ...]) -> tuple[Tensor, Tensor]:
    """Return the largest elements of windows that fill the last dim, and where they are."""
    return functional.adaptive_max_pool1d_with_indices(input, output_size)


@checked
def affine_grid_generator(theta: Tensor, size: Sequence[int], align_corners: bool) -> Tensor:
    """Return `nn.functional.affine_grid`."""
    return functional.affine_grid(theta, tuple(size), align_corners)


@checked
def grid_sampler(
    input: Tensor, grid: Tensor, interpolation_mode: int, padding_mode: int, align_corners: bool
) -> Tensor:
    """Return `nn.functional.grid_sample`, by the numbers of its modes.

    Modes are 0 bilinear, 1 nearest, 2 bicubic; of padding 0 zeros, 1 border, 2 reflection.
    """
    mode = _named(_MODES, interpolation_mode, "interpolation_mode")
    return functional.grid_sample(input, grid, mode, _named(_PADDINGS, padding_mode, "padding_mode"), align_corners)


grid_sampler_2d = grid_sampler_3d = grid_sampler


# Elements set to 0 by chance.


@checked
def native_dropout(input: Tensor, p: float, train: bool | None) -> tuple[Tensor, Tensor]:
    """Return (`dropout` of the input, the bools of what it keeps); `train` of None is True."""
    if train is False:
        return input.clone(), ops.ones(tuple(input.shape), dtype=bool_, device=input.device)
    kept = ops.dropout(ops.ones(tuple(input.shape), dtype=input.dtype, device=input.device), p, True)
    return input * kept, kept != 0


@checked
def dropout_(input: Tensor, p: float, train: bool) -> Tensor:
    """Overwrite the input with `dropout` of it."""
    return functional.dropout(input, p, train, True)


@checked
def feature_dropout(input: Tensor, p: float, train: bool) -> Tensor:
    """Return the input with whole channels of the second dim set to 0, the others divided by `1 - p`."""
    return functional.dropout2d(input, p, train)


@checked
def feature_dropout_(input: Tensor, p: float, train: bool) -> Tensor:
    """Overwrite the input with `feature_dropout` of it."""
    return functional.dropout2d(input, p, train, True)


@checked
def alpha_dropout(input: Tensor, p: float, train: bool) -> Tensor:
    """Return `nn.functional.alpha_dropout`."""
    return functional.alpha_dropout(input, p, train)


@checked
def alpha_dropout_(input: Tensor, p: float, train: bool) -> Tensor:
    """Overwrite the input with `alpha_dropout` of it."""
    return functional.alpha_dropout(input, p, train, True)


@checked
def feature_alpha_dropout(input: Tensor, p: float, train: bool) -> Tensor:
    """Return `nn.functional.feature_alpha_dropout`."""
    return functional.feature_alpha_dropout(input, p, train)


@checked
def feature_alpha_dropout_(input: Tensor, p: float, train: bool) -> Tensor:
    """Overwrite the input with `feature_alpha_dropout` of it."""
    return functional.feature_alpha_dropout(input, p, train, True)


# Normalisation with the moments that it divides by.


def _moments(input: Tensor, dims: Sequence[int], eps: float, keepdim: bool) -> tuple[Tensor, Tensor]:
    """The mean over dims, and one over the root of variance and `eps`."""
    wide = input.float() if input.dtype.itemsize < float32.itemsize else input
    spread, mean = var_mean(wide, tuple(dims), correction=0, keepdim=keepdim)
    return mean.to(input.dtype), ops.rsqrt(spread + eps).to(input.dtype)


@checked
def native_layer_norm(
    input: Tensor, normalized_shape: int | Sequence[int], weight: Tensor | None, bias: Tensor | None, eps: float
) -> tuple[Tensor, Tensor, Tensor]:
    """Return (`layer_norm`, means, one over the root of variances and `eps`).

    The last two keep all dims, and have no history.
    """
    sizes = (normalized_shape,) if isinstance(normalized_shape, int) else tuple(normalized_shape)
    normalized = functional.layer_norm(input, sizes, weight, bias, eps)
    return normalized, *_moments(input.detach(), range(input.ndim - len(sizes), input.ndim), eps, True)


@checked
def native_group_norm(
    input: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    N: int,  # noqa: N803 - PyTorch's name
    C: int,  # noqa: N803 - PyTorch's name
    HxW: int,  # noqa: N803 - PyTorch's name
    group: int,
    eps: float,
) -> tuple[Tensor, Tensor, Tensor]:
    """Return (`group_norm`, means, one over the root of variances and `eps`): `N` images of `C` channels."""
    normalized = functional.group_norm(input, group, weight, bias, eps)
    return normalized, *_moments(input.reshape(N, group, C // group * HxW), (2,), eps, False)


@with_out
def native_batch_norm(
    input: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    training: bool,
    momentum: float,
    eps: float,
) -> tuple[Tensor, Tensor, Tensor]:
    """Return (`batch_norm`, the batch's means, one over the root of its variances and `eps`).

    The last two are without elements where `training` is False, and have no history.
    """
    others = [dim for dim in range(input.ndim) if dim != 1]
    nothing = zeros(0, dtype=input.dtype, device=input.device)
    moments = _moments(input.detach(), others, eps, False) if training else (nothing, nothing.clone())
    normalized = functional.batch_norm(input, running_mean, running_var, weight, bias, training, momentum, eps)
    return normalized, *moments


# Recurrent layers, of parameters in the order of the modules': weights of input and state, then their biases.

_DENSE = ("input", "hx", "params", "has_biases", "num_layers", "dropout", "train", "bidirectional", "batch_first")
_PACKED = ("data", "batch_sizes", *_DENSE[1:-1])


class _Layer(RNNBase):
    """A recurrent layer whose parameters are given at each call."""

    def reset_parameters(self) -> None:
        """Nothing: there are none to draw."""

    def forward(
        self, input: Tensor | PackedSequence, state: tuple[Tensor, ...]
    ) -> tuple[Tensor | PackedSequence, tuple[Tensor, ...]]:
        """Return the last layer's outputs and the state at the end."""
        return self._run(input, state)


def _recurrent(mode: str, args: tuple[object, ...], named: dict[str, object]) -> Any:
    """(Outputs, states at the end) of a layer, by its kernel's arguments. Packed sequences have others."""
    packed = "batch_sizes" in named or (len(args) > 3 and isinstance(args[3], (list, tuple)))
    names = _PACKED if packed else _DENSE
    given: dict[str, Any] = {**dict(zip(names, args, strict=False)), **named}
    fits = len(args) + len(named) == len(names) and set(given) == set(names)
    require(fits, "A003", f"{mode}: takes {', '.join(names)}", given=sorted(given))
    params, biased, both = given["params"], given["has_biases"], given["bidirectional"]
    hidden, width = params[0].shape[0] // GATES[mode], params[1].shape[1]
    sizes = (params[0].shape[1], hidden, fixed_integer(given["num_layers"]))
    first, projected = given.get("batch_first", False), 0 if width == hidden else width
    layer = _Layer(mode, *sizes, biased, first, float(given["dropout"]), both, projected, device="meta")
    names = layer._flat_weights_names
    require(len(names) == len(params), "A004", f"{mode}: there are {len(names)} parameters", given=len(params))
    input = PackedSequence(given["data"], given["batch_sizes"]) if packed else given["input"]
    state = tuple(given["hx"]) if mode == "LSTM" else (given["hx"],)
    outputs, ends = functional_call(layer.train(given["train"]), dict(zip(names, params, strict=True)), (input, state))
    return (outputs.data if packed else outputs), *ends


@checked
def lstm(*args: object, **named: object) -> tuple[Tensor, Tensor, Tensor]:
    """Return (outputs, hidden state, memory) of the layers of `nn.LSTM` with these parameters.

    Arguments are `input, hx, params, has_biases, num_layers, dropout, train, bidirectional, batch_first`, or for packed
    sequences `data, batch_sizes, hx, ..., bidirectional`.
    """
    return _recurrent("LSTM", args, named)


@checked
def gru(*args: object, **named: object) -> tuple[Tensor, Tensor]:
    """Return (outputs, hidden state) of `nn.GRU`'s layers. Arguments are those of `lstm`; `hx` is a tensor."""
    return _recurrent("GRU", args, named)


@checked
def rnn_tanh(*args: object, **named: object) -> tuple[Tensor, Tensor]:
    """Return (outputs, hidden state) of the layers of `nn.RNN`; arguments are those of `gru`."""
    return _recurrent("RNN_TANH", args, named)


@checked
def rnn_relu(*args: object, **named: object) -> tuple[Tensor, Tensor]:
    """Return (outputs, hidden state) of the layers of `nn.RNN` with relu; arguments are those of `gru`."""
    return _recurrent("RNN_RELU", args, named)


class _Cell(RNNCellBase):
    """A cell whose parameters are given at each call."""

    def reset_parameters(self) -> None:
        """Nothing: there are none to draw."""

    def forward(self, mode: str, input: Tensor, state: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        """Return the next state."""
        return self._next(mode, input, state)


def _step(mode: str, input: Tensor, state: tuple[Tensor, ...], params: tuple[Tensor | None, ...]) -> Any:
    w_ih: Any = params[0]
    rows, width = w_ih.shape
    cell = _Cell(width, rows // GATES[mode], params[2] is not None, GATES[mode], device="meta")
    named = dict(zip(("weight_ih", "weight_hh", "bias_ih", "bias_hh"), params, strict=True))
    return functional_call(
        cell, {name: param for name, param in named.items() if param is not None}, (mode, input, state)
    )


@checked
def lstm_cell(
    input: Tensor,
    hx: Sequence[Tensor],
    w_ih: Tensor,
    w_hh: Tensor,
    b_ih: Tensor | None = None,
    b_hh: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """Return the next (hidden state, memory) of `nn.LSTMCell` with these parameters."""
    return _step("LSTM", input, tuple(hx), (w_ih, w_hh, b_ih, b_hh))


@checked
def gru_cell(
    input: Tensor, hx: Tensor, w_ih: Tensor, w_hh: Tensor, b_ih: Tensor | None = None, b_hh: Tensor | None = None
) -> Tensor:
    """Return the next hidden state of `nn.GRUCell` with these parameters."""
    return _step("GRU", input, (hx,), (w_ih, w_hh, b_ih, b_hh))[0]


@checked
def rnn_tanh_cell(
    input: Tensor, hx: Tensor, w_ih: Tensor, w_hh: Tensor, b_ih: Tensor | None = None, b_hh: Tensor | None = None
) -> Tensor:
    """Return the next hidden state of `nn.RNNCell` with these parameters."""
    return _step("RNN_TANH", input, (hx,), (w_ih, w_hh, b_ih, b_hh))[0]


@checked
def rnn_relu_cell(
    input: Tensor, hx: Tensor, w_ih: Tensor, w_hh: Tensor, b_ih: Tensor | None = None, b_hh: Tensor | None = None
) -> Tensor:
    """Return the next hidden state of `nn.RNNCell` with relu, with these parameters."""
    return _step("RNN_RELU", input, (hx,), (w_ih, w_hh, b_ih, b_hh))[0]
