"""Some of ONNX's node tests; `python -m tools.onnx_nodes` asks all."""

import pytest

pytest.importorskip("onnx", reason="the extra onnx is not installed")
from tools.onnx_nodes.agreeing import agree, array_of, collected
from tools.onnx_nodes.cases import operator_of, outcome

# Of each family of rules.
OPERATORS = [
    *("Add", "Where", "Clip", "Gelu", "Softmax", "ReduceSum", "ReduceMax", "ArgMax", "TopK", "MatMul", "Gemm"),
    *("Conv", "ConvTranspose", "MaxPool", "AveragePool", "BatchNormalization", "LayerNormalization", "Reshape"),
    *("Slice", "Pad", "Split", "Concat", "Gather", "ScatterND", "OneHot", "Resize", "If", "Loop", "Scan", "LSTM"),
    *("SequenceInsert", "StringConcat", "NonMaxSuppression", "Einsum", "GridSample", "CumSum", "Unique"),
]


@pytest.mark.parametrize("name", OPERATORS)
def test_node_tests_of_an_operator_pass(name: str):
    cases = [case for case in collected() if operator_of(case) == name][:3]
    assert cases and {case.name: outcome(case) for case in cases} == {case.name: "pass" for case in cases}


@pytest.mark.parametrize(
    "name", ["attention_local_window", "attention_4d_with_qk_matmul_softmax", "bitshift_right_int8_shift_ge_width"]
)
def test_a_node_test_that_once_gave_a_wrong_result_passes(name: str):
    (case,) = [case for case in collected() if case.name == f"test_{name}"]
    assert outcome(case) == "pass"


def test_a_wrong_result_is_told():
    (case,) = [case for case in collected() if case.name == "test_erf"]
    ((_, outputs),) = case.data_sets
    wanted = array_of(list(outputs))
    assert agree(wanted, wanted, case) and not agree([wanted[0] + 1], wanted, case)
    assert not agree([wanted[0].astype("float64")], wanted, case)
