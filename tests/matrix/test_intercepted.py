"""A sample of the operators under the logging mode and on pairs of tensors; `python -m matrix_intercepted` asks all."""

import pytest

import matrix_intercepted
from matrix_cases import ASKED
from matrix_intercepted import TwoTensor, ask_logged, ask_paired, cases_of, failures

SAMPLE = ASKED[3::24]


@pytest.mark.generated
@pytest.mark.row("1.6")
@pytest.mark.parametrize("op", SAMPLE)
def test_operators_are_what_they_are_under_modes_and_on_pairs(op: str) -> None:
    found = failures(op)
    assert not found, "\n".join(found)


def test_a_pair_that_mixes_its_tensors_up_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    case = cases_of("sin")[0]
    assert ask_paired(case) is None
    mixed = staticmethod(lambda inner, context, size, stride: TwoTensor(inner["a"], inner["a"]))
    monkeypatch.setattr(TwoTensor, "__tensor_unflatten__", mixed)
    assert "compiled" in str(ask_paired(case))


def test_a_mode_that_changes_results_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    class Doubling(matrix_intercepted.LoggingMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            result = super().__torch_dispatch__(func, types, args, kwargs)
            return result * 2 if func.__name__ == "sin" else result

    case = cases_of("sin")[0]
    assert ask_logged(case) is None
    monkeypatch.setattr(matrix_intercepted, "LoggingMode", Doubling)
    assert "eager" in str(ask_logged(case))
