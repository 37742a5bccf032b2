"""Continues a text: bytes drawn one by one from the model's predictions."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from rushlight.support.errors import require

Logits = NDArray[np.float32]


def continue_text(
    next_byte: Callable[[NDArray[np.int64]], Logits],
    prompt: bytes,
    length: int,
    context: int,
    *,
    seed: int = 0,
    temperature: float = 0.8,
    top_k: int = 40,
) -> bytes:
    """`length` bytes that follow the prompt. `next_byte` gives the logits [256] after tokens [1, up to `context`].

    Only the `top_k` likeliest bytes are drawn from; a temperature of 0 takes the likeliest. An empty prompt is a new
    line.
    """
    require(temperature >= 0, "A002", "generate: the temperature is at least 0", temperature=temperature)
    require(top_k >= 1, "A002", "generate: top_k is at least 1", top_k=top_k)
    generator = np.random.default_rng(seed)
    tokens = list(prompt) or [ord("\n")]
    first = len(tokens)
    for _ in range(length):
        seen = np.array([tokens[-context:]], np.int64)
        tokens.append(draw(next_byte(seen), generator, temperature, top_k))
    return bytes(tokens[first:])


def draw(logits: Logits, generator: np.random.Generator, temperature: float, top_k: int) -> int:
    """A byte drawn from logits."""
    if temperature == 0:
        return int(logits.argmax())
    scaled = logits.astype(np.float64) / temperature
    likeliest = np.argsort(-scaled, kind="stable")[:top_k]
    weights = np.exp(scaled[likeliest] - scaled[likeliest[0]])
    return int(generator.choice(likeliest, p=weights / weights.sum()))


def to_text(data: bytes) -> str:
    """Bytes as text; invalid UTF-8 becomes a replacement sign, control characters are left out."""
    text = data.decode(errors="replace")
    return "".join([sign for sign in text if sign.isprintable() or sign in "\n\t"])
