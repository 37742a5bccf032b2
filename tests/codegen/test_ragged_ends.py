"""Reductions that end where a length in memory says, in every kind of loop."""

import numpy as np
import pytest

import rushlight as rl
from rushlight.ir.dtype import float32, int64
from rushlight.ir.ragged import ragged_end
from rushlight.ir.scalar import BLOCKED, Buffer, constant, guard, identity, index, load, reduce
from rushlight.ir.type import TensorType
from rushlight.sym import axis_symbol

LENGTHS = [0, 1, 3, -2, 70, 300, 1000, 5]


def rows(rng, dtype=np.float32):
    return rl.tensor(rng.standard_normal((len(LENGTHS), 300)).astype(dtype))


def live(x, dim):
    """Which elements of each row (column) are within its length."""
    places = rl.arange(x.shape[dim])
    lengths = rl.tensor(LENGTHS)
    return places < lengths[:, None] if dim == 1 else places[:, None] < lengths


KINDS = {
    "sum": (0.0, lambda x, dim: x.sum(dim)),
    "max": (-float("inf"), lambda x, dim: x.amax(dim)),
    "min": (float("inf"), lambda x, dim: x.amin(dim)),
    "prod": (1.0, lambda x, dim: x.prod(dim)),
    "two": (0.0, lambda x, dim: (x.sum(dim), (x * 0 + 1).sum(dim))),
}


@pytest.mark.parametrize("dim", [0, 1])
@pytest.mark.parametrize("kind", list(KINDS))
def test_masked_reductions_have_the_bits_of_whole_ones(kind: str, dim: int):
    other, reduction = KINDS[kind]
    x = rows(np.random.default_rng(0))
    x = x if dim == 1 else x.T.contiguous()
    step = rl.compile(lambda x, lengths: reduction(rl.where(within(x, lengths, dim), x, other), dim))
    expected = reduction(rl.where(live(x, dim), x, other), dim)
    found = step(x, rl.tensor(LENGTHS))
    for a, b in zip(*[each if isinstance(each, tuple) else (each,) for each in (found, expected)], strict=True):
        assert np.array_equal(a.numpy().view(np.int32), b.numpy().view(np.int32))


def within(x, lengths, dim):
    places = rl.arange(x.shape[dim])
    return places < lengths[:, None] if dim == 1 else places[:, None] < lengths


def test_an_end_is_found_where_the_other_value_is_the_identity():
    table = Buffer("t", TensorType((9,), float32))
    ends = Buffer("e", TensorType((3,), int64))
    step, row = axis_symbol(9, "k"), axis_symbol(3, "i")
    limit = load(ends, index(row))

    def masked(other, limit=limit):
        return reduce("sum", (step,), guard(index(step + 2) < limit, load(table, index(step)), other), BLOCKED)

    end = ragged_end(masked(constant(0, float32)))
    assert end is not None
    assert (end.axis, end.before, end.limit) == (step, 2, limit)
    assert ragged_end(masked(constant(1, float32))) is None
    assert ragged_end(masked(constant(0, float32), index(row))) is None
    assert ragged_end(masked(constant(0, float32), load(ends, index(step)))) is None


@pytest.mark.parametrize("kind", ["max", "min"])
@pytest.mark.parametrize("dtype", [rl.int8, rl.uint8, rl.int64])
def test_identities_of_integers_are_their_bounds(kind: str, dtype):
    limits = rl.iinfo(dtype)
    assert identity(kind, dtype) == (limits.min if kind == "max" else limits.max)
