"""Models in JAX: functions of a dict of weights. Steps give their weights and optimizer's state away to the next."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from rushlight.bench.peers import JaxArray, jax, jnp
from rushlight.bench.programs.jax_ops import convolution, cross_entropy, layer_norm
from rushlight.bench.records import Work

Arrays = dict[str, JaxArray]
State = tuple[Arrays, Arrays, JaxArray]  # AdamW's means, means of squares, and number of steps
BETAS = (0.9, 0.95)
ADAM_EPSILON = 1e-8
DECAY = 0.1
LARGEST_NORM = 1.0
EPSILON = 1e-5


def linear(weights: Arrays, name: str, x: JaxArray) -> JaxArray:
    """x @ weight.T + bias."""
    return x @ weights[f"{name}.weight"].T + weights[f"{name}.bias"]


def norm(weights: Arrays, name: str, x: JaxArray) -> JaxArray:
    """LayerNorm."""
    return layer_norm(x, weights[f"{name}.weight"], weights[f"{name}.bias"])


def split(weights: Arrays, name: str, x: JaxArray, heads: int) -> Sequence[JaxArray]:
    """Query, key and value, each [batch, length, heads, width / heads]."""
    batch, length, width = x.shape
    made = linear(weights, f"{name}.query_key_value", norm(weights, f"{name}.norm1", x))
    return jnp.unstack(made.reshape(batch, length, 3, heads, width // heads), axis=2)


def added(weights: Arrays, name: str, x: JaxArray, seen: JaxArray, gelu: str) -> JaxArray:
    """x plus the projected attention, plus the MLP of that."""
    x = x + linear(weights, f"{name}.project", seen.reshape(x.shape))
    wide = linear(weights, f"{name}.widen", norm(weights, f"{name}.norm2", x))
    return x + linear(weights, f"{name}.narrow", jax.nn.gelu(wide, approximate=gelu == "tanh"))


def layers(weights: Arrays) -> range:
    """The numbers of a transformer's blocks."""
    return range(sum([name.endswith("norm1.bias") for name in weights]))


def gpt(weights: Arrays, tokens: JaxArray, heads: int, gelu: str) -> JaxArray:
    """Logits of every token."""
    x = weights["token.weight"][tokens] + weights["position.weight"][: tokens.shape[1]]
    for layer in layers(weights):
        name = f"blocks.{layer}"
        query, key, value = split(weights, name, x, heads)
        x = added(weights, name, x, jax.nn.dot_product_attention(query, key, value, is_causal=True), gelu)
    return norm(weights, "norm", x) @ weights["token.weight"].T


def gpt_forward(arrays: Arrays, heads: int, gelu: str) -> Work:
    """Logits of every token."""
    tokens = arrays.pop("tokens")
    forward = jax.jit(lambda weights, tokens: gpt(weights, tokens, heads, gelu))
    return lambda: forward(arrays, tokens)


def gpt_decode(arrays: Arrays, heads: int, gelu: str) -> Work:
    """Logits of one token after cached ones, and its own keys and values."""
    tokens, keys, values = (arrays.pop(name) for name in ("tokens", "keys", "values"))

    @jax.jit
    def decode(
        weights: Arrays, tokens: JaxArray, keys: JaxArray, values: JaxArray
    ) -> tuple[JaxArray, JaxArray, JaxArray]:
        x = weights["token.weight"][tokens] + weights["position.weight"][keys.shape[-2]]
        made: list[tuple[JaxArray, JaxArray]] = []
        for layer in layers(weights):
            name = f"blocks.{layer}"
            query, key, value = split(weights, name, x, heads)
            made.append((key.swapaxes(1, 2), value.swapaxes(1, 2)))
            everything = [
                jnp.concatenate([cached[layer], new], -2).swapaxes(1, 2)
                for cached, new in zip((keys, values), made[-1], strict=True)
            ]
            x = added(weights, name, x, jax.nn.dot_product_attention(query, *everything), gelu)
        logits = norm(weights, "norm", x) @ weights["token.weight"].T
        return logits, jnp.stack([key for key, _ in made]), jnp.stack([value for _, value in made])

    return lambda: decode(arrays, tokens, keys, values)


def adamw(weights: Arrays, state: State, slopes: Arrays, rate: float) -> tuple[Arrays, State]:
    """The weights and the optimizer's state after a step. Decay applies to matrices alone."""
    means, squares, steps = state
    steps = steps + 1
    means = {name: value + (1 - BETAS[0]) * (slopes[name] - value) for name, value in means.items()}
    squares = {name: value + (1 - BETAS[1]) * (slopes[name] ** 2 - value) for name, value in squares.items()}
    first, second = (1 - beta**steps for beta in BETAS)

    def changed(name: str, weight: JaxArray) -> JaxArray:
        kept = weight * (1 - rate * DECAY) if weight.ndim >= 2 else weight
        return kept - rate / first * means[name] / (jnp.sqrt(squares[name] / second) + ADAM_EPSILON)

    return {name: changed(name, weight) for name, weight in weights.items()}, (means, squares, steps)


def gpt_step(arrays: Arrays, heads: int, gelu: str, rate: float) -> Work:
    """A training step: the loss, and the norm of the gradients before they are clipped."""
    windows = arrays.pop("windows")

    def loss_of(weights: Arrays, windows: JaxArray) -> JaxArray:
        logits = gpt(weights, windows[:, :-1], heads, gelu)
        return cross_entropy(logits.reshape(-1, logits.shape[-1]), windows[:, 1:].reshape(-1))

    def step(weights: Arrays, state: State, windows: JaxArray) -> tuple[Arrays, State, JaxArray, JaxArray]:
        loss, slopes = jax.value_and_grad(loss_of)(weights, windows)
        length = jnp.sqrt(sum([jnp.square(one).sum() for one in slopes.values()]))
        share = jnp.minimum(1.0, LARGEST_NORM / (length + 1e-6))
        slopes = {name: one * share for name, one in slopes.items()}
        return (*adamw(weights, state, slopes, rate), loss, length)

    ready = jax.jit(step, donate_argnums=(0, 1))
    zeros = [{name: jnp.zeros_like(value) for name, value in arrays.items()} for _ in range(2)]
    held: list[object] = [arrays, (*zeros, jnp.zeros((), jnp.int32))]

    def call() -> tuple[JaxArray, JaxArray]:
        *held[:], loss, length = ready(*held, windows)
        return loss, length

    return call


def mlp_step(arrays: Arrays, rate: float) -> Work:
    """A training step: the loss."""
    x, targets = arrays.pop("x"), arrays.pop("targets")

    def loss_of(weights: Arrays, x: JaxArray, targets: JaxArray) -> JaxArray:
        return cross_entropy(linear(weights, "2", jax.nn.relu(linear(weights, "0", x))), targets)

    def step(weights: Arrays, x: JaxArray, targets: JaxArray) -> tuple[Arrays, JaxArray]:
        loss, slopes = jax.value_and_grad(loss_of)(weights, x, targets)
        return {name: weight - rate * slopes[name] for name, weight in weights.items()}, loss

    ready = jax.jit(step, donate_argnums=0)
    held = [arrays]

    def call() -> JaxArray:
        held[0], loss = ready(held[0], x, targets)
        return loss

    return call


def resnet(arrays: Arrays) -> Work:
    """Logits of an image."""
    image = arrays.pop("image")

    def layer(weights: Arrays, name: str, normalization: str, x: JaxArray, stride: int) -> JaxArray:
        mean, variance, weight, bias = (
            weights[f"{normalization}.{part}"][:, None, None]
            for part in ("running_mean", "running_var", "weight", "bias")
        )
        x = convolution(x, weights[f"{name}.weight"], stride)
        return (x - mean) * jax.lax.rsqrt(variance + EPSILON) * weight + bias

    @jax.jit
    def forward(weights: Arrays, image: JaxArray) -> JaxArray:
        x = jax.nn.relu(layer(weights, "conv1", "bn1", image, 2))
        border = ((0, 0), (0, 0), (1, 1), (1, 1))
        x = jax.lax.reduce_window(x, -jnp.inf, jax.lax.max, (1, 1, 3, 3), (1, 1, 2, 2), border)
        for stage in range(1, 5):
            for number in range(2):
                name = f"layer{stage}.{number}"
                stride = 2 if f"{name}.downsample.0.weight" in weights else 1
                short = layer(weights, f"{name}.downsample.0", f"{name}.downsample.1", x, 2) if stride == 2 else x
                inner = jax.nn.relu(layer(weights, f"{name}.conv1", f"{name}.bn1", x, stride))
                x = jax.nn.relu(layer(weights, f"{name}.conv2", f"{name}.bn2", inner, 1) + short)
        return linear(weights, "fc", x.mean((2, 3)))

    return lambda: forward(arrays, image)


MODELS: dict[str, Callable[..., Work]] = {
    "gpt_forward": gpt_forward,
    "gpt_decode": gpt_decode,
    "gpt_step": gpt_step,
    "mlp_step": mlp_step,
    "resnet": resnet,
}
