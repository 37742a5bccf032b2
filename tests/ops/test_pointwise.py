"""Pointwise, logical and random operators: meta, meaning, loops and gradients agree (`opcheck`)."""

import numpy as np
import pytest

from opcheck import check_gradients, check_sample, samples_of
from rushlight.ops import OPERATORS, random
from rushlight.ops.pointwise import activation, arithmetic, comparison, elementary, rounding, selection
from rushlight.ops.record import Fact, Operator

MODULES = (
    comparison,
    activation,
    arithmetic,
    selection,
    elementary,
    rounding,
    random,
)
OPS = sorted({op.name for module in MODULES for op in vars(module).values() if isinstance(op, Operator)})
CASES = [(name, position) for name in OPS for position, _ in samples_of(OPERATORS[name])]


def case(name, position):
    op = OPERATORS[name]
    return op, samples_of(op)[position][1]


def differentiable(name):
    op = OPERATORS[name]
    return Fact.NONDIFFERENTIABLE not in op.facts and (op.vjp_rule is not None or op.decompose_rule is not None)


def test_every_operator_has_samples_meaning_and_loops():
    for name in OPS:
        op = OPERATORS[name]
        assert op.samples_rule is not None, name
        assert op.ref_rule is not None, name
        assert op.lower_rule is not None or op.decompose_rule is not None, name


@pytest.mark.generated("name")
@pytest.mark.parametrize(("name", "position"), CASES)
def test_rules_agree(name, position):
    with np.errstate(all="ignore"):
        check_sample(*case(name, position))


@pytest.mark.generated("name")
@pytest.mark.parametrize(("name", "position"), [item for item in CASES if differentiable(item[0])])
def test_gradients_match_finite_differences(name, position):
    with np.errstate(all="ignore"):
        check_gradients(*case(name, position), order=2)
