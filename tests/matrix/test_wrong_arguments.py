"""Every operator refuses arguments that its kernels cannot handle: else a kernel touches memory that is not its own.

By default an operator is asked about every fifth of its calls, in turns; `pytest --full` asks about all.
"""

import zlib

import pytest

from matrix_cases import ASKED
from rushlight.ir.type import TensorType
from rushlight.ops import OPERATORS
from rushlight.ops.reduce.reduction import reduced_shape, sum_repeated
from rushlight.ops.view.strided import as_strided_backward
from wrong_arguments import outcome, wrong_calls

TURNS = 5


def wrong(op, turn=None):
    found = []
    for number, call in enumerate(wrong_calls(op)):
        if turn is None or (number + turn) % TURNS == 0:
            text = outcome(OPERATORS[op], call)
            if text is not None:
                found.append(f"{op} {call.change}: {text}")
    return found


@pytest.mark.generated
@pytest.mark.parametrize("op", ASKED)
def test_wrong_arguments_are_refused_or_harmless(op, request):
    full = request.config.getoption("--full")
    found = wrong(op, None if full else zlib.crc32(op.encode()))
    assert not found, "\n".join(found)


@pytest.mark.parametrize(
    ("op", "trusting"),
    [
        (as_strided_backward, lambda grad, input_sizes, **rest: TensorType(input_sizes, grad.dtype)),
        (sum_repeated, lambda input, dim, **rest: TensorType(reduced_shape(input.shape, dim, True, ""), input.dtype)),
    ],
    ids=["a write outside the result", "a load outside an operand"],
)
def test_a_rule_that_trusts_its_attributes_is_noticed(monkeypatch, op, trusting):
    monkeypatch.setattr(op, "meta_rule", trusting)
    assert any("outside a dim" in text for text in wrong(op.name))
