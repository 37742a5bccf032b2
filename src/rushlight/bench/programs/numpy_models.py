"""Models in numpy, for whatever dtype the inputs have, with their derivatives written out.

A layer returns its result, and a function from the result's gradient to the input's gradient, which puts the gradients
of parameters into a dict.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from rushlight.bench.programs.numpy_ops import (
    attention_back,
    attention_weights,
    convolution,
    cross_entropy_gradients,
    gelu,
    gelu_slope,
    layer_norm_back,
    normalized,
)
from rushlight.bench.records import Array, Inputs, Work

Back = Callable[[Array, Inputs], Array]
CURVE = math.sqrt(2 / math.pi)
CUBIC = 0.044715
EPSILON = 1e-5
# Of the training step.
BETAS = (0.9, 0.95)
ADAM_EPSILON = 1e-8
DECAY = 0.1
LARGEST_NORM = 1.0


def gelu_tanh(x: Array) -> Array:
    """The approximation of `gelu` by a tangent."""
    return 0.5 * x * (1.0 + np.tanh(CURVE * (x + CUBIC * x * x * x)))


def gelu_tanh_slope(x: Array) -> Array:
    """The derivative of `gelu_tanh`."""
    bent = np.tanh(CURVE * (x + CUBIC * x * x * x))
    return 0.5 * (1.0 + bent) + 0.5 * x * (1.0 - bent * bent) * CURVE * (1.0 + 3.0 * CUBIC * x * x)


GELUS: dict[str, tuple[Callable[[Array], Array], Callable[[Array], Array]]] = {
    "erf": (gelu, gelu_slope),
    "tanh": (gelu_tanh, gelu_tanh_slope),
}


def linear(weights: Inputs, name: str, x: Array) -> tuple[Array, Back]:
    """x @ weight.T + bias."""
    weight = weights[f"{name}.weight"]

    def back(slope: Array, slopes: Inputs) -> Array:
        rows = slope.reshape(-1, slope.shape[-1])
        slopes[f"{name}.weight"] = rows.T @ x.reshape(-1, x.shape[-1])
        slopes[f"{name}.bias"] = rows.sum(0)
        return slope @ weight

    return x @ weight.T + weights[f"{name}.bias"], back


def norm(weights: Inputs, name: str, x: Array) -> tuple[Array, Back]:
    """LayerNorm."""
    unit, scale = normalized(x)
    weight = weights[f"{name}.weight"]

    def back(slope: Array, slopes: Inputs) -> Array:
        result, slopes[f"{name}.weight"], slopes[f"{name}.bias"] = layer_norm_back(unit, scale, weight, slope)
        return result

    return unit * weight + weights[f"{name}.bias"], back


def split_heads(x: Array, parts: int, heads: int) -> Array:
    """[batch, length, parts * width] to [parts, batch, heads, length, width / heads]."""
    batch, length, width = x.shape
    return x.reshape(batch, length, parts, heads, width // parts // heads).transpose(2, 0, 3, 1, 4)


def join_heads(x: Array) -> Array:
    """The inverse of `split_heads`."""
    parts, batch, heads, length, width = x.shape
    return x.transpose(1, 3, 0, 2, 4).reshape(batch, length, parts * heads * width)


def attend(weights: Inputs, name: str, x: Array, heads: int) -> tuple[Array, Back]:
    """Causal self-attention."""
    split, back_split = linear(weights, f"{name}.query_key_value", x)
    q, k, v = split_heads(split, 3, heads)
    seen = attention_weights(q, k)
    result, back_result = linear(weights, f"{name}.project", join_heads((seen @ v)[None]))

    def back(slope: Array, slopes: Inputs) -> Array:
        inner = split_heads(back_result(slope, slopes), 1, heads)[0]
        return back_split(join_heads(np.stack(attention_back(seen, q, k, v, inner))), slopes)

    return result, back


def block(weights: Inputs, name: str, x: Array, heads: int, curve: str) -> tuple[Array, Back]:
    """Attention and an MLP, each on normalized input and added to it."""
    bend, bend_slope = GELUS[curve]
    first, back_first = norm(weights, f"{name}.norm1", x)
    looked, back_looked = attend(weights, name, first, heads)
    middle = x + looked
    second, back_second = norm(weights, f"{name}.norm2", middle)
    wide, back_wide = linear(weights, f"{name}.widen", second)
    narrow, back_narrow = linear(weights, f"{name}.narrow", bend(wide))

    def back(slope: Array, slopes: Inputs) -> Array:
        inner = back_wide(back_narrow(slope, slopes) * bend_slope(wide), slopes)
        slope = slope + back_second(inner, slopes)
        return slope + back_first(back_looked(slope, slopes), slopes)

    return middle + narrow, back


def blocks_of(weights: Inputs) -> list[str]:
    """The names of a transformer's blocks."""
    return list(dict.fromkeys([".".join(name.split(".")[:2]) for name in weights if name.startswith("blocks.")]))


def gpt(weights: Inputs, tokens: Array, heads: int, curve: str) -> tuple[Array, Callable[[Array], Inputs]]:
    """Logits, and a function from their gradient to the gradients of all parameters."""
    token, position = weights["token.weight"], weights["position.weight"]
    x = token[tokens] + position[: tokens.shape[1]]
    backs: list[Back] = []
    for name in blocks_of(weights):
        x, back_block = block(weights, name, x, heads, curve)
        backs.append(back_block)
    last, back_last = norm(weights, "norm", x)

    def back(slope: Array) -> Inputs:
        slopes: Inputs = {"position.weight": np.zeros_like(position)}
        rows = slope.reshape(-1, slope.shape[-1])
        slopes["token.weight"] = rows.T @ last.reshape(-1, last.shape[-1])
        inner = back_last(slope @ token, slopes)
        for back_block in reversed(backs):
            inner = back_block(inner, slopes)
        np.add.at(slopes["token.weight"], tokens, inner)
        slopes["position.weight"][: tokens.shape[1]] = inner.sum(0)
        return slopes

    return last @ token.T, back


def gpt_forward(inputs: Inputs, heads: int, gelu: str) -> Work:
    """Logits of every token."""
    return lambda: forward_alone(inputs, heads, gelu)


def forward_alone(inputs: Inputs, heads: int, curve: str) -> Array:
    """Logits, keeping nothing for derivatives."""
    tokens = inputs["tokens"]
    x = inputs["token.weight"][tokens] + inputs["position.weight"][: tokens.shape[1]]
    for name in blocks_of(inputs):
        x = block(inputs, name, x, heads, curve)[0]
    return norm(inputs, "norm", x)[0] @ inputs["token.weight"].T


def gpt_decode(inputs: Inputs, heads: int, gelu: str) -> Work:
    """Logits of one token after cached ones, and its own keys and values."""
    bend = GELUS[gelu][0]

    def decode() -> tuple[Array, ...]:
        x = inputs["token.weight"][inputs["tokens"]] + inputs["position.weight"][inputs["keys"].shape[-2]]
        made: list[tuple[Array, Array]] = []
        for name, keys, values in zip(blocks_of(inputs), inputs["keys"], inputs["values"], strict=True):
            split = linear(inputs, f"{name}.query_key_value", norm(inputs, f"{name}.norm1", x)[0])[0]
            q, k, v = split_heads(split, 3, heads)
            made.append((k, v))
            seen = attention_weights(q, np.concatenate([keys, k], -2)) @ np.concatenate([values, v], -2)
            x = x + linear(inputs, f"{name}.project", join_heads(seen[None]))[0]
            wide = linear(inputs, f"{name}.widen", norm(inputs, f"{name}.norm2", x)[0])[0]
            x = x + linear(inputs, f"{name}.narrow", bend(wide))[0]
        logits = norm(inputs, "norm", x)[0] @ inputs["token.weight"].T
        return logits, np.stack([k for k, _ in made]), np.stack([v for _, v in made])

    return decode


class AdamW:
    """Decay applies to matrices alone."""

    def __init__(self, weights: Inputs, rate: float) -> None:
        self.weights = weights
        self.rate = rate
        self.means = {name: np.zeros_like(value) for name, value in weights.items()}
        self.squares = {name: np.zeros_like(value) for name, value in weights.items()}
        self.steps = 0

    def step(self, slopes: Inputs) -> None:
        """Changes the weights."""
        self.steps += 1
        first, second = (1 - beta**self.steps for beta in BETAS)
        for name, weight in self.weights.items():
            mean, square, slope = self.means[name], self.squares[name], slopes[name]
            mean += (1 - BETAS[0]) * (slope - mean)
            square += (1 - BETAS[1]) * (slope * slope - square)
            if weight.ndim >= 2:
                weight *= 1 - self.rate * DECAY
            weight -= self.rate / first * mean / (np.sqrt(square / second) + ADAM_EPSILON)


def gpt_step(inputs: Inputs, heads: int, gelu: str, rate: float) -> Work:
    """A training step: the loss, and the norm of the gradients before they are clipped."""
    weights = {name: value.copy() for name, value in inputs.items() if name != "windows"}
    tokens, targets = inputs["windows"][:, :-1], inputs["windows"][:, 1:].reshape(-1)
    optimizer = AdamW(weights, rate)

    def step() -> tuple[Array, float]:
        logits, back = gpt(weights, tokens, heads, gelu)
        loss, slope = cross_entropy_gradients(logits.reshape(-1, logits.shape[-1]), targets)
        slopes = back(slope.reshape(logits.shape))
        length = math.sqrt(sum([float((one * one).sum()) for one in slopes.values()]))
        share = min(1.0, LARGEST_NORM / (length + 1e-6))
        for one in slopes.values():
            one *= share
        optimizer.step(slopes)
        return loss, length

    return step


def mlp_step(inputs: Inputs, rate: float) -> Work:
    """A training step: the loss."""
    weights = {name: value.copy() for name, value in inputs.items() if name not in ("x", "targets")}

    def step() -> Array:
        hidden, _ = first = linear(weights, "0", inputs["x"])
        logits, back = linear(weights, "2", np.maximum(hidden, 0))
        loss, slope = cross_entropy_gradients(logits, inputs["targets"])
        slopes: Inputs = {}
        first[1](back(slope, slopes) * (hidden > 0), slopes)
        for name, one in slopes.items():
            weights[name] -= rate * one
        return loss

    return step


def resnet(inputs: Inputs) -> Work:
    """Logits of an image."""

    def layer(name: str, normalization: str, x: Array, stride: int) -> Array:
        x = convolution(x, inputs[f"{name}.weight"], stride)
        mean, variance, weight, bias = (
            inputs[f"{normalization}.{part}"][:, None, None]
            for part in ("running_mean", "running_var", "weight", "bias")
        )
        return (x - mean) / np.sqrt(variance + EPSILON) * weight + bias

    def forward() -> Array:
        x = np.maximum(layer("conv1", "bn1", inputs["image"], 2), 0)
        x = largest_of_windows(x)
        for stage in range(1, 5):
            for number in range(2):
                name = f"layer{stage}.{number}"
                stride = 2 if f"{name}.downsample.0.weight" in inputs else 1
                shortcut = layer(f"{name}.downsample.0", f"{name}.downsample.1", x, 2) if stride == 2 else x
                inner = np.maximum(layer(f"{name}.conv1", f"{name}.bn1", x, stride), 0)
                x = np.maximum(layer(f"{name}.conv2", f"{name}.bn2", inner, 1) + shortcut, 0)
        return linear(inputs, "fc", x.mean((2, 3)))[0]

    return forward


def largest_of_windows(x: Array) -> Array:
    """Pooling of 3x3 windows, every second one, with a border of one."""
    padded = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)), constant_values=-np.inf)
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), (2, 3))
    return windows[:, :, ::2, ::2].max((-1, -2))


MODELS: dict[str, Callable[..., Work]] = {
    "gpt_forward": gpt_forward,
    "gpt_decode": gpt_decode,
    "gpt_step": gpt_step,
    "mlp_step": mlp_step,
    "resnet": resnet,
}
