"""Attention: whole, with functions of scores, of one query, of sequences in a row; a scan of states."""

from __future__ import annotations

import math

import numpy as np

import rushlight as rl
from rushlight.bench.operators.record import Benchmark
from rushlight.bench.programs import numpy_ops
from rushlight.bench.records import Array, Inputs, normal

F = rl.nn.functional
HEADS = {
    "small": [(1, 2, 5, 4), (2, 1, 9, 8)],
    "default": [(1, 12, 1024, 64), (4, 16, 512, 64)],
    "llm": [(1, 32, 2048, 128)],
}
DECODING = {"small": [(2, 4, 2, 7, 4)], "default": [(1, 32, 8, 4096, 128), (16, 32, 8, 1024, 128)]}


def heads(rng: np.random.Generator, batch: int, count: int, length: int, width: int) -> Inputs:
    """Queries, keys and values."""
    return {name: normal(rng, batch, count, length, width) for name in "qkv"}


def work(batch: int, count: int, length: int, width: int) -> float:
    """Two causal products: half of the elements are computed."""
    return 2.0 * batch * count * length**2 * width


def slopes(count: int) -> Array:
    """What each head subtracts for a place of distance."""
    return 2.0 ** (-8.0 * np.arange(1, count + 1) / count)


def alibi_reference(q: Array, k: Array, v: Array) -> Array:
    """Causal, less a number for the distance."""
    length = q.shape[-2]
    distance = np.arange(length)[:, None] - np.arange(length)
    scores = q @ k.swapaxes(-1, -2) / math.sqrt(q.shape[-1]) - slopes(q.shape[1])[:, None, None] * distance
    return numpy_ops.softmax(np.where(distance >= 0, scores, -np.inf)) @ v


def alibi(q: rl.Tensor, k: rl.Tensor, v: rl.Tensor) -> rl.Tensor:
    """By the scores of all pairs."""
    length, count = q.shape[-2], q.shape[1]
    place = rl.arange(length)
    distance = place[:, None] - place
    slope = 2.0 ** (-8.0 * (rl.arange(count) + 1).to(q.dtype) / count)
    scores = q @ k.mT * q.shape[-1] ** -0.5 - slope[:, None, None] * distance
    return rl.softmax(scores.masked_fill(distance < 0, -math.inf), -1) @ v


def softcapped_reference(q: Array, k: Array, v: Array) -> Array:
    """Scores are kept within 20 of zero."""
    scores = 20.0 * np.tanh(q @ k.swapaxes(-1, -2) / math.sqrt(q.shape[-1]) / 20.0)
    return numpy_ops.softmax(scores) @ v


def softcapped(q: rl.Tensor, k: rl.Tensor, v: rl.Tensor) -> rl.Tensor:
    """By the scores of all pairs."""
    scores = 20.0 * rl.tanh(q @ k.mT * q.shape[-1] ** -0.5 / 20.0)
    return rl.softmax(scores, -1) @ v


def decoding(rng: np.random.Generator, batch: int, count: int, groups: int, length: int, width: int) -> Inputs:
    """A query for each head, and fewer heads of keys and values."""
    cached = {name: normal(rng, batch, groups, length, width) for name in "kv"}
    return {"q": normal(rng, batch, count, 1, width), **cached}


def decoding_reference(q: Array, k: Array, v: Array) -> Array:
    """Heads of a group share keys and values."""
    share = q.shape[1] // k.shape[1]
    keys, values = np.repeat(k, share, 1), np.repeat(v, share, 1)
    return numpy_ops.softmax(q @ keys.swapaxes(-1, -2) / math.sqrt(q.shape[-1])) @ values


def segments(rng: np.random.Generator, count: int, rows: int, width: int) -> Inputs:
    """Sequences one after the other: for each row the number of its sequence."""
    cuts = np.sort(rng.integers(0, rows + 1, count - 1))
    of_row = np.searchsorted(cuts, np.arange(rows), "right")
    return {**{name: normal(rng, rows, width) for name in "qkv"}, "segment": of_row}


def ragged_reference(q: Array, k: Array, v: Array, segment: Array) -> Array:
    """Rows see those of their sequence."""
    scores = np.where(segment[:, None] == segment, q @ k.T / math.sqrt(q.shape[1]), -np.inf)
    return numpy_ops.softmax(scores) @ v


def ragged(q: rl.Tensor, k: rl.Tensor, v: rl.Tensor, segment: rl.Tensor) -> rl.Tensor:
    """By a mask."""
    return F.scaled_dot_product_attention(q[None], k[None], v[None], attn_mask=segment[:, None] == segment)[0]


def scan_inputs(rng: np.random.Generator, length: int, width: int) -> Inputs:
    """What is kept of a state at each step, and what is added."""
    return {"kept": rng.uniform(0.5, 0.99, (length, width)).astype(np.float32), "added": normal(rng, length, width)}


def scan_reference(kept: Array, added: Array) -> Array:
    """Every state: the one before, in part, and what is added."""
    states = np.empty_like(added)
    state = np.zeros_like(added[0])
    for step in range(len(added)):
        states[step] = state = state * kept[step] + added[step]
    return states


def scan(kept: rl.Tensor, added: rl.Tensor) -> rl.Tensor:
    """Twice as far in each round: a state takes in the one that lies as far before it."""
    length, reach = added.shape[0], 1
    while reach < length:
        added = rl.cat([added[:reach], added[reach:] + kept[reach:] * added[:-reach]])
        kept = rl.cat([kept[:reach], kept[reach:] * kept[:-reach]])
        reach *= 2
    return added


BENCHMARKS = (
    Benchmark(
        "flash_attention",
        "causal attention",
        ("batch", "heads", "length", "width"),
        HEADS,
        work,
        heads,
        numpy_ops.attention,
        lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True),
        ("q", "k", "v"),
    ),
    Benchmark(
        "flex_attention",
        "causal attention, less a number for the distance",
        ("batch", "heads", "length", "width"),
        HEADS,
        work,
        heads,
        alibi_reference,
        alibi,
        ("q", "k", "v"),
    ),
    Benchmark(
        "softcapped_attention",
        "attention with scores that are kept small",
        ("batch", "heads", "length", "width"),
        HEADS,
        lambda *shape: 2.0 * work(*shape),
        heads,
        softcapped_reference,
        softcapped,
        ("q", "k", "v"),
    ),
    Benchmark(
        "decoding_attention",
        "one query for each head; groups of heads share keys",
        ("batch", "heads", "groups", "length", "width"),
        DECODING,
        lambda batch, count, groups, length, width: 4.0 * batch * count * length * width,
        decoding,
        decoding_reference,
        lambda q, k, v: F.scaled_dot_product_attention(q, k, v, enable_gqa=True),
    ),
    Benchmark(
        "ragged_attention",
        "attention within sequences in a row",
        ("sequences", "rows", "width"),
        {"small": [(3, 11, 4)], "default": [(16, 2048, 64)], "jagged": [(64, 4096, 64)]},
        lambda count, rows, width: 4.0 * rows * rows * width / count,
        segments,
        ragged_reference,
        ragged,
        ("q", "k", "v"),
    ),
    Benchmark(
        "state_scan",
        "states that each keep a part of the one before",
        ("length", "width"),
        {"small": [(2, 3), (9, 5)], "default": [(256, 512), (1024, 1024)]},
        lambda length, width: 2.0 * length * width,
        scan_inputs,
        scan_reference,
        scan,
        ("kept", "added"),
    ),
)
