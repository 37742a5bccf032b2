"""Tensors as text: texts that torch 2.13 prints, frozen."""

import json
import math
from pathlib import Path

import pytest

import rushlight as rl
from rushlight.eager.creation import empty, ones, tensor
from rushlight.eager.printing.text import set_printoptions
from rushlight.ir.dtype import bfloat16, float16, float64, int32, int64, uint8

TABLE = json.loads((Path(__file__).parent / "printed.json").read_text())
UNWRITTEN = {
    "long": list(range(2000)),
    "complex": [1 + 2j, 3 - 4.5j],
    "nan": [math.nan, 1.0, math.inf, -math.inf],
    "ints_inf": [1.0, math.inf],
}


@pytest.mark.parametrize("case", TABLE, ids=lambda case: case["name"])
def test_values_print_as_pytorch_prints_them(case):
    data = UNWRITTEN.get(case["name"], case["data"])
    assert repr(tensor(data)) == case["text"]


@pytest.mark.parametrize(
    ("dtype", "data", "text"),
    [
        (float64, [1.5, 2.0], "tensor([1.5000, 2.0000], dtype=rushlight.float64)"),
        (float16, [1.5, 2.25], "tensor([1.5000, 2.2500], dtype=rushlight.float16)"),
        (bfloat16, [1.5, 3.0], "tensor([1.5000, 3.0000], dtype=rushlight.bfloat16)"),
        (int32, [1, 2], "tensor([1, 2], dtype=rushlight.int32)"),
        (uint8, [1, 200], "tensor([  1, 200], dtype=rushlight.uint8)"),
        (int64, [1, 2], "tensor([1, 2])"),
        (int64, [], "tensor([], dtype=rushlight.int64)"),
    ],
)
def test_dtypes_are_named_unless_they_are_the_defaults(dtype, data, text):
    assert repr(tensor(data, dtype=dtype)) == text


def test_history_is_named():
    leaf = tensor([1.0, 2.0], requires_grad=True)
    assert repr(leaf) == "tensor([1., 2.], requires_grad=True)"
    assert repr(leaf * 2) == "tensor([2., 4.], grad_fn=<MulBackward0>)"


def test_long_last_lines_break_before_the_suffix():
    text = repr(ones(3, 30, requires_grad=True) * 2)
    assert text.splitlines()[-1] == "       grad_fn=<MulBackward0>)"


def test_tensors_without_data_print_their_sizes():
    assert repr(empty(2, 3, device="meta")) == "tensor(..., device='meta', size=(2, 3))"
    assert repr(empty(2, device="meta", dtype=int64)) == "tensor(..., device='meta', size=(2,), dtype=rushlight.int64)"
    assert repr(empty(0, 3)) == "tensor([], size=(0, 3))"


def test_options_change_precision_and_thresholds():
    try:
        set_printoptions(precision=2, threshold=5, edgeitems=1)
        assert repr(tensor([1.23456, 2.0])) == "tensor([1.23, 2.00])"
        assert repr(tensor([1, 2, 3, 4, 5, 6])) == "tensor([1,  ..., 6])"
    finally:
        set_printoptions(profile="default")


def test_a_tensor_without_dims_is_formatted_as_its_number():
    assert f"{tensor(1.5)} {tensor(3)} {tensor(True)} {tensor(1 + 2j)}" == "1.5 3 True (1+2j)"
    assert f"{tensor(1.23456):.2f} {tensor(7):03d} {tensor(1.5, requires_grad=True)}" == "1.23 007 1.5"
    assert f"{ones(2)} {ones((), device='meta')}" == "tensor([1., 1.]) tensor(..., device='meta', size=())"


class _Named(rl.Tensor):
    pass


class _Wrapped(rl.Tensor):
    @staticmethod
    def __new__(cls, inner):
        return rl.Tensor._make_wrapper_subclass(cls, inner.size(), dtype=rl.float64)

    def __init__(self, inner):
        self.inner = inner

    def __repr__(self):
        return super().__repr__(tensor_contents=f"inner={self.inner}")


def test_subclasses_print_the_names_of_their_classes():
    named = rl.ones(2).as_subclass(_Named)
    assert repr(named * 2) == "_Named([2., 2.])"
    assert repr(rl.ones(0, 2).as_subclass(_Named)) == "_Named([], size=(0, 2))"
    assert repr(rl.nn.Buffer(rl.ones(1))) == "tensor([1.])"
    assert repr(_Wrapped(rl.ones(1))) == "_Wrapped(inner=tensor([1.]), dtype=rushlight.float64)"
    assert rl.ones(1).__repr__(tensor_contents="x") == "tensor(x)"
