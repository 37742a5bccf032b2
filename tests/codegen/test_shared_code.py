"""Kernels that differ in numbers of index arithmetic alone share their code, and compute what they did."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

import rushlight as rl
from rushlight.codegen.llvm.builder.functions import KERNEL_PARAMETERS, Functions
from rushlight.runtime import llvm
from rushlight.support import settings

F = rl.nn.functional
Emit = Callable[[str], str]
LINES = "\n".join([f"  %v{number} = add i64 %v1, {number}" for number in range(30, 60)])


def kernel(numbers: tuple[int, ...], divisor: int = 64, vector: int = 8) -> Emit:
    """The text of a kernel with numbers before its loop, in it, and in a division there."""
    first, second, third = numbers
    return lambda name: (
        f"""define void @{name}({KERNEL_PARAMETERS}) nounwind {{
entry:
  br label %start
start:
  %v1 = mul i64 %end, {first}
  %v2 = udiv i64 %v1, {second}
{LINES}
  br label %b3
b3:
  %v4 = phi i64 [ %v2, %start ], [ %v5, %b3 ]
  %v6 = add i64 %v4, {third}
  %v7 = udiv i64 %v6, {divisor}
  %v5 = add i64 %v7, {vector}
  %v8 = icmp slt i64 %v5, {third}
  br i1 %v8, label %b3, label %done
done:
  ret void
}}
"""
    )


def texts_of(*emitted: Emit) -> tuple[list[str], str]:
    """The names of kernels, and the module."""
    functions = Functions()
    names = [functions.add("kernel", emit) for emit in emitted]
    module = "\n".join(functions.shared())
    llvm.compile_object(module, llvm.host_target(), verify=True)
    return names, module


def test_numbers_that_differ_are_loaded_and_others_stay():
    names, module = texts_of(kernel((100, 32, 7)), kernel((200, 32, 7)), kernel((300, 32, 7)))
    assert names == ["kernel_0", "kernel_1", "kernel_2"]
    assert module.count("\nb3:") == 1
    assert "mul i64 %end, %n0" in module
    assert "udiv i64 %v1, 32" in module
    assert re.findall(r"@kernel_(\d)_numbers = .* \[i64 (\d+)\]", module) == [("0", "100"), ("1", "200"), ("2", "300")]


def test_numbers_that_differ_together_are_one():
    _names, module = texts_of(kernel((100, 32, 32)), kernel((100, 64, 64)))
    assert "[1 x i64] [i64 64]" in module
    assert "%n1" not in module


@pytest.mark.parametrize(
    "other",
    [
        pytest.param(kernel((100, 32, 7), divisor=32), id="divisors in loops"),
        pytest.param(kernel((100, 32, 7), vector=1), id="a number that says what is computed"),
        pytest.param(kernel((100, 1, 7)), id="one before the loop"),
    ],
)
def test_what_loops_gain_from_is_not_shared(other: Emit):
    _names, module = texts_of(kernel((100, 32, 7)), other)
    assert module.count("\nb3:") == 2
    assert "numbers" not in module


def test_short_kernels_are_not_shared():
    short = [lambda name, n=n: kernel((n, 32, 7))(name).replace(LINES, "") for n in (100, 200)]
    assert "numbers" not in texts_of(*short)[1]


def layer(x: rl.Tensor, weight: rl.Tensor) -> rl.Tensor:
    """A convolution and a norm of rows."""
    return F.layer_norm(F.relu(F.conv2d(x, weight, padding=1)), x.shape[-1:])


def test_a_network_has_the_bits_of_its_eager_calls(monkeypatch: pytest.MonkeyPatch):
    rl.manual_seed(0)
    weights = [rl.randn(8 << number, 4 << number, 3, 3) for number in range(3)]
    texts: list[str] = []
    inner = llvm.compile_object

    def noted(text: str, *rest: Any) -> bytes:
        texts.append(text)
        return inner(text, *rest)

    monkeypatch.setattr(llvm, "compile_object", noted)

    def network(x: rl.Tensor) -> rl.Tensor:
        for weight in weights:
            x = layer(x, weight)
        return x

    with settings.override(cache=False):
        together = rl.compile(network, fullgraph=True)
        for shape in ((1, 4, 13, 27), (2, 4, 16, 16), (0, 4, 8, 8)):
            x = rl.randn(*shape)
            found = together(x)
            assert sum(text.count("_numbers = ") for text in texts) >= 3
            assert rl.equal(found, network(x))
