"""Models as ONNX graphs, for inference. Weights are constants of the graph, as in a file that was exported."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from rushlight.bench.programs.onnx_ops import EPSILON, Draw, Drawing
from rushlight.bench.records import Inputs

Model = tuple[Draw, Inputs]
"""What draws the graph, given the names of its inputs; and these inputs."""


class Weights:
    """Constants of a drawing, by the names of the weights."""

    def __init__(self, drawing: Drawing, arrays: Inputs) -> None:
        self.drawing = drawing
        self.arrays = arrays

    def linear(self, name: str, x: str) -> str:
        """x @ weight.T + bias."""
        matrix = self.drawing.constant(np.ascontiguousarray(self.arrays[f"{name}.weight"].T))
        bias = self.drawing.constant(self.arrays[f"{name}.bias"])
        return self.drawing.call("Add", self.drawing.call("MatMul", x, matrix), bias)

    def norm(self, name: str, x: str) -> str:
        """LayerNorm."""
        weight, bias = (self.drawing.constant(self.arrays[f"{name}.{part}"]) for part in ("weight", "bias"))
        return self.drawing.call("LayerNormalization", x, weight, bias, axis=-1, epsilon=EPSILON)

    def split(self, name: str, x: str, heads: int) -> Sequence[str]:
        """Query, key and value, each [batch, heads, length, width / heads]."""
        drawing = self.drawing
        made = self.linear(f"{name}.query_key_value", self.norm(f"{name}.norm1", x))
        parts = drawing.calls("Split", [made], 3, axis=-1, num_outputs=3)
        shape = drawing.integers(0, 0, heads, -1)
        return [drawing.call("Transpose", drawing.call("Reshape", one, shape), perm=[0, 2, 1, 3]) for one in parts]

    def added(self, name: str, x: str, seen: str, gelu: str) -> str:
        """x plus the projected attention, plus the MLP of that."""
        drawing = self.drawing
        joined = drawing.call("Reshape", drawing.call("Transpose", seen, perm=[0, 2, 1, 3]), drawing.integers(0, 0, -1))
        x = drawing.call("Add", x, self.linear(f"{name}.project", joined))
        wide = self.linear(f"{name}.widen", self.norm(f"{name}.norm2", x))
        bent = drawing.call("Gelu", wide, approximate="tanh" if gelu == "tanh" else "none")
        return drawing.call("Add", x, self.linear(f"{name}.narrow", bent))

    def embedding(self, tokens: str, positions: slice) -> str:
        """Of tokens and positions."""
        drawing = self.drawing
        chosen = drawing.call("Gather", drawing.constant(self.arrays["token.weight"]), tokens, axis=0)
        return drawing.call("Add", chosen, drawing.constant(self.arrays["position.weight"][positions]))

    def head(self, x: str) -> str:
        """Logits."""
        matrix = self.drawing.constant(np.ascontiguousarray(self.arrays["token.weight"].T))
        return self.drawing.call("MatMul", self.norm("norm", x), matrix)

    def blocks(self) -> list[str]:
        """The names of a transformer's blocks."""
        return [f"blocks.{number}" for number in range(sum([name.endswith("norm1.bias") for name in self.arrays]))]


def gpt_forward(inputs: Inputs, heads: int, gelu: str) -> Model:
    """Logits of every token."""

    def draw(drawing: Drawing, tokens: str) -> str:
        weights = Weights(drawing, inputs)
        x = weights.embedding(tokens, slice(inputs["tokens"].shape[1]))
        for name in weights.blocks():
            seen = drawing.call("Attention", *weights.split(name, x, heads), is_causal=1)
            x = weights.added(name, x, seen, gelu)
        return weights.head(x)

    return draw, {"tokens": inputs["tokens"]}


def gpt_decode(inputs: Inputs, heads: int, gelu: str) -> Model:
    """Logits of one token after cached ones, and its own keys and values."""
    cached = inputs["keys"].shape[-2]

    def draw(drawing: Drawing, tokens: str, keys: str, values: str) -> tuple[str, str, str]:
        weights = Weights(drawing, inputs)
        x = weights.embedding(tokens, slice(cached, cached + 1))
        made: list[tuple[str, str]] = []
        for number, name in enumerate(weights.blocks()):
            query, key, value = weights.split(name, x, heads)
            made.append((key, value))
            layer = drawing.constant(np.array(number))
            whole = [
                drawing.call("Concat", drawing.call("Gather", all_layers, layer, axis=0), new, axis=-2)
                for all_layers, new in ((keys, key), (values, value))
            ]
            x = weights.added(name, x, drawing.call("Attention", query, *whole), gelu)
        stacked = [
            drawing.call("Concat", *[drawing.call("Unsqueeze", one, drawing.integers(0)) for one in ones], axis=0)
            for ones in zip(*made, strict=True)
        ]
        return weights.head(x), stacked[0], stacked[1]

    return draw, {name: inputs[name] for name in ("tokens", "keys", "values")}


def resnet(inputs: Inputs) -> Model:
    """Logits of an image."""

    def draw(drawing: Drawing, image: str) -> str:
        def layer(name: str, normalization: str, x: str, stride: int) -> str:
            weight = inputs[f"{name}.weight"]
            x = drawing.call(
                "Conv",
                x,
                drawing.constant(weight),
                pads=[weight.shape[-1] // 2] * 4,
                strides=[stride] * 2,
            )
            parts = [
                drawing.constant(inputs[f"{normalization}.{part}"])
                for part in ("weight", "bias", "running_mean", "running_var")
            ]
            return drawing.call("BatchNormalization", x, *parts, epsilon=EPSILON)

        x = drawing.call("Relu", layer("conv1", "bn1", image, 2))
        x = drawing.call("MaxPool", x, kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4)
        for stage in range(1, 5):
            for number in range(2):
                name = f"layer{stage}.{number}"
                stride = 2 if f"{name}.downsample.0.weight" in inputs else 1
                short = layer(f"{name}.downsample.0", f"{name}.downsample.1", x, 2) if stride == 2 else x
                inner = drawing.call("Relu", layer(f"{name}.conv1", f"{name}.bn1", x, stride))
                x = drawing.call("Relu", drawing.call("Add", layer(f"{name}.conv2", f"{name}.bn2", inner, 1), short))
        pooled = drawing.call("Flatten", drawing.call("GlobalAveragePool", x))
        return Weights(drawing, inputs).linear("fc", pooled)

    return draw, {"image": inputs["image"]}


MODELS: dict[str, Callable[..., Model]] = {"gpt_forward": gpt_forward, "gpt_decode": gpt_decode, "resnet": resnet}
