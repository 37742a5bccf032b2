"""Layers as functions of their inputs and parameters, with PyTorch's signatures."""

from __future__ import annotations

from typing import Any

from rushlight.eager import functions as ops
from rushlight.eager.arguments import flag, number, required_tensor
from rushlight.eager.boundary import checked
from rushlight.eager.functions import (
    adaptive_avg_pool1d,
    adaptive_avg_pool2d,
    adaptive_avg_pool3d,
    avg_pool1d,
    avg_pool2d,
    avg_pool3d,
    conv1d,
    conv2d,
    conv3d,
    conv_transpose1d,
    conv_transpose2d,
    conv_transpose3d,
    gelu,
    layer_norm,
    linear,
    logsigmoid,
    pad,
    rms_norm,
    sigmoid,
    softplus,
    tanh,
)
from rushlight.eager.mutation import in_place
from rushlight.eager.symbols import holds
from rushlight.eager.tensor import Tensor
from rushlight.ir.dtype import Kind
from rushlight.nn.interpolation import interpolate
from rushlight.nn.spatial import PerDim
from rushlight.ops.contract.attention import scaled_dot_product_attention_decompose
from rushlight.ops.promote import broadcast
from rushlight.ops.record import OPERATORS
from rushlight.support.errors import fail, require
from rushlight.support.peer_names import absent_name

__all__ = [
    "adaptive_avg_pool1d",
    "adaptive_avg_pool2d",
    "adaptive_avg_pool3d",
    "avg_pool1d",
    "avg_pool2d",
    "avg_pool3d",
    "batch_norm",
    "binary_cross_entropy",
    "binary_cross_entropy_with_logits",
    "conv1d",
    "conv2d",
    "conv3d",
    "conv_transpose1d",
    "conv_transpose2d",
    "conv_transpose3d",
    "cosine_similarity",
    "cross_entropy",
    "dropout",
    "elu",
    "embedding",
    "embedding_bag",
    "gelu",
    "glu",
    "group_norm",
    "hardsigmoid",
    "hardswish",
    "hardtanh",
    "huber_loss",
    "instance_norm",
    "interpolate",
    "kl_div",
    "l1_loss",
    "layer_norm",
    "leaky_relu",
    "linear",
    "log_softmax",
    "logsigmoid",
    "max_pool1d",
    "max_pool2d",
    "max_pool3d",
    "mish",
    "mse_loss",
    "nll_loss",
    "normalize",
    "one_hot",
    "pad",
    "relu",
    "relu6",
    "rms_norm",
    "scaled_dot_product_attention",
    "selu",
    "sigmoid",
    "silu",
    "smooth_l1_loss",
    "softmax",
    "softmin",
    "softplus",
    "softsign",
    "tanh",
]


def _activation(name: str, inplace: bool, input: Tensor, **attrs: object) -> Tensor:
    op = OPERATORS[name]
    if attrs:
        attrs = {name: value if value.__class__ is float else number(value) for name, value in attrs.items()}
    if inplace is False or not flag(inplace):
        return op(input, **attrs)
    return in_place(op)(input, **attrs)


def relu(input: Tensor, inplace: bool = False) -> Tensor:
    """Return the larger of each element and 0."""
    return _activation("relu", inplace, input)


def relu6(input: Tensor, inplace: bool = False) -> Tensor:
    """Return each element held between 0 and 6."""
    return hardtanh(input, 0.0, 6.0, inplace)


def silu(input: Tensor, inplace: bool = False) -> Tensor:
    """Return `x * sigmoid(x)`, also called swish."""
    return _activation("silu", inplace, input)


def mish(input: Tensor, inplace: bool = False) -> Tensor:
    """Return `x * tanh(softplus(x))`."""
    return _activation("mish", inplace, input)


def elu(input: Tensor, alpha: float = 1.0, inplace: bool = False) -> Tensor:
    """Return x where positive, else `alpha * (exp(x) - 1)`."""
    return _activation("elu", inplace, input, alpha=alpha)


def selu(input: Tensor, inplace: bool = False) -> Tensor:
    """Return the scaled elu that keeps mean 0 and variance 1."""
    return _activation("selu", inplace, input)


def leaky_relu(input: Tensor, negative_slope: float = 0.01, inplace: bool = False) -> Tensor:
    """Return x where positive, else `negative_slope * x`."""
    return _activation("leaky_relu", inplace, input, negative_slope=negative_slope)


def hardtanh(input: Tensor, min_val: float = -1.0, max_val: float = 1.0, inplace: bool = False) -> Tensor:
    """Return each element held between two bounds."""
    return _activation("hardtanh", inplace, input, min_val=min_val, max_val=max_val)


def hardsigmoid(input: Tensor, inplace: bool = False) -> Tensor:
    """Return `relu6(x + 3) / 6`."""
    return _activation("hardsigmoid", inplace, input)


def hardswish(input: Tensor, inplace: bool = False) -> Tensor:
    """Return `x * relu6(x + 3) / 6`."""
    return _activation("hardswish", inplace, input)


@checked
def softsign(input: Tensor) -> Tensor:
    """Return `x / (1 + |x|)`."""
    return input / (1 + abs(input))


@checked
def glu(input: Tensor, dim: int = -1) -> Tensor:
    """Return the first half of a dim times the sigmoid of the second."""
    require(input.size(dim) % 2 == 0, "A004", "glu: the dim must be of even size", input=input, dim=dim)
    first, second = ops.chunk(input, 2, dim)
    return first * sigmoid(second)


def _implicit_dim(input: Tensor, dim: int | None) -> int:
    return (0 if input.ndim in (0, 1, 3) else 1) if dim is None else dim


@checked
def softmax(input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: object = None) -> Tensor:
    """Return exponentials over their sum along a dim."""
    return ops.softmax(input, _implicit_dim(input, dim), dtype=dtype)


@checked
def log_softmax(input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: object = None) -> Tensor:
    """Return the logarithm of softmax."""
    return ops.log_softmax(input, _implicit_dim(input, dim), dtype=dtype)


@checked
def softmin(input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: object = None) -> Tensor:
    """Return the softmax of -input."""
    return softmax(-input, dim, dtype=dtype)


@checked
def scaled_dot_product_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    *,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Any:
    """Return softmax(query @ key.mT * scale + mask) @ value; a bool mask is True for keys that take part."""
    if dropout_p == 0.0:
        return ops.scaled_dot_product_attention(
            query, key, value, attn_mask, dropout_p, is_causal, scale=scale, enable_gqa=enable_gqa
        )
    # In parts: a draw of random numbers is a call of its own, with its place in the generator's stream.
    query, key, value = required_tensor(query), required_tensor(key), required_tensor(value)
    return scaled_dot_product_attention_decompose(query, key, value, attn_mask, dropout_p, is_causal, scale, enable_gqa)


@checked
def dropout(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """Return the input with elements set to 0 with probability `p`, and the others divided by `1 - p`."""
    require(0.0 <= p <= 1.0, "A002", f"dropout probability has to be between 0 and 1, but got {p}")
    if not training or p == 0.0:
        return input
    result = ops.dropout(input, p, training)
    return input.copy_(result) if inplace else result


@checked
def embedding(
    input: Tensor,
    weight: Tensor,
    padding_idx: int | None = None,
    max_norm: float | None = None,
    norm_type: float = 2.0,
    scale_grad_by_freq: bool = False,
    sparse: bool = False,
) -> Tensor:
    """Return rows of `weight`; the row `padding_idx` gets no gradient."""
    if max_norm is not None or scale_grad_by_freq or sparse:
        fail("A006", "embedding: max_norm, scale_grad_by_freq and sparse are not supported yet")
    return ops.embedding(input, weight, _place_of_padding("embedding", padding_idx, weight))


def _place_of_padding(op: str, padding_idx: int | None, weight: Tensor) -> int | None:
    if padding_idx is None:
        return None
    require(weight.ndim == 2, "S002", f"{op}: the weight must have 2 dims", weight=weight)
    rows = weight.shape[0]
    fits = -rows <= padding_idx < rows
    require(fits, "A002", f"{op}: padding_idx must be within num_embeddings", padding_idx=padding_idx)
    return padding_idx % rows


@checked
def embedding_bag(
    input: Tensor,
    weight: Tensor,
    offsets: object = None,
    max_norm: float | None = None,
    norm_type: float = 2,
    scale_grad_by_freq: bool = False,
    mode: str = "mean",
    sparse: bool = False,
    per_sample_weights: object = None,
    include_last_offset: bool = False,
    padding_idx: int | None = None,
) -> Tensor:
    """Return rows of `weight` combined in bags by "sum", "mean" or "max".

    A bag is a row of the input. In an input of 1 dim, a bag begins at one of `offsets` and ends at the next. Rows of
    `padding_idx` are left out; an empty bag gives 0.
    """
    if max_norm is not None or scale_grad_by_freq or sparse:
        fail("A006", "embedding_bag: max_norm, scale_grad_by_freq and sparse are not supported yet")
    padding_idx = _place_of_padding("embedding_bag", padding_idx, weight)
    return OPERATORS["embedding_bag"](
        weight, input, offsets, per_sample_weights, mode, include_last_offset, padding_idx
    )


@checked
def one_hot(tensor: Tensor, num_classes: int = -1) -> Tensor:
    """Return rows of zeros with a 1 at each class.

    The number of classes, unless given, is the largest class plus one.
    """
    require(tensor.dtype.kind is Kind.INT, "D001", "one_hot: classes are integers", tensor=tensor)
    count = int(tensor.max()) + 1 if num_classes == -1 else num_classes
    return ops.one_hot(tensor, count)


@checked
def batch_norm(
    input: Tensor,
    running_mean: Tensor | None,
    running_var: Any,
    weight: object = None,
    bias: object = None,
    training: bool = False,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Tensor:
    """Normalise each channel by its running statistics, or by the batch's when training.

    Training also moves the running statistics, in place.
    """
    if training and input.ndim >= 2:
        message = "Expected more than 1 value per channel when training"
        require(holds(input.numel() != input.shape[1], message), "A002", message, input=input)
    output, mean, variance = OPERATORS["batch_norm"](
        input, running_mean, running_var, weight, bias, training=training, momentum=momentum, eps=eps
    )
    if training and running_mean is not None:
        running_mean.copy_(mean)
        running_var.copy_(variance)
    return output


@checked
def group_norm(
    input: Tensor, num_groups: int, weight: Tensor | None = None, bias: Tensor | None = None, eps: float = 1e-5
) -> Tensor:
    """Normalise over groups of channels and all dims after them."""
    message = "Expected more than 1 value per channel when training"
    require(holds(input.numel() != num_groups, message), "A002", message, input=input)
    return ops.group_norm(input, num_groups, weight, bias, eps)


@checked
def instance_norm(
    input: Tensor,
    running_mean: object = None,
    running_var: object = None,
    weight: object = None,
    bias: object = None,
    use_input_stats: bool = True,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Tensor:
    """Normalise each channel of each sample."""
    if running_mean is not None or not use_input_stats:
        fail("A006", "instance_norm: running statistics are not supported yet")
    if input.ndim >= 2:
        message = "Expected more than 1 spatial element when training"
        several = holds(input.numel() != input.shape[0] * input.shape[1], message)
        require(several, "A002", message, input=input)
    return ops.instance_norm(input, weight, bias, eps)


@checked
def normalize(input: Tensor, p: float = 2.0, dim: int = 1, eps: float = 1e-12, out: Tensor | None = None) -> Tensor:
    """Return the input over its norm along a dim."""
    length = ops.linalg_vector_norm(input, p, dim, True)
    result = input / ops.maximum(length, eps)
    return result if out is None else out.copy_(result)


@checked
def cosine_similarity(x1: Tensor, x2: Tensor, dim: int = 1, eps: float = 1e-8) -> Tensor:
    """Return the cosine of the angle between vectors along a dim."""
    shape = broadcast(x1.shape, x2.shape)
    one, other = x1.expand(shape), x2.expand(shape)
    lengths = [ops.maximum(ops.linalg_vector_norm(x, 2.0, dim, True), eps) for x in (one, other)]
    return ((one / lengths[0]) * (other / lengths[1])).sum(dim)


# These return a tensor or (values, indices); a union would make every caller test which.
def _max_pool(
    dims: int,
    input: Tensor,
    kernel_size: PerDim[int],
    stride: PerDim[int] | None,
    padding: PerDim[int],
    dilation: PerDim[int],
    ceil_mode: bool,
    return_indices: bool,
) -> Any:
    name = f"max_pool{dims}d_with_indices" if flag(return_indices) else f"max_pool{dims}d"
    return OPERATORS[name](input, kernel_size, stride, padding, dilation, ceil_mode)


def max_pool1d(
    input: Tensor,
    kernel_size: PerDim[int],
    stride: PerDim[int] | None = None,
    padding: PerDim[int] = 0,
    dilation: PerDim[int] = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Any:
    """Return the largest element of each window over the last dim."""
    return _max_pool(1, input, kernel_size, stride, padding, dilation, ceil_mode, return_indices)


def max_pool2d(
    input: Tensor,
    kernel_size: PerDim[int],
    stride: PerDim[int] | None = None,
    padding: PerDim[int] = 0,
    dilation: PerDim[int] = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Any:
    """Return the largest element of each window over the last two dims."""
    return _max_pool(2, input, kernel_size, stride, padding, dilation, ceil_mode, return_indices)


def max_pool3d(
    input: Tensor,
    kernel_size: PerDim[int],
    stride: PerDim[int] | None = None,
    padding: PerDim[int] = 0,
    dilation: PerDim[int] = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Any:
    """Return the largest element of each window over the last three dims."""
    return _max_pool(3, input, kernel_size, stride, padding, dilation, ceil_mode, return_indices)


def reduction_of(size_average: bool | None, reduce: bool | None, reduction: str) -> str:
    """Return the reduction that PyTorch's older arguments ask for, `reduction` where they are not given."""
    if size_average is not None or reduce is not None:
        if reduce is False:
            return "none"
        return "sum" if size_average is False else "mean"
    return reduction


def _weighted(losses: Tensor, weight: object, reduction: str) -> Tensor:
    """Elementwise losses times their weights, then reduced; the mean is over the sum of weights."""
    scaled = losses * weight
    if reduction == "none":
        return scaled
    return scaled.sum() if reduction == "sum" else scaled.sum() / ops.broadcast_to(weight, losses.shape).sum()


@checked
def mse_loss(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    weight: object = None,
) -> Tensor:
    """Return squared differences, reduced."""
    reduction = reduction_of(size_average, reduce, reduction)
    if weight is not None:
        return _weighted(ops.mse_loss(input, target, "none"), weight, reduction)
    return ops.mse_loss(input, target, reduction)


@checked
def l1_loss(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    weight: object = None,
) -> Tensor:
    """Return absolute differences, reduced."""
    reduction = reduction_of(size_average, reduce, reduction)
    if weight is not None:
        return _weighted(ops.l1_loss(input, target, "none"), weight, reduction)
    return ops.l1_loss(input, target, reduction)


@checked
def smooth_l1_loss(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    beta: float = 1.0,
) -> Tensor:
    """Return differences, squared below `beta` and absolute above, reduced."""
    return ops.smooth_l1_loss(input, target, reduction_of(size_average, reduce, reduction), beta)


@checked
def huber_loss(
    input: Tensor, target: Tensor, reduction: str = "mean", delta: float = 1.0, weight: object = None
) -> Tensor:
    """Return smooth_l1_loss times `delta`, reduced."""
    if weight is not None:
        return _weighted(ops.huber_loss(input, target, "none", delta), weight, reduction)
    return ops.huber_loss(input, target, reduction, delta)


def cross_entropy(
    input: Tensor,
    target: Tensor,
    weight: object = None,
    size_average: bool | None = None,
    ignore_index: int = -100,
    reduce: bool | None = None,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
) -> Tensor:
    """Return the negative log probability of the targets under softmax, reduced.

    Targets are classes, or probabilities of all classes.
    """
    reduction = reduction_of(size_average, reduce, reduction)
    return ops.cross_entropy(input, target, weight, ignore_index, reduction, label_smoothing)


def nll_loss(
    input: Tensor,
    target: Tensor,
    weight: object = None,
    size_average: bool | None = None,
    ignore_index: int = -100,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """Return the negative of the targets' log probabilities, reduced."""
    return ops.nll_loss(input, target, weight, ignore_index, reduction_of(size_average, reduce, reduction))


def binary_cross_entropy(
    input: Tensor,
    target: Tensor,
    weight: object = None,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """Return the cross-entropy of probabilities, reduced."""
    return ops.binary_cross_entropy(input, target, weight, reduction_of(size_average, reduce, reduction))


def binary_cross_entropy_with_logits(
    input: Tensor,
    target: Tensor,
    weight: object = None,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    pos_weight: object = None,
) -> Tensor:
    """Return the cross-entropy of the sigmoid of the input, reduced."""
    reduction = reduction_of(size_average, reduce, reduction)
    return ops.binary_cross_entropy_with_logits(input, target, weight, reduction, pos_weight)


def kl_div(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    log_target: bool = False,
) -> Tensor:
    """Return the divergence of log probabilities from the target's probabilities, reduced."""
    return ops.kl_div(input, target, reduction_of(size_average, reduce, reduction), log_target)


def __getattr__(name: str) -> object:
    raise absent_name(__name__, name, __all__)
