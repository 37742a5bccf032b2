"""What tests compare of tensors that two ways of calling have made, and which functions of Python a call runs."""

import os
import sys

import pytest

import rushlight as rl
from rushlight.eager import python_calls
from rushlight.eager.autograd.accumulate import AccumulateGrad
from rushlight.eager.autograd.operation import OperatorNode
from rushlight.eager.autograd.saved import SavedTensor
from rushlight.eager.native import learning
from rushlight.support import settings

NATIVE_RUNS = 4  # a call with attributes is learned when it is made again, and what it consists of after that
native_only = pytest.mark.skipif(settings.get().eager_calls != "native", reason="calls go through Python")


def both(program):
    """What a program gives by Python's way, after it must have given the same by native code, also once learned."""
    with python_calls():
        expected = program()
    for _ in range(NATIVE_RUNS):
        with learning.native_calls():
            actual = program()
        assert actual == expected, f"{actual} for {expected}"
    return expected


def frames(function):
    """The names of the Python functions of this package that a call runs."""
    called = []

    def note(frame, event, argument):
        if event == "call" and os.sep + "rushlight" + os.sep in frame.f_code.co_filename:
            called.append(frame.f_code.co_name)

    sys.setprofile(note)
    try:
        function()
    finally:
        sys.setprofile(None)
    return called


def later_frames(function, turns=4):
    """The names of the Python functions of this package that a native call runs once it was learned."""
    with learning.native_calls():
        for _ in range(turns):
            function()
        return frames(function)


def described(tensor):
    return tensor.numpy().tobytes(), tuple(tensor.shape), tensor.stride(), tensor.dtype, tensor._version


def outcome(function):
    try:
        return described(function())
    except rl.RushlightError as error:
        return error.code, error.message


def tape_of(tensor):
    """The tape behind a tensor as a nested description."""

    def saved(value):
        if isinstance(value, SavedTensor):
            tensor = value.unpack(None, None)
            edge = None if tensor.gradient is None else tensor.requires_grad
            return value.form, value._version, value._output, edge, tensor.numpy(force=True).tobytes(), tensor.keys
        return value

    def step(node):
        if node is None or isinstance(node, AccumulateGrad):
            return None if node is None else id(node.variable)
        kept = [saved(value) for value in node.saved] if isinstance(node, OperatorNode) else []
        edges = [(step(before), output) for before, output in node.next_functions]
        return node.name(), str(node.frame), edges, kept, node.metadata, node.released

    return tensor.requires_grad, tensor.is_leaf, tensor.output_nr, step(tensor.grad_fn)
