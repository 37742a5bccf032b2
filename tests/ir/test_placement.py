"""Placements are frozen, interned, and print as PyTorch's."""

import copy
import pickle

import pytest

from rushlight.ir.placement import Partial, Replicate, Shard
from rushlight.support.errors import RushlightError


@pytest.mark.parametrize(
    ("make", "long", "short"),
    [
        (lambda: Shard(0), "Shard(dim=0)", "S(0)"),
        (lambda: Shard(-1), "Shard(dim=-1)", "S(-1)"),
        (Replicate, "Replicate()", "R"),
        (Partial, "Partial(sum)", "P(sum)"),
        (lambda: Partial("avg"), "Partial(avg)", "P(avg)"),
    ],
)
def test_equal_placements_are_one_object(make, long: str, short: str):
    placement = make()
    assert placement is make() and placement is copy.deepcopy(placement) and placement is copy.copy(placement)
    assert pickle.loads(pickle.dumps(placement)) is placement
    assert (repr(placement), str(placement)) == (long, short)
    with pytest.raises(AttributeError, match="frozen"):
        placement.dim = 3


def test_predicates():
    assert Shard(1).is_shard() and Shard(1).is_shard(1) and not Shard(1).is_shard(0)
    assert Replicate().is_replicate() and not Replicate().is_shard() and not Shard(0).is_replicate()
    assert Partial("max").is_partial() and Partial("max").is_partial("max") and not Partial("max").is_partial("sum")
    assert Shard(0) is not Shard(1) and Partial() is Partial("sum") and Shard(2).dim == 2


@pytest.mark.parametrize(("make", "code"), [(lambda: Shard(True), "A001"), (lambda: Partial("median"), "A002")])
def test_wrong_arguments(make, code: str):
    with pytest.raises(RushlightError) as caught:
        make()
    assert caught.value.code == code
