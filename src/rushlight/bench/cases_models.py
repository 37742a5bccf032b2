"""Whole models: training steps with their optimizer, and inference."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from rushlight.bench.records import Case, Inputs, moved, normal


class Transformer(NamedTuple):
    """The sizes of a GPT whose head is its embedding."""

    layers: int
    heads: int
    width: int
    vocabulary: int
    context: int
    gelu: str

    @property
    def matrices(self) -> int:
        """Weights that every token is multiplied by."""
        return self.layers * 12 * self.width**2 + self.vocabulary * self.width

    @property
    def parameters(self) -> int:
        """All of them."""
        return self.matrices + self.context * self.width + self.layers * 13 * self.width + 2 * self.width

    def flops(self, batch: int, length: int) -> float:
        """Of a forward pass; attention is causal."""
        return batch * length * (2.0 * self.matrices + 2.0 * self.layers * self.width * length)

    def weights(self, rng: np.random.Generator) -> Inputs:
        """Named as in the demo's model; small random numbers, and norms near one."""
        width, scale = self.width, 0.02
        made = {
            "token.weight": normal(rng, self.vocabulary, width, scale=scale),
            "position.weight": normal(rng, self.context, width, scale=scale),
        }
        for layer in range(self.layers):
            block = f"blocks.{layer}"
            made |= norm_weights(rng, f"{block}.norm1", width)
            made |= linear_weights(rng, f"{block}.query_key_value", width, 3 * width, scale)
            made |= linear_weights(rng, f"{block}.project", width, width, scale)
            made |= norm_weights(rng, f"{block}.norm2", width)
            made |= linear_weights(rng, f"{block}.widen", width, 4 * width, scale)
            made |= linear_weights(rng, f"{block}.narrow", 4 * width, width, scale)
        return made | norm_weights(rng, "norm", width)


DEMO = Transformer(4, 4, 256, 256, 128, "erf")
GPT2 = Transformer(12, 12, 768, 50257, 1024, "tanh")


def linear_weights(rng: np.random.Generator, name: str, inner: int, outer: int, scale: float) -> Inputs:
    """A matrix [outer, inner] and a bias."""
    return {
        f"{name}.weight": normal(rng, outer, inner, scale=scale),
        f"{name}.bias": normal(rng, outer, scale=scale),
    }


def norm_weights(rng: np.random.Generator, name: str, width: int) -> Inputs:
    """A weight near one and a bias near zero."""
    return {f"{name}.weight": 1 + normal(rng, width, scale=0.1), f"{name}.bias": normal(rng, width, scale=0.1)}


def gpt_step(name: str, model: Transformer, batch: int, length: int, rate: float) -> Case:
    """A training step: loss, gradients, clipping by norm, AdamW. It returns the loss and the norm."""
    return Case(
        name,
        "models",
        "gpt_step",
        lambda rng: {**model.weights(rng), "windows": rng.integers(0, model.vocabulary, (batch, length + 1))},
        flops=3 * model.flops(batch, length),
        # Weights are read twice and their gradients written and read; the optimizer reads and writes three arrays.
        bytes=40.0 * model.parameters,
        calls=2,
        # torch adds up the squares of 38 million gradients one by one: its norm is off by 1e-3.
        tolerance=2e-3,
        options={"heads": model.heads, "gelu": model.gelu, "rate": rate},
    )


def gpt_forward(name: str, model: Transformer, length: int) -> Case:
    """Logits of every token of one sequence."""
    return Case(
        name,
        "models",
        "gpt_forward",
        lambda rng: {**model.weights(rng), "tokens": rng.integers(0, model.vocabulary, (1, length))},
        flops=model.flops(1, length),
        bytes=4.0 * model.matrices + moved((length, model.vocabulary)),
        options={"heads": model.heads, "gelu": model.gelu},
    )


def gpt_lengths(name: str, model: Transformer, lengths: Sequence[int], times: int) -> Case:
    """Logits of the last token of a prompt of each length, each `times` times in a row."""
    return Case(
        name,
        "lengths",
        "gpt_lengths",
        lambda rng: {**model.weights(rng), "tokens": rng.integers(0, model.vocabulary, (1, max(lengths)))},
        flops=sum([model.flops(1, length) for length in lengths]) / len(lengths),
        bytes=4.0 * model.matrices,
        later=len(lengths) * times - 1,
        options={"heads": model.heads, "gelu": model.gelu, "lengths": tuple(lengths), "times": times},
    )


def gpt_decode(name: str, model: Transformer, cached: int) -> Case:
    """Logits of one token after `cached` ones, and its own keys and values."""
    shape = (model.layers, 1, model.heads, cached, model.width // model.heads)
    return Case(
        name,
        "models",
        "gpt_decode",
        lambda rng: {
            **model.weights(rng),
            "tokens": rng.integers(0, model.vocabulary, (1, 1)),
            "keys": normal(rng, *shape),
            "values": normal(rng, *shape),
        },
        flops=2.0 * model.matrices + 4.0 * model.layers * model.width * (cached + 1),
        bytes=4.0 * model.matrices + moved(shape, shape),
        options={"heads": model.heads, "gelu": model.gelu},
    )


def mlp_step(sizes: tuple[int, int, int], batch: int, rate: float) -> Case:
    """A training step of two layers with stochastic gradient descent. It returns the loss."""
    inner, hidden, classes = sizes

    def make(rng: np.random.Generator) -> Inputs:
        first = linear_weights(rng, "0", inner, hidden, inner**-0.5)
        last = linear_weights(rng, "2", hidden, classes, hidden**-0.5)
        return {**first, **last, "x": normal(rng, batch, inner), "targets": rng.integers(0, classes, batch)}

    weights = hidden * (inner + classes)
    return Case(
        f"mlp-{inner}-{hidden}-{classes}-step-{batch}",
        "models",
        "mlp_step",
        make,
        # The gradient of the input is not needed.
        flops=2.0 * batch * (3 * weights - inner * hidden),
        bytes=4.0 * (5 * weights + batch * inner),
        calls=3,
        options={"rate": rate},
    )


class Convolution(NamedTuple):
    """One of ResNet's, and the name of the normalization after it. `size` is that of its result."""

    name: str
    norm: str
    inner: int
    outer: int
    kernel: int
    stride: int
    size: int


def resnet_convolutions(size: int) -> Iterator[Convolution]:
    """Those of ResNet-18 for images of `size`, named as in torchvision."""
    yield Convolution("conv1", "bn1", 3, 64, 7, 2, size // 2)
    inner, size = 64, size // 4
    for stage, outer in enumerate((64, 128, 256, 512), 1):
        stride = 1 if stage == 1 else 2
        size //= stride
        for block in range(2):
            name = f"layer{stage}.{block}"
            step = stride if block == 0 else 1
            yield Convolution(f"{name}.conv1", f"{name}.bn1", inner, outer, 3, step, size)
            yield Convolution(f"{name}.conv2", f"{name}.bn2", outer, outer, 3, 1, size)
            if step != 1:
                yield Convolution(f"{name}.downsample.0", f"{name}.downsample.1", inner, outer, 1, step, size)
            inner = outer


def resnet_weights(rng: np.random.Generator, size: int) -> Inputs:
    """Random weights of a size that keeps values near one, and statistics as if it had been trained."""
    made: Inputs = {}
    for one in resnet_convolutions(size):
        fan = one.inner * one.kernel**2
        made[f"{one.name}.weight"] = normal(rng, one.outer, one.inner, one.kernel, one.kernel, scale=(2 / fan) ** 0.5)
        made |= norm_weights(rng, one.norm, one.outer)
        made[f"{one.norm}.running_mean"] = normal(rng, one.outer, scale=0.1)
        made[f"{one.norm}.running_var"] = rng.uniform(0.5, 1.5, one.outer).astype(np.float32)
    return made | linear_weights(rng, "fc", 512, 1000, 512**-0.5)


def resnet(size: int) -> Case:
    """ResNet-18 for one image, evaluating."""
    convolutions = list(resnet_convolutions(size))
    weights = sum([one.outer * one.inner * one.kernel**2 for one in convolutions]) + 512 * 1000
    products = sum([one.outer * one.inner * (one.kernel * one.size) ** 2 for one in convolutions]) + 512 * 1000
    return Case(
        f"resnet18-{size}",
        "models",
        "resnet",
        lambda rng: {**resnet_weights(rng, size), "image": normal(rng, 1, 3, size, size)},
        flops=2.0 * products,
        bytes=4.0 * weights,
    )


LENGTHS: tuple[Case, ...] = (
    # From 17 to 1,000 in even steps.
    gpt_lengths("gpt2-40-lengths", GPT2, [17 + 983 * position // 39 for position in range(40)], 3),
    gpt_lengths("demo-8-lengths", DEMO, [1, 2, 3, 17, 30, 64, 100, 128], 3),
)
MODELS: tuple[Case, ...] = (
    gpt_step("demo-step", DEMO, 16, 128, 1e-3),
    mlp_step((784, 256, 10), 64, 0.1),
    gpt_forward("gpt2-forward-128", GPT2, 128),
    gpt_forward("gpt2-forward-1024", GPT2, 1024),
    gpt_decode("gpt2-decode-256", GPT2, 256),
    gpt_step("gpt2-step-2x256", GPT2, 2, 256, 1e-4),
    resnet(224),
)
