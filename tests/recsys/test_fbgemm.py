"""FBGEMM's operators give what fbgemm-gpu-cpu 1.8 gave for the calls in fbgemm_answers.json."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rushlight as rl
from rushlight.recsys import fbgemm
from rushlight.torch.modules import ops

RECORDED = json.loads(Path(__file__).with_name("fbgemm_answers.json").read_text())


def decoded(value: Any) -> Any:
    """A recorded value: tensors are records of their numbers, dtype and shape."""
    if isinstance(value, dict):
        return rl.tensor(value["t"], dtype=getattr(rl, value["d"])).reshape(value["s"])
    return [decoded(one) for one in value] if isinstance(value, list) else value


def require_equal(found: Any, wanted: Any) -> None:
    if isinstance(wanted, dict):
        assert [*found.shape] == wanted["s"]
        assert str(found.dtype).endswith(wanted["d"])
        np.testing.assert_allclose(found.tolist(), wanted["t"], rtol=2e-6, atol=1e-6)
    elif isinstance(wanted, list):
        assert len(found) == len(wanted)
        for one, other in zip(found, wanted, strict=True):
            require_equal(one, other)
    else:
        assert found == wanted


@pytest.mark.parametrize("place", range(len(RECORDED)), ids=[f"{n}-{case[0]}" for n, case in enumerate(RECORDED)])
def test_answers_are_fbgemms(place: int):
    name, operands, wanted = RECORDED[place]
    require_equal(getattr(fbgemm, name)(*decoded(operands)), wanted)
    require_equal(getattr(ops.fbgemm, name).default(*decoded(operands)), wanted)


@pytest.mark.parametrize("name", ["jagged_2d_to_dense", "jagged_softmax", "jagged_jagged_bmm", "dense_to_jagged"])
def test_gradients_are_those_of_numbers(name: str):
    operands = decoded(next(case for case in RECORDED if case[0] == name)[1])

    def total(*values: Any) -> Any:
        result = getattr(fbgemm, name)(*values, *operands[len(values) :])
        return result[0] if isinstance(result, tuple) else result

    floats = 2 if name == "jagged_jagged_bmm" else 1
    given = [one.double().requires_grad_() for one in operands[:floats]]
    assert rl.autograd.gradcheck(total, given)


def test_examples_of_each_key_are_chosen():
    lengths, values = rl.tensor([2, 0, 1, 1, 1, 1]), rl.tensor([5, 7, 11, 2, 9, 4])
    weights = values * 0.5
    found = fbgemm.keyed_jagged_index_select_dim1(values, lengths, lengths, rl.tensor([2, 0]), 3, weights)
    assert [one.tolist() for one in found] == [[11, 5, 7, 4, 2], [1, 2, 1, 1], [5.5, 2.5, 3.5, 2, 1]]


def test_a_name_that_is_not_there_is_refused():
    with pytest.raises(AttributeError, match="nothing registered it"):
        _ = ops.fbgemm.no_such_operator
