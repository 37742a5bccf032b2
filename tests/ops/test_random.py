"""Philox against its published vectors, and the distributions drawn from it."""

import numpy as np
import pytest

from rushlight.ir.dtype import bfloat16, complex64, complex128, float16, float32, float64, int64, uint32, uint64
from rushlight.ir.interpret import interpret
from rushlight.ir.scalar import constant
from rushlight.ir.type import CPU, TensorType
from rushlight.ops import OPERATORS
from rushlight.ops.math.philox import philox, philox_array
from rushlight.ops.record import Fact
from rushlight.support.errors import DTypeError
from rushlight.sym import Scope

# Random123's known answers for philox4x32 with 10 rounds: counter, key, words.
VECTORS = [
    ([0, 0, 0, 0], [0, 0], [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]),
    ([0xFFFFFFFF] * 4, [0xFFFFFFFF] * 2, [0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD]),
    (
        [0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344],
        [0xA4093822, 0x299F31D0],
        [0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1],
    ),
]
WEAK = TensorType((), int64, CPU, weak=True)


@pytest.mark.parametrize(("counter", "key", "words"), VECTORS)
def test_philox_gives_the_published_words(counter, key, words):
    arrays = philox_array(tuple(np.array([word], np.uint32) for word in counter), tuple(key))
    assert [int(word[0]) for word in arrays] == words
    terms = philox(tuple(constant(word, uint32) for word in counter), tuple(constant(word, uint32) for word in key))
    out = TensorType((), uint32)
    assert [int(interpret(lambda at, term=term: term, [], [], out)) for term in terms] == words


def drawn(name, size, seed=1, ordinal=2, **attrs):
    return (
        OPERATORS[name].ref_rule(size=size, seed=seed, ordinal=ordinal, dtype=None, device=None)
        if not attrs
        else (OPERATORS[name].ref_rule(size=size, seed=seed, ordinal=ordinal, device=None, **attrs))
    )


def test_values_depend_on_seed_ordinal_and_position_only():
    x = drawn("random_bits", (4, 6))
    np.testing.assert_array_equal(x.ravel(), drawn("random_bits", (24,)))
    np.testing.assert_array_equal(x.ravel()[:10], drawn("random_bits", (10,)))
    assert not np.array_equal(x, drawn("random_bits", (4, 6), seed=3))
    assert not np.array_equal(x, drawn("random_bits", (4, 6), ordinal=3))


def test_seeds_above_32_bits_and_negative_ones_count():
    seeds = [5, 5 + (1 << 32), -5, (1 << 63) - 1]
    words = {drawn("random_bits", (8,), seed=seed, dtype=uint64).tobytes() for seed in seeds}
    assert len(words) == len(seeds)


def test_symbolic_loops_give_the_same_numbers():
    scope = Scope()
    rows, columns = scope.symbol("rows", hint=3), scope.symbol("columns", hint=7)
    for name in ("rand", "randn"):
        op = OPERATORS[name]
        attrs = {"size": (rows, columns), "dtype": float32, "device": None}
        type_ = op.infer((WEAK, WEAK), attrs)
        rule = lambda at, seed, ordinal, op=op, **kwargs: op.lower_rule(at, seed=seed, ordinal=ordinal, **kwargs)  # noqa: E731
        found = interpret(rule, [WEAK, WEAK], [1, 2], type_, attrs, {rows: 3, columns: 7})
        np.testing.assert_allclose(found, drawn(name, (3, 7)), rtol=1e-6)


@pytest.mark.parametrize("dtype", [float16, bfloat16, float32, float64], ids=lambda dtype: dtype.name)
def test_rand_is_uniform_and_below_one(dtype):
    x = drawn("rand", (1 << 16,), dtype=dtype).astype(np.float64)
    assert x.min() >= 0
    assert x.max() < 1
    counts, _ = np.histogram(x, 16, (0, 1))
    assert abs(counts - 4096).max() < 5 * np.sqrt(4096)


@pytest.mark.parametrize("dtype", [float32, float64], ids=lambda dtype: dtype.name)
def test_randn_has_the_normal_moments(dtype):
    x = drawn("randn", (1 << 17,), dtype=dtype).astype(np.float64)
    assert np.isfinite(x).all()
    assert abs(x.mean()) < 0.015
    assert abs(x.var() - 1) < 0.02
    assert abs((x**3).mean()) < 0.04
    assert abs((x**4).mean() - 3) < 0.12


@pytest.mark.parametrize("dtype", [complex64, complex128], ids=lambda dtype: dtype.name)
def test_complex_numbers_are_drawn_in_two_parts(dtype):
    count = 1 << 16
    x = drawn("randn", (count,), dtype=dtype)
    assert x.dtype == dtype.numpy
    for part in (x.real.astype(np.float64), x.imag.astype(np.float64)):
        assert abs(part.mean()) < 0.015
        assert abs(part.var() - 0.5) < 0.015
        assert abs((part**4).mean() - 0.75) < 0.06
    assert abs((x.real * x.imag).mean()) < 0.01
    uniform = drawn("rand", (count,), dtype=dtype)
    for part in (uniform.real, uniform.imag):
        assert part.min() >= 0 and part.max() < 1
        assert np.abs(np.histogram(part, 8, (0, 1))[0] - count / 8).max() < 5 * np.sqrt(count / 8)
    assert abs(np.corrcoef(uniform.real, uniform.imag)[0, 1]) < 0.02
    like = np.zeros(count, dtype.numpy)
    moved = OPERATORS["normal"].ref_rule(input=like, mean=3.0, std=2.0, seed=1, ordinal=2)
    np.testing.assert_allclose(moved, 2 * x + (3 + 3j), rtol=1e-4, atol=1e-5)
    moved = OPERATORS["uniform"].ref_rule(input=like, low=-1.0, high=3.0, seed=1, ordinal=2)
    np.testing.assert_allclose(moved, 4 * uniform - (1 + 1j), rtol=1e-4, atol=1e-5)


def test_randint_covers_its_range():
    x = OPERATORS["randint"].ref_rule(low=-3, high=4, size=(7000,), seed=1, ordinal=2, dtype=None, device=None)
    assert x.dtype == np.int64
    values, counts = np.unique(x, return_counts=True)
    assert values.tolist() == [-3, -2, -1, 0, 1, 2, 3]
    assert abs(counts - 1000).max() < 160


def test_dropout_keeps_the_mean_and_its_gradient_draws_the_same_mask():
    op = OPERATORS["dropout"]
    x = np.ones((1 << 14,), np.float32)
    out = op.ref_rule(input=x, p=0.25, training=True, seed=1, ordinal=2)
    assert set(np.unique(out)) == {np.float32(0), np.float32(1 / 0.75)}
    assert abs(out.mean() - 1) < 0.02
    assert op.vjp_needs == ("p", "training", "seed", "ordinal")


def test_random_operators_are_marked_and_refuse_integers():
    for name in ("rand", "randn", "randint", "bernoulli", "dropout", "uniform", "normal", "multinomial"):
        assert Fact.RANDOM in OPERATORS[name].facts, name
    with pytest.raises(DTypeError, match="floating-point"):
        OPERATORS["rand"].infer((WEAK, WEAK), {"size": (3,), "dtype": int64, "device": None})
