"""The 4-gram model against its definition, written out."""

import math
import time

import numpy as np
import pytest

from rushlight.demo import ngram


def witten_bell(text: bytes, context: bytes, byte: int) -> float:
    """The definition, by counting."""
    if not context:
        shorter = 1 / 256
    else:
        shorter = witten_bell(text, context[1:], byte)
    length = len(context)
    following = [text[place + length] for place in range(len(text) - length) if text[place : place + length] == context]
    kinds = len(set(following))
    if not following:
        return shorter
    return (following.count(byte) + kinds * shorter) / (len(following) + kinds)


def test_losses_follow_the_definition():
    text = b"abracadabra, said the abbot; bra bra abracadabra"
    held_out = b"the cadabra zebra"
    model = ngram.fit(np.frombuffer(text, np.uint8))
    for position in range(3, len(held_out)):
        expected = -math.log(witten_bell(text, held_out[position - 3 : position], held_out[position]))
        found = model.loss(np.frombuffer(held_out, np.uint8), np.array([position]))
        assert found == pytest.approx(expected, rel=1e-12), position


def test_probabilities_sum_to_one():
    generator = np.random.default_rng(0)
    model = ngram.fit(generator.integers(97, 101, 400).astype(np.uint8))
    for context in (b"abc", b"zzz", b"dda"):
        total = 0.0
        for byte in range(256):
            text = np.frombuffer(context + bytes([byte]), np.uint8)
            total += math.exp(-model.loss(text, np.array([3])))
        assert total == pytest.approx(1, abs=1e-12)


def test_the_first_bytes_of_a_text_have_a_loss_too():
    text = np.frombuffer(b"hello hello", np.uint8)
    assert math.isfinite(ngram.fit(text).loss(text, np.arange(len(text))))


def test_longer_contexts_help_and_fitting_takes_seconds():
    generator = np.random.default_rng(1)
    text = np.cumsum(generator.integers(0, 2, 1_000_000)).astype(np.uint8)
    positions = np.arange(100, 5000)
    started = time.process_time()
    model = ngram.fit(text)
    losses = [ngram.NGram(model.orders[:n]).loss(text, positions) for n in (1, 2, 4)]
    assert time.process_time() - started < 10
    assert losses[0] > losses[1] > losses[2] > 0
    assert losses[1] == pytest.approx(math.log(2), abs=0.01)
