"""Nothing computes with numpy but the meaning of operators: the matrix's calls with numpy's arithmetic taken away."""

import numpy as np
import pytest

from matrix import exemption_for
from matrix_calls import call, compiled_call, flat_tensors, key_of, structure_of, tensors_of
from matrix_cases import ASKED, cases, materialise
from matrix_poison import Computed, poisoned
from rushlight.ops import OPERATORS
from rushlight.ops.record import Fact
from rushlight.support import settings


@pytest.mark.generated
@pytest.mark.parametrize("op", ASKED)
def test_no_numpy_arithmetic(op):
    """Eager and compiled calls, forward and backward, of an operator's first sample; those of the host are numpy's."""
    case = cases(op)[0]
    if Fact.HOST in OPERATORS[op].facts:
        return
    if any(exemption_for(question, case) for question in ("eager", "compiled")):
        return
    arguments = materialise(case)
    operands = tensors_of(arguments)
    with poisoned():
        call(OPERATORS[op], operands, arguments.attrs)
        compiled_call(OPERATORS[op], structure_of(operands), key_of(arguments.attrs), case)(*flat_tensors(operands))


def test_poison_is_deadly():
    """What the tests above rely on: ufuncs, operators, methods and functions raise, copies do not."""
    with poisoned():
        array = np.array([1.0, 2.0])
        for compute in (
            lambda: np.add(1, 2),
            lambda: np.matmul(array, array),
            lambda: array + 1,
            lambda: array @ array,
            lambda: array.sum(),
            lambda: np.ndarray((2,)) * 2,
            lambda: np.where(array, 1, 2),
        ):
            with pytest.raises(Computed):
                compute()
        np.copyto(np.empty(2), array)
    assert np.add(1, 2) == 3


def test_reference_backend_does_compute():
    """The backend that is numpy is caught, so the poison reaches our own calls."""
    case = cases("add")[1]
    arguments = materialise(case)
    operands = tensors_of(arguments)
    compiled = compiled_call.__wrapped__(OPERATORS["add"], structure_of(operands), key_of(arguments.attrs), case)
    with settings.override(backend="reference"), poisoned(), pytest.raises(Computed):
        compiled(*flat_tensors(operands))
