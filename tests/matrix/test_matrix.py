"""The generated matrix: every operator, every question, every case the harness supplies.

`python -m matrix OPERATOR QUESTION CASE`, from `tests/harness`, asks one cell; a failure prints that command.
"""

import pytest

from matrix import failures, is_core
from matrix_cases import cases
from matrix_questions import QUESTIONS, cells
from rushlight.ops import OPERATORS
from rushlight.ops.record import Fact

PAIRS = [(op, question) for op in OPERATORS for question in QUESTIONS]


def report(found):
    assert not found, f"{len(found)} cells:\n" + "\n".join(found)


@pytest.mark.core
@pytest.mark.parametrize("op", OPERATORS)
def test_first_sample(op):
    """Every operator once: its first sample, all questions."""
    report([text for question in QUESTIONS for text in failures(op, question, is_core)])


@pytest.mark.parametrize(("op", "question"), PAIRS, ids=[f"{op}-{question}" for op, question in PAIRS])
def test_cells(op, question):
    """The rest of an operator's cells of one question."""
    report(failures(op, question, lambda case: not is_core(case)))


def test_every_operator_is_asked():
    """No operator is without cells for what holds of all, and none but creation is without varied ones."""
    for op in OPERATORS:
        assert cells(op, "meta") and cells(op, "compiled") and cells(op, "symbolic"), f"{op} has no cells"


def test_pointwise_operators_take_every_variation():
    """Sizes, layouts and special values are never lost by a sample that happens not to allow them."""
    for op, record in OPERATORS.items():
        if Fact.POINTWISE not in record.facts or Fact.RANDOM in record.facts:
            continue
        found = cases(op)
        assert {"zero", "one", "odd", "long"} <= {case.size for case in found}, f"{op}: sizes"
        assert {"transposed", "expanded", "offset", "strided"} <= {case.layout for case in found}, f"{op}: layouts"
        assert any(case.values == "special" for case in found), f"{op}: special values"
