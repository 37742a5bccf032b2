"""Deviations explain what they are for, and nothing beside it."""

from __future__ import annotations

import math

import numpy as np
import pytest

import rushlight as rl
from tools.fuzz.deviations import COMPILED_RULES, OPERATOR_RULES, explained
from tools.fuzz.differing import Difference
from tools.fuzz.judging import peer_truth, step_difference
from tools.fuzz.program import DTYPES, Program, dense_input
from tools.fuzz.running import Outcome, Value
from tools.fuzz.stepping import Step, View

NAN, INF = float("nan"), float("inf")

CASES = [
    ("torch.fmod(v0, v1)", "float32", [[3e38, 5.0], [1e-30, 3.0]], [6.140135e-31, 2.0], [NAN, 2.0], [6e-31, 1.0]),
    ("v0.remainder_(0.1)", "bfloat16", [[-48049946624.0]], [0.1001], [0.006348], None),
    ("v0.remainder_(0.1)", "bfloat16", [[1.0]], [0.1001], [0.0991], [0.05]),
    ("v0 ** 1.0039", "bfloat16", [[300.0, 7.0]], [306.0, 7.0625], [300.0, 7.0], [310.0, 7.0625]),
    ("v0 - 1.00045", "float16", [[1.5, -2.75]], [0.49951171875, -3.75], [0.5, -3.75], [0.49, -3.75]),
    ("v0 ** 1.0", "bfloat16", [[300.0]], None, [300.0], [306.0]),
    ("F.conv_transpose1d(v0, v1)", "float32", [[1.0, INF]], [INF, NAN, 2.0], [NAN, 0.0, 2.0], [INF, NAN, 3.0]),
    ("F.conv_transpose1d(v0, v1)", "float32", [[1.0, 2.0]], None, [NAN, 0.0], [INF, NAN]),
    ("v0.prod()", "float32", [[1e30, 1e30, 1e-30, 1e-30]], 1.0, INF, None),
    ("v0.prod()", "float32", [[1e10, 1e10]], None, INF, 1e20),
    ("v0.pow(0.5)", "float32", [[-INF, -0.0]], [INF, 0.0], [NAN, -0.0], [INF, 1.0]),
    ("v0 ** 0.5", "float32", [[INF, 4.0]], None, [INF, 2.0], [NAN, 2.0]),
    ("v0.var()", "float32", [[0.1] * 7], 0.0, 6.4763e-17, 1e-3),
    ("torch.quantile(v0, 0.5)", "float32", [[-INF]], -INF, NAN, 1.0),
    ("v0.index_copy(0, v1, v2)", "float32", [[0.0, 0.0], [1, 1], [5.0, 6.0]], [0.0, 6.0], [0.0, 5.0], [0.0, 0.0]),
    ("torch.sigmoid(v0)", "float32", [[-89.0, 0.0]], [2.227364e-39, 0.5], [0.0, 0.5], [2.227364e-39, 0.25]),
]


@pytest.mark.parametrize(("statement", "dtype", "operands", "actual", "peer", "wrong"), CASES)
def test_a_rule_explains_what_it_is_for_alone(statement, dtype, operands, actual, peer, wrong) -> None:
    def outcome(numbers: object) -> Outcome:
        array = np.array(numbers).astype(DTYPES[dtype])
        return Outcome((Value("Tensor", dtype, array.shape, (1,) * array.ndim, array),), (), ())

    arrays = [np.array(numbers) for numbers in operands]
    inputs = tuple([dense_input(array, "int64" if array.dtype.kind == "i" else dtype, False) for array in arrays])
    given = Program(0, 0, inputs, (f"v2 = {statement}",), ("v2",))
    for one, expected in ((actual, True), (wrong, False)):
        if one is not None:
            difference = Difference(given, outcome(one), outcome(peer), "result 0: one, wanted another")
            assert (explained(difference, OPERATOR_RULES) is not None) == expected


def test_gradients_of_a_complex_renorm_may_be_nan_in_pytorch_alone() -> None:
    def outcome(number: complex, dtype: str) -> Outcome:
        array = np.full(3, number, dtype)
        return Outcome((), (), (Value("Tensor", dtype, (3,), (1,), array),))

    def rule(dtype: str, mine: complex, other: complex) -> str | None:
        given = Program(0, 0, (dense_input(np.ones(3), dtype, True),), ("v1 = v0.renorm_(2, 0, 1)",), ("v1",))
        return explained(Difference(given, outcome(mine, dtype), outcome(other, dtype), "gradient 0"), OPERATOR_RULES)

    assert rule("complex64", 1 + 2j, complex(NAN, NAN)) == "gradient of `renorm` of complex64"
    assert rule("complex64", 1 + 2j, 1 + 3j) is None
    assert rule("complex64", complex(NAN, NAN), 1 + 3j) is None
    assert rule("float64", 1.0, NAN) is None


def test_compiled_code_may_show_other_elements_that_nobody_wrote() -> None:
    def rule(statement: str) -> str | None:
        given = Program(0, 0, (), (f"v0 = torch.{statement}",), ("v0",))
        one, other = [
            Outcome((Value("Tensor", "float32", (2,), (1,), np.full(2, number, np.float32)),), (), ())
            for number in (0.0, 1.0)
        ]
        return explained(Difference(given, one, other, "result 0: one, wanted another"), COMPILED_RULES)

    assert rule("empty(2)") == rule("empty_strided((2,), (1,))") == "random values"
    assert rule("zeros(2)") is None and rule("rand(2)") is None


@pytest.mark.parametrize("written", [False, True])
def test_a_statement_that_fails_may_not_write(written: bool) -> None:
    memory = np.zeros(2, np.float32)
    before = {0: memory.view(np.uint8)}
    step = Step("v0[5] = 1", {"v0": View(0, "float32", (2,), (1,), 0)}, before, before, (), (), "IndexError")
    failed = Outcome((), (memory + written,), (), "IndexRangeError", "I001")
    detail = step_difference(step, failed, lambda step, magnitudes: None)
    assert (detail is not None) == written


BASE, EXPONENT = -3154968.2828301913 - 4j, -0.756892723621678 + 0.6672222572369004j
KL = 0.9942 * math.log(0.9942)
POWER = 9.598651411243138e-05 - 1.984575074660585e-05j


@pytest.mark.parametrize(
    ("statement", "dtype", "operands", "peer", "near", "wrong"),
    [
        # 2.1825 + 2.1825 * (1.1848 - 2.1825) cancels: what is left is rounding at the size of the terms
        ("v2 = v0.lerp(v1, v0)", "float32", [2.182513, 1.1848165], 0.0050273775, 0.0050274134, 0.0051),
        ("v2 = torch.lerp(v0, v1, 0.25)", "float32", [1.0, -3.0], 0.0, 1e-7, 1e-4),
        ("v2 = torch.lerp(v0, v1, 0.25)", "float32", [1.0, 3.0], 1.5, 1.5000002, 1.5001),
        ("v2 = v0.pow(v1)", "complex128", [BASE, EXPONENT], POWER, POWER * (1 + 3e-15), POWER * (1 + 3e-14)),
        ("v2 = v0 ** v1", "complex128", [2 + 0j, 1 + 1j], 2 ** (1 + 1j), 2 ** (1 + 1j), 2 ** (1 + 1j) * (1 + 3e-15)),
        # y * log(y) for y near 1 is as exact as y itself
        ("v2 = F.kl_div(v0, v1, reduction='none')", "float64", [0.0, 0.9942], KL, KL + 3e-16, KL + 3e-14),
        ("v3 = F.layer_norm(v0, (1,), v1, v2)", "float32", [2.0, 1000.0, 1e-3], 1e-3, 1.1e-3, 1.0),
    ],
)
def test_what_cancels_or_turns_is_judged_by_its_operands(statement, dtype, operands, peer, near, wrong) -> None:
    def outcome(number: complex) -> Outcome:
        array = np.array([number]).astype(DTYPES[dtype])
        return Outcome((Value("Tensor", dtype, (1,), (1,), array),), before, ())

    before = tuple([np.array([number, NAN]).astype(DTYPES[dtype]) for number in operands])
    memory = {place: array.view(np.uint8) for place, array in enumerate(before)}
    views = {f"v{place}": View(place, dtype, (1,), (1,), 0) for place in memory}
    step = Step(statement, views, memory, memory, outcome(peer).values, (None,))
    assert step_difference(step, outcome(near), peer_truth(rl)) is None
    assert step_difference(step, outcome(wrong), peer_truth(rl)) is not None
