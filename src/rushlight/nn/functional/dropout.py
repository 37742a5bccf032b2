"""Elements, or whole channels, set to 0 by chance."""

from __future__ import annotations

from rushlight.eager import functions as ops
from rushlight.eager.boundary import checked
from rushlight.eager.tensor import Tensor
from rushlight.support.errors import require


@checked
def dropout(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """Return the input with elements set to 0 with probability `p`, and the others divided by `1 - p`."""
    require(0.0 <= p <= 1.0, "A002", f"dropout probability has to be between 0 and 1, but got {p}")
    if not training or p == 0.0:
        return input
    result = ops.dropout(input, p, training)
    return input.copy_(result) if inplace else result


def _require_chance(p: float) -> None:
    require(0.0 <= p <= 1.0, "A002", f"dropout probability has to be between 0 and 1, but got {p}")


def _of_channels(input: Tensor) -> tuple[int, ...]:
    require(input.ndim >= 2, "S002", "dropout of channels: the input has a batch and channels", input=input)
    return (*input.shape[:2], *(1,) * (input.ndim - 2))


def _by_channel(input: Tensor, p: float, inplace: bool) -> Tensor:
    """Dims 0 and 1 give the batch and the channels, of which each is kept or dropped whole."""
    kept = ops.dropout(ops.ones(_of_channels(input), dtype=input.dtype, device=input.device), p, True)
    return _stored(input, input * kept, inplace)


def _stored(input: Tensor, result: Tensor, inplace: bool) -> Tensor:
    return input.copy_(result) if inplace else result


def _channels(input: Tensor, p: float, training: bool, inplace: bool, ranks: tuple[int, int]) -> Tensor:
    """As `_by_channel`, of inputs that may lack the batch."""
    _require_chance(p)
    if not training or p == 0.0:
        return input
    if input.ndim != ranks[0]:
        return _by_channel(input, p, inplace)
    dropped = _by_channel(input.unsqueeze(0), p, False).squeeze(0)
    return _stored(input, dropped, inplace)


@checked
def dropout1d(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """Return (n, c, length), or (c, length), with whole channels dropped."""
    require(input.ndim in (2, 3), "S002", "dropout1d: the input has 2 or 3 dims", input=input)
    return _channels(input, p, training, inplace, (2, 3))


@checked
def dropout2d(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """Return (n, c, h, w) with whole channels dropped; of 3 dims, the first is the batch, as in PyTorch."""
    _require_chance(p)
    return _by_channel(input, p, inplace) if training and p > 0.0 else input


@checked
def dropout3d(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """Return (n, c, d, h, w), or (c, d, h, w), with whole channels dropped."""
    return _channels(input, p, training, inplace, (4, 5))


_LIMIT = -1.7580993408473766  # of selu far below 0: what dropped elements become


def _alpha(input: Tensor, p: float, training: bool, inplace: bool, channels: bool) -> Tensor:
    _require_chance(p)
    if not training or p == 0.0:
        return input
    if p == 1.0:
        return _stored(input, input * 0.0, inplace)
    scale = ((_LIMIT * _LIMIT * p + 1.0) * (1.0 - p)) ** -0.5
    # Elements are 0 or 1 / (1 - p), of which the sign alone matters.
    shape = _of_channels(input) if channels else tuple(input.shape)
    kept = ops.dropout(ops.ones(shape, dtype=input.dtype, device=input.device), p, True) > 0
    shift = -scale * _LIMIT * p
    result = ops.where(kept, input * scale + shift, scale * _LIMIT + shift)
    return _stored(input, result, inplace)


@checked
def alpha_dropout(input: Tensor, p: float = 0.5, training: bool = False, inplace: bool = False) -> Tensor:
    """Return elements, or by chance selu's limit for them, so that mean and variance stay."""
    return _alpha(input, p, training, inplace, channels=False)


@checked
def feature_alpha_dropout(input: Tensor, p: float = 0.5, training: bool = False, inplace: bool = False) -> Tensor:
    """Return `alpha_dropout` of whole channels."""
    return _alpha(input, p, training, inplace, channels=True)
