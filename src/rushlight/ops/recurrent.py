"""What recurrent layers do at each step, after the products with their weights: gates, and the next state.

A step is one kernel, and so are its gradients, which compute the gates anew. `projected` is the input's product with
its weights, `product` the state's; gates lie beside each other in the last dim. 16-bit floats are computed in float32.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from rushlight.ir.value import Value
from rushlight.ops.create import zeros_like
from rushlight.ops.dims import Array, compute_array, convert, normal, same_shape, widened
from rushlight.ops.join import cat
from rushlight.ops.pointwise.elementary import sigmoid, tanh
from rushlight.ops.record import Gradients, Sample, define
from rushlight.ops.reduce.reduction import sum_
from rushlight.ops.split import part
from rushlight.support.errors import require


def _require_gates(op: str, count: int, projected: Value, product: Value, state: Value) -> None:
    """S014 unless both products have `count` gates of the state's width, and the state's other dims."""
    fits = state.ndim > 0 and same_shape(projected.shape, (*state.shape[:-1], count * state.shape[-1]))
    fits = fits and same_shape(projected.shape, product.shape)
    shapes: dict[str, Any] = {"projected": projected.shape, "product": product.shape, "state": state.shape}
    require(fits, "S014", f"{op}: products have {count} times the state's width", **shapes)


def _gates(joined: Value, state: Value, count: int) -> list[Value]:
    width = state.shape[-1]
    return [part(joined, joined.ndim - 1, gate * width, width) for gate in range(count)]


def _joined(gates: list[Value], like: Value) -> Value:
    return convert(cat(gates, like.ndim - 1), like.dtype)


lstm_state = define(
    "lstm_state(Tensor projected, Tensor product, Tensor memory) -> (Tensor next_hidden, Tensor next_memory)",
    "The next hidden state and memory of an LSTM, whose gates are input, forget, cell and output.",
    dtypes="float",
    variants="",
)


class _Lstm(NamedTuple):
    """The gates of an LSTM and its next memory, in the dtype in which they are computed."""

    write: Value
    keep: Value
    new: Value
    read: Value
    memory: Value


def _lstm(projected: Value, product: Value, memory: Value) -> _Lstm:
    pairs = zip(_gates(widened(projected), memory, 4), _gates(widened(product), memory, 4), strict=True)
    write, keep, new, read = [one + other for one, other in pairs]
    write, keep, new, read = sigmoid(write), sigmoid(keep), tanh(new), sigmoid(read)
    return _Lstm(write, keep, new, read, keep * widened(memory) + write * new)


@lstm_state.decompose
def lstm_state_decompose(projected: Value, product: Value, memory: Value) -> tuple[Value, Value]:
    _require_gates("lstm_state", 4, projected, product, memory)
    after = _lstm(projected, product, memory)
    return convert(after.read * tanh(after.memory), memory.dtype), convert(after.memory, memory.dtype)


@lstm_state.ref
def lstm_state_ref(projected: Array, product: Array, memory: Array) -> tuple[Array, Array]:
    gates = np.split(compute_array(projected) + compute_array(product), 4, -1)
    write, keep, read = [1 / (1 + np.exp(-gates[gate])) for gate in (0, 1, 3)]
    after = keep * compute_array(memory) + write * np.tanh(gates[2])
    return (read * np.tanh(after)).astype(memory.dtype), after.astype(memory.dtype)


@lstm_state.vjp
def lstm_state_vjp(g: Gradients, projected: Value, product: Value, memory: Value) -> Gradients:
    write, keep, new, read, after = _lstm(projected, product, memory)
    of_hidden, of_memory = [None if one is None else widened(one) for one in g]
    shown = tanh(after)
    parts = [] if of_hidden is None else [of_hidden * read * (1 - shown * shown)]
    parts += [] if of_memory is None else [of_memory]
    total = parts[0] if len(parts) == 1 else parts[0] + parts[1]
    of_read = zeros_like(read) if of_hidden is None else of_hidden * shown * read * (1 - read)
    gates = _joined(
        [
            total * new * write * (1 - write),
            total * widened(memory) * keep * (1 - keep),
            total * write * (1 - new * new),
            of_read,
        ],
        projected,
    )
    return gates, convert(gates, product.dtype), convert(total * keep, memory.dtype)


@lstm_state.samples
def lstm_state_samples(rng: np.random.Generator) -> Iterator[Sample]:
    yield Sample(normal(rng, 3, 20), normal(rng, 3, 20), normal(rng, 3, 5))
    yield Sample(normal(rng, 8), normal(rng, 8), normal(rng, 2))


gru_state = define(
    "gru_state(Tensor projected, Tensor product, Tensor hidden, Tensor? bias=None) -> Tensor",
    "The next state of a GRU, whose gates are reset, update and new. The bias is added to the product.",
    dtypes="float",
    variants="",
)


class _Gru(NamedTuple):
    """The gates of a GRU, and the part of the new one that the reset gate multiplies."""

    reset: Value
    keep: Value
    new: Value
    own: Value


def _gru(projected: Value, product: Value, hidden: Value, bias: Value | None) -> _Gru:
    total = widened(product) if bias is None else widened(product) + widened(bias)
    reset, keep, new = _gates(widened(projected), hidden, 3)
    own_reset, own_keep, own = _gates(total, hidden, 3)
    reset, keep = sigmoid(reset + own_reset), sigmoid(keep + own_keep)
    return _Gru(reset, keep, tanh(new + reset * own), own)


@gru_state.decompose
def gru_state_decompose(projected: Value, product: Value, hidden: Value, bias: Value | None) -> Value:
    _require_gates("gru_state", 3, projected, product, hidden)
    if bias is not None:
        fits = same_shape(bias.shape, product.shape[-1:])
        require(fits, "S014", "gru_state: the bias does not fit", bias=bias.shape, product=product.shape)
    _, keep, new, _ = _gru(projected, product, hidden, bias)
    return convert(new + keep * (widened(hidden) - new), hidden.dtype)


@gru_state.ref
def gru_state_ref(projected: Array, product: Array, hidden: Array, bias: Array | None) -> Array:
    own = np.split(compute_array(product) + (0 if bias is None else compute_array(bias)), 3, -1)
    given = np.split(compute_array(projected), 3, -1)
    reset, keep = [1 / (1 + np.exp(-given[gate] - own[gate])) for gate in (0, 1)]
    new = np.tanh(given[2] + reset * own[2])
    return (new + keep * (compute_array(hidden) - new)).astype(hidden.dtype)


@gru_state.vjp
def gru_state_vjp(g: Value, projected: Value, product: Value, hidden: Value, bias: Value | None) -> Gradients:
    reset, keep, new, own = _gru(projected, product, hidden, bias)
    wide = widened(g)
    of_new = wide * (1 - keep) * (1 - new * new)
    of_keep = wide * (widened(hidden) - new) * keep * (1 - keep)
    of_reset = of_new * own * reset * (1 - reset)
    inner = _joined([of_reset, of_keep, of_new * reset], product)
    rows = tuple(range(product.ndim - 1))
    of_bias = None
    if bias is not None:
        of_bias = convert(inner, bias.dtype)
        of_bias = sum_(of_bias, rows) if rows else of_bias
    return _joined([of_reset, of_keep, of_new], projected), inner, convert(wide * keep, hidden.dtype), of_bias


@gru_state.samples
def gru_state_samples(rng: np.random.Generator) -> Iterator[Sample]:
    yield Sample(normal(rng, 3, 15), normal(rng, 3, 15), normal(rng, 3, 5), normal(rng, 15))
    yield Sample(normal(rng, 6), normal(rng, 6), normal(rng, 2))
