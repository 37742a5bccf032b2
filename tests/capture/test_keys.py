"""Dicts with keys whose text is no Python literal."""

import enum

import pytest

import rushlight as rl


class Kind(enum.Enum):
    FIRST = 1


KEYS = [Kind.FIRST, int, (int, "a"), frozenset([1]), float("inf"), None, True, (1, 2)]
FACTORS = dict.fromkeys(KEYS, 2.0)


@pytest.mark.parametrize("key", KEYS, ids=repr)
def test_dicts_may_have_keys_that_are_no_literals(key):
    def scaled(given):
        given[key]["double"] = given[key]["x"] * 2
        return given[key]["x"] * FACTORS[key]

    compiled = rl.compile(scaled)
    for factor in (2.0, 3.0):
        FACTORS[key] = factor
        for size in (1, 3):
            given = {key: {"x": rl.ones(size)}}
            assert compiled(given).tolist() == [factor] * size
            assert given[key]["double"].tolist() == [2.0] * size
    assert compiled({"other": 1, key: {"x": rl.ones(2)}}).tolist() == [3.0, 3.0]
