"""Reductions of ragged rows are those of Python lists: forward, gradients, and compiled once for all lengths."""

import math

import numpy as np
import pytest

import rushlight as rl

EMPTY = {"sum": 0.0, "mean": math.nan, "max": -math.inf, "min": math.inf, "prod": 1.0}
RAGGED = ([2, 0, 3, 1], [0, 0], [7], [1, 1, 1], [0, 5, 0, 0, 2], [])


def reduced(reduce, part):
    """One segment as numpy reduces it in float64."""
    if not len(part):
        return np.full(part.shape[1:], EMPTY[reduce])
    return getattr(np, reduce)(part.astype(np.float64), axis=0)


def parts_of(data, lengths):
    """The segments of an array as a list of arrays."""
    return [data[sum(lengths[:at]) : sum(lengths[: at + 1])] for at in range(len(lengths))]


def drawn(lengths):
    """Rows for segments of such lengths."""
    return np.random.default_rng(sum(lengths)).standard_normal((sum(lengths), 3)).astype(np.float32)


@pytest.mark.row("9.1")
@pytest.mark.parametrize("reduce", EMPTY)
def test_segments_reduce_as_python_lists_do(reduce):
    compiled = rl.compile(lambda x, n: rl.segment_reduce(x, reduce, lengths=n), dynamic=True)
    for lengths in RAGGED:
        data = drawn(lengths)
        expected = np.array([reduced(reduce, part) for part in parts_of(data, lengths)]).reshape(-1, 3)
        sizes = rl.tensor(lengths, dtype=rl.int64)
        offsets = rl.tensor([sum(lengths[:at]) for at in range(len(lengths) + 1)], dtype=rl.int64)
        eager = rl.segment_reduce(rl.tensor(data), reduce, lengths=sizes)
        np.testing.assert_allclose(eager.numpy(), expected, rtol=1e-5, atol=1e-6)
        by_offsets = rl.segment_reduce(rl.tensor(data), reduce, offsets=offsets)
        assert by_offsets.numpy().tobytes() == eager.numpy().tobytes()
        if lengths:
            assert compiled(rl.tensor(data), sizes).numpy().tobytes() == eager.numpy().tobytes()


@pytest.mark.row("9.1")
@pytest.mark.parametrize("reduce", ["sum", "mean", "max", "min"])
def test_gradients_of_segments_are_those_of_each_part_alone(reduce):
    for lengths in RAGGED:
        data, weights = drawn(lengths), np.arange(3 * len(lengths), dtype=np.float32).reshape(-1, 3) + 1
        whole = rl.tensor(data, requires_grad=True)
        results = rl.segment_reduce(whole, reduce, lengths=rl.tensor(lengths, dtype=rl.int64), initial=0.0)
        results.backward(rl.tensor(weights))
        expected = [np.zeros((0, 3), np.float32)]
        for part, weight in zip(parts_of(data, lengths), weights, strict=True):
            alone = rl.tensor(part, requires_grad=True)
            if len(part):
                bound = {"max": lambda x: x.amax(0).clamp(min=0), "min": lambda x: x.amin(0).clamp(max=0)}
                result = bound[reduce](alone) if reduce in bound else getattr(alone, reduce)(0)
                result.backward(rl.tensor(weight))
                expected.append(alone.grad.numpy())
        np.testing.assert_allclose(whole.grad.numpy(), np.concatenate(expected), rtol=1e-5, atol=1e-6)
