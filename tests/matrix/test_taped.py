"""A sample of the operators' gradients by compiled autograd; `python -m matrix_taped` asks all."""

import pytest

import matrix_taped
from matrix_cases import ASKED
from matrix_taped import failures
from rushlight.capture.tape import steps

SAMPLE = [*ASKED[5::24], "mul", "sub", "where"]


@pytest.mark.generated
@pytest.mark.row("2.2")
@pytest.mark.parametrize("op", SAMPLE)
def test_gradients_by_compiled_autograd_are_those_of_the_tape(op: str) -> None:
    found = failures(op)
    assert not found, "\n".join(found)


def test_sizes_of_one_that_nobody_has_settled_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    assert not failures("mul")
    monkeypatch.setattr(steps, "settle_ones", lambda values, sizes: None)
    assert failures("mul")
    assert matrix_taped.cases_of("mul")
