"""Where values belong in sorted sequences."""

import numpy as np
import pytest

import rushlight as rl
from opcheck import check_rules, names_in, refused
from rushlight.ops.index import search

SEQUENCE = np.array([-1.5, 0.0, 0.0, 2.0, np.inf], np.float32)
VALUES = np.array([[-2.0, -1.5, 0.0], [1.0, 2.0, np.inf], [-np.inf, 3.0, np.nan]], np.float32)


@pytest.mark.parametrize("name", names_in(search))
def test_rules_agree(name):
    check_rules(name)


@pytest.mark.parametrize("right", [False, True])
@pytest.mark.parametrize("function", [lambda f: f, rl.compile], ids=["eager", "compiled"])
def test_places_are_numpys(function, right: bool):
    found = function(lambda s, v: rl.searchsorted(s, v, right=right))(rl.tensor(SEQUENCE), rl.tensor(VALUES))
    np.testing.assert_array_equal(found.numpy(), np.searchsorted(SEQUENCE, VALUES, "right" if right else "left"))
    found = function(lambda s, v: rl.bucketize(v, s, right=right, out_int32=True))(
        rl.tensor(SEQUENCE), rl.tensor(VALUES)
    )
    assert found.dtype is rl.int32
    np.testing.assert_array_equal(found.numpy(), np.searchsorted(SEQUENCE, VALUES, "right" if right else "left"))


def test_a_row_of_sequences_has_a_row_of_values_each():
    rng = np.random.default_rng(3)
    sequences, values = np.sort(rng.standard_normal((3, 7)), -1), rng.standard_normal((3, 4))
    found = rl.searchsorted(rl.tensor(sequences), rl.tensor(values)).numpy()
    np.testing.assert_array_equal(found, [np.searchsorted(a, v) for a, v in zip(sequences, values, strict=True)])


def test_mistakes_are_refused():
    one, two = rl.tensor([1.0, 2.0]), rl.tensor([[1.0, 2.0]])
    with refused("S014"):
        rl.searchsorted(two, rl.tensor([[1.0], [2.0]]))
    with refused("A002"):
        rl.searchsorted(one, one, side="middle")
    with refused("A002"):
        rl.searchsorted(one, one, side="left", right=True)
    with refused("S002"):
        rl.bucketize(one, two)
