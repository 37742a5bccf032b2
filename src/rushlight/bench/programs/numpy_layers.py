"""Recurrent layers, with gradients by hand, and transforms by their formulas."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from rushlight.bench.records import Array


def sigmoid(x: Array) -> Array:
    """1 / (1 + exp(-x))."""
    return 1 / (1 + np.exp(-x))


def lstm(x: Array, w_ih: Array, w_hh: Array, b_ih: Array, b_hh: Array, slope: Array) -> tuple[Array, ...]:
    """Outputs of all steps from a state of zeros, then the gradients of all operands but the slope."""
    hidden = memory = np.zeros(x.shape[1:2] + w_hh.shape[1:], x.dtype)
    kept: list[tuple[Array, ...]] = []
    outputs: list[Array] = []
    for given in x:
        parts = np.split(given @ w_ih.T + b_ih + hidden @ w_hh.T + b_hh, 4, -1)
        write, keep, new, read = sigmoid(parts[0]), sigmoid(parts[1]), np.tanh(parts[2]), sigmoid(parts[3])
        after = keep * memory + write * new
        kept.append((hidden, memory, write, keep, new, read, np.tanh(after)))
        hidden, memory = read * np.tanh(after), after
        outputs.append(hidden)
    gates = np.zeros((*x.shape[:2], w_ih.shape[0]), x.dtype)
    of_hidden, of_memory = np.zeros_like(hidden), np.zeros_like(hidden)
    for step in reversed(range(len(x))):
        _, before, write, keep, new, read, shown = kept[step]
        of_hidden = of_hidden + slope[step]
        of_memory = of_memory + of_hidden * read * (1 - shown**2)
        parts = [of_memory * new * write * (1 - write), of_memory * before * keep * (1 - keep)]
        parts += [of_memory * write * (1 - new**2), of_hidden * shown * read * (1 - read)]
        gates[step] = np.concatenate(parts, -1)
        of_hidden, of_memory = gates[step] @ w_hh, of_memory * keep
    states = np.stack([one[0] for one in kept])
    return np.stack(outputs), *_products(x, states, w_ih, gates, gates)


def gru(x: Array, w_ih: Array, w_hh: Array, b_ih: Array, b_hh: Array, slope: Array) -> tuple[Array, ...]:
    """Outputs of all steps from a state of zeros, then the gradients of all operands but the slope."""
    hidden = np.zeros(x.shape[1:2] + w_hh.shape[1:], x.dtype)
    kept: list[tuple[Array, ...]] = []
    outputs: list[Array] = []
    for given in x:
        parts, own = np.split(given @ w_ih.T + b_ih, 3, -1), np.split(hidden @ w_hh.T + b_hh, 3, -1)
        reset, keep = sigmoid(parts[0] + own[0]), sigmoid(parts[1] + own[1])
        new = np.tanh(parts[2] + reset * own[2])
        kept.append((hidden, reset, keep, new, own[2]))
        hidden = new + keep * (hidden - new)
        outputs.append(hidden)
    gates = np.zeros((*x.shape[:2], w_ih.shape[0]), x.dtype)
    owns, of_hidden = np.zeros_like(gates), np.zeros_like(hidden)
    for step in reversed(range(len(x))):
        before, reset, keep, new, own_new = kept[step]
        of_hidden = of_hidden + slope[step]
        of_new = of_hidden * (1 - keep) * (1 - new**2)
        parts = [of_new * own_new * reset * (1 - reset), of_hidden * (before - new) * keep * (1 - keep)]
        gates[step] = np.concatenate([*parts, of_new], -1)
        owns[step] = np.concatenate([*parts, of_new * reset], -1)
        of_hidden = owns[step] @ w_hh + of_hidden * keep
    states = np.stack([one[0] for one in kept])
    return np.stack(outputs), *_products(x, states, w_ih, gates, owns)


def _products(x: Array, states: Array, w_ih: Array, gates: Array, owns: Array) -> tuple[Array, ...]:
    """The gradients of inputs, both weights and both biases, given those of both products."""
    weights = [np.einsum("tbg,tbi->gi", slope, of) for slope, of in ((gates, x), (owns, states))]
    return gates @ w_ih, *weights, gates.sum((0, 1)), owns.sum((0, 1))


def jacobian(w: Array, x: Array) -> Array:
    """Of tanh(w @ x)."""
    return (1 - np.tanh(w @ x) ** 2)[:, None] * w


def hessian(w: Array, x: Array) -> Array:
    """Of the sum of log(1 + exp(w @ x))."""
    share = sigmoid(w @ x)
    return w.T @ ((share * (1 - share))[:, None] * w)


FUNCTIONS: dict[str, Callable[..., object]] = {
    "lstm": lstm,
    "gru": gru,
    "vmap": lambda w, x: np.tanh(x @ w.T),
    "jacrev": jacobian,
    "hessian": hessian,
}
