"""One artifact for every size: random shapes, 0 and 1 among them, without another graph and with eager's bits."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

import rushlight as rl
from rushlight import nn
from rushlight.compiler import graph_count
from rushlight.nn import functional as F
from rushlight.support.errors import RushlightError
from tensors import data, same


class Block(nn.Module):
    """A transformer block with causal attention."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.before, self.after = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.wide, self.narrow = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: Any) -> Any:
        batch, length, width = x.shape
        parts = self.qkv(self.before(x)).view(batch, length, 3, self.heads, width // self.heads)
        q, k, v = parts.permute(2, 0, 3, 1, 4).unbind(0)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).reshape(batch, length, width))
        return x + self.narrow(F.gelu(self.wide(self.after(x))))


class Images(nn.Module):
    """Convolutions, pooling and a head for images of any size."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Conv2d(2, 4, 3, padding=1), nn.Conv2d(4, 6, 3, padding=1, stride=2)
        self.head = nn.Linear(6, 3)

    def forward(self, x: Any) -> Any:
        x = F.relu(self.second(F.relu(self.first(x))))
        return self.head(x.mean((2, 3)))


class Ragged(nn.Module):
    """An MLP over the rows of several sequences, which lie one after the other, and their means."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(5, 8), nn.ReLU(), nn.Linear(8, 4))

    def forward(self, rows: Any, lengths: Any) -> Any:
        owner = rl.arange(lengths.shape[0]).repeat_interleave(lengths)
        found = self.layers(rows)
        total = rl.zeros(lengths.shape[0], 4).index_add(0, owner, found)
        return total / lengths.clamp(min=1).unsqueeze(1)


def block_inputs(rng: random.Random) -> tuple[Any, ...]:
    return (data(rng.choice([0, 1, 2, 3, 5]), rng.choice([0, 1, 2, 7, 16, rng.randrange(40)]), 8),)


def image_inputs(rng: random.Random) -> tuple[Any, ...]:
    return (data(rng.choice([0, 1, 2, 4]), 2, rng.choice([1, 2, 3, 8, 13, 16]), rng.randrange(1, 24)),)


def ragged_inputs(rng: random.Random) -> tuple[Any, ...]:
    lengths = [rng.choice([0, 1, 2, 9]) for _ in range(rng.choice([0, 1, 2, 6]))]
    return data(sum(lengths), 5), rl.tensor(np.array(lengths, np.int64))


CASES = {
    "block": (lambda: Block(8, 2), block_inputs),
    "images": (Images, image_inputs),
    "ragged": (Ragged, ragged_inputs),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_a_thousand_shapes_in_one_artifact(name: str):
    make, inputs = CASES[name]
    rl.manual_seed(0)
    model = make()
    compiled = rl.compile(model)
    rng = random.Random(7)
    with rl.no_grad():
        for number in range(1000):
            given = inputs(rng)
            assert same(compiled(*given), model(*given)), (number, [tuple(item.shape) for item in given])
    assert graph_count() == 1


def test_a_graph_for_each_broadcasting_relation_and_none_for_a_value():
    def loss(x: Any, y: Any) -> Any:
        return ((x + y) ** 2).sum()

    compiled = rl.compile(loss)
    counts: list[int] = []
    for rows, others in ((4, 4), (9, 9), (1, 1), (4, 1), (1, 4), (0, 1), (7, 1), (1, 6), (2, 2)):
        gradients: list[Any] = []
        for function in (compiled, loss):
            x, y = data(rows, 3).requires_grad_(True), data(others, 3).requires_grad_(True)
            function(x, y).backward()
            gradients += [x.grad, y.grad]
        assert same(gradients[0], gradients[2]) and same(gradients[1], gradients[3]), (rows, others)
        counts.append(graph_count())
    assert counts == [1, 1, 1, 2, 3, 3, 3, 3, 3]


def written_into(y: Any, value: Any) -> tuple[Any, Any]:
    whole, first = y.clone(), y.clone()
    whole.copy_(value)
    first[0] = value
    return whole, first


def test_what_is_written_is_broadcast_by_the_same_relations():
    """`copy_`, and assignment, which drops leading dims of size 1: a graph for each relation, none for a value."""
    compiled = rl.compile(written_into)
    before = graph_count()
    relations = {(5, 4): [(1, 4), (1, 1), (4,)], (3, 4): [(1, 4), (1, 1), (4,)], (7, 6): [(1, 6), (1, 1), (6,)]}
    for shape, values in relations.items():
        for size in values:
            y, value = rl.rand(*shape), rl.rand(*size)
            for found, wanted in zip(compiled(y, value), written_into(y, value), strict=True):
                assert rl.equal(found, wanted)
    assert graph_count() - before == 3
    for size in ((2, 4), (5,), (1, 3)):
        with pytest.raises(RushlightError) as caught:
            compiled(rl.rand(5, 4), rl.rand(*size))
        assert caught.value.code in ("S001", "S009")


def shifted_windows(x: Any) -> Any:
    """Blocks of four rows of a padded sequence, each sorted by itself, behind a shift."""
    batch, length, width = x.shape
    rows = F.pad(x, (0, 0, 0, (4 - length % 4) % 4)).view(batch, -1, 4, width)
    mixed = rows.softmax(-2).reshape(batch, -1, width)
    return mixed.roll(-2, 1).roll(1, 1)[:, :length].contiguous()


def test_padded_windows_are_shifted():
    """A padded length is rounded up: a floor division of what is negative."""
    compiled = rl.compile(shifted_windows)
    for length in (6, 9, 17, 18, 31):
        x = data(2, length, 3)
        assert same(compiled(x), shifted_windows(x)), length
