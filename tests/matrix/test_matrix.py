"""The generated matrix: every operator, every question, every case the harness supplies.

`python -m matrix OPERATOR QUESTION CASE`, from `tests/harness`, asks one cell; a failure prints that command.
By default `matrix_tiers` chooses among the cells that compile; `pytest --full` asks all.
"""

import contextlib

import pytest

from matrix import failures
from matrix_cases import ASKED, cases, sample_arguments
from matrix_questions import QUESTIONS, cells
from matrix_tiers import CORE, QUICK, default_cells, is_core
from rushlight.ops import OPERATORS
from rushlight.ops.record import Fact, define, undefine
from rushlight.support import settings

PAIRS = [(op, question) for op in ASKED for question in QUESTIONS]


def report(found):
    assert not found, f"{len(found)} cells:\n" + "\n".join(found)


@pytest.mark.core
@pytest.mark.parametrize("op", ASKED)
def test_first_sample(op):
    """Every operator once: its first sample, the questions of the quick tier."""
    assert_asked(op)
    for question in CORE:
        report(failures(question, [case for case in cells(op, question) if is_core(question, case)]))


@pytest.mark.generated("question")
@pytest.mark.parametrize(("op", "question"), PAIRS, ids=[f"{op}-{question}" for op, question in PAIRS])
def test_cells(op, question, request):
    """The rest of an operator's cells of one question."""
    full = request.config.getoption("--full")
    chosen = cells(op, question) if full else default_cells(op, question)
    with settings.override(optimise=0) if question in QUICK and not full else contextlib.nullcontext():
        report(failures(question, [case for case in chosen if not is_core(question, case)]))


def assert_asked(op):
    """Fails for an operator without samples, or without cells for what holds of all."""
    assert OPERATORS[op].samples_rule is not None, f"{op} has no samples: give it a `samples` rule"
    for question in ("meta", "symbolic", "compiled"):
        assert cells(op, question), f"{op} has no cells for {question}: its samples give none"


def test_operator_without_samples_is_noticed():
    """A new operator that brings no samples fails."""
    define("matrix_unsampled(Tensor input) -> Tensor", "Not sampled.")
    try:
        with pytest.raises(AssertionError, match="no samples"):
            assert_asked("matrix_unsampled")
    finally:
        undefine("matrix_unsampled")


def test_default_tier_keeps_everything():
    """By default every operator keeps its questions, and every layout and size in some dtype."""
    for op in ASKED:
        for question in QUESTIONS:
            assert bool(default_cells(op, question)) == bool(cells(op, question))
        for question in ("eager", "compiled"):
            full, kept = cells(op, question), default_cells(op, question)
            assert {case.layout for case in full} == {case.layout for case in kept}, f"{op} {question}: layouts"
            assert {case.size for case in full} == {case.size for case in kept}, f"{op} {question}: sizes"


def test_pointwise_operators_take_every_variation():
    """Sizes, layouts and special values are never lost by a sample that happens not to allow them."""
    for op, record in OPERATORS.items():
        if Fact.POINTWISE not in record.facts or Fact.RANDOM in record.facts:
            continue
        found = cases(op)
        assert {"zero", "one", "odd", "long"} <= {case.size for case in found}, f"{op}: sizes"
        assert {"transposed", "expanded", "offset", "strided"} <= {case.layout for case in found}, f"{op}: layouts"
        if any(len(item.leaves("data")) == len(item.leaves()) > 0 for item in sample_arguments(op)):
            assert any(case.values == "special" for case in found), f"{op}: special values"
