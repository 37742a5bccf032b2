"""Arguments that share memory while one of them is written to."""

import numpy as np
import pytest

import rushlight as rl
from opcheck import refused
from rushlight.support.errors import RushlightError


def write_one_read_other(x, y):
    z = y * 2
    x.add_(1)
    return z + y


@pytest.mark.parametrize("start", [0, 2])
def test_two_tensors_on_one_array_are_refused(start):
    """Each has a storage of its own, but the memory is numpy's."""
    array = np.zeros(6, np.float32)
    with pytest.raises(RushlightError) as caught:
        rl.compile(write_one_read_other, fullgraph=True)(rl.from_numpy(array), rl.from_numpy(array[start:]))
    assert caught.value.code == "C012"


def test_a_compiled_call_does_not_serve_shared_memory():
    """The entry made for separate arrays is not taken for one that is shared; arrays of their own pass."""
    compiled = rl.compile(write_one_read_other, fullgraph=True)
    array = np.zeros(6, np.float32)
    assert compiled(rl.zeros(6), rl.zeros(6)).tolist() == [0.0] * 6
    with pytest.raises(RushlightError):
        compiled(rl.from_numpy(array), rl.from_numpy(array))
    assert compiled(rl.from_numpy(array[:3]), rl.from_numpy(array[3:])).tolist() == [0.0] * 3
    assert array.tolist() == [1.0] * 3 + [0.0] * 3


def test_an_assignment_to_data_is_refused_and_leaves_the_tensor_alone():
    """As an argument its new elements were lost; around the function it was left without any."""
    outside, given, value = rl.nn.Parameter(rl.ones(3)), rl.nn.Parameter(rl.ones(3)), rl.full((3,), 2.0)

    def assign(tensor, value):
        tensor.data = value * 2
        return tensor * 1

    for call in (
        lambda: rl.compile(assign, fullgraph=True)(given, value),
        lambda: rl.compile(lambda v: assign(outside, v), fullgraph=True)(value),
    ):
        with refused("A006"):
            call()
    assert outside.tolist() == given.tolist() == [1, 1, 1]
    assert assign(given, value).tolist() == [4, 4, 4]
