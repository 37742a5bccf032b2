"""Places in triangles of matrices."""

import numpy as np
import pytest

import rushlight as rl
from opcheck import check_rules, names_in, refused
from rushlight.ops import triangle

PAIRS = [("tril_indices", np.tril_indices), ("triu_indices", np.triu_indices)]


@pytest.mark.parametrize("name", names_in(triangle))
def test_rules_agree(name):
    check_rules(name)


@pytest.mark.parametrize(("name", "expected"), PAIRS)
def test_all_small_triangles_are_numpys(name, expected):
    function = rl.compile(lambda row, col, offset: getattr(rl, name)(row, col, offset))
    for row in range(5):
        for col in range(5):
            for offset in range(-5, 6):
                wanted = np.array(expected(row, offset, col), np.int64).reshape(2, -1)
                np.testing.assert_array_equal(getattr(rl, name)(row, col, offset).numpy(), wanted)
    np.testing.assert_array_equal(function(4, 3, 1).numpy(), expected(4, 1, 3))


@pytest.mark.parametrize(("name", "expected"), PAIRS)
def test_one_artifact_takes_triangles_of_any_size(name, expected):
    rl.compiler.reset()

    @rl.compile
    def pairs(scores):
        rows, columns = getattr(rl, name)(scores.shape[-2], scores.shape[-1], -1).unbind(0)
        return scores[:, rows, columns]

    for row, col in ((4, 4), (7, 3), (3, 8)):
        scores = np.arange(2 * row * col, dtype=np.float32).reshape(2, row, col)
        places = expected(row, -1, col)
        np.testing.assert_array_equal(pairs(rl.tensor(scores)).numpy(), scores[:, places[0], places[1]])
    assert rl.compiler.graph_count() == 1


def test_mistakes_are_refused():
    with refused("S007"):
        rl.tril_indices(-1, 2)
    with refused("D001"):
        rl.triu_indices(2, 2, dtype=rl.float32)
